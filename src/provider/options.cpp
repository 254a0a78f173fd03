#include "provider/options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/memory_size.h"
#include "base/spelling.h"
#include "gpux/error.h"
#include "provider/gpu_devices.h"
#include "provider/precision.h"
#include "provider/resolved_options.h"

namespace gpux::provider {
namespace {

std::vector<std::string> names_of(const ProviderRow& row) {
  std::vector<std::string> names;
  for (const OptionRow& option : row.options) names.emplace_back(option.name);
  return names;
}

std::optional<bool> parse_boolean(std::string_view text) {
  const std::string word = lower(text);
  if (word == "1" || word == "true" || word == "yes" || word == "on") return true;
  if (word == "0" || word == "false" || word == "no" || word == "off") return false;
  return std::nullopt;
}

std::string checked_value(const ProviderRow& row, const OptionRow& option, const std::string& name,
                          const std::string& value) {
  switch (option.type) {
    case OptionType::boolean: {
      const auto truth = parse_boolean(value);
      if (!truth) refuse(row, name, fmt::format("is '{}'; accepted: true, false", value));
      // What ONNX Runtime writes itself; DirectML, OpenVINO and CoreML read words or digits.
      if (row.id == "openvino" || row.id == "directml") return *truth ? "true" : "false";
      return *truth ? "1" : "0";
    }
    case OptionType::integer: {
      long long number = 0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
      if (error != std::errc() || end != value.data() + value.size()) {
        refuse(row, name, fmt::format("is '{}'; accepted: an integer", value));
      }
      return value;
    }
    case OptionType::size: {
      const auto bytes = parse_memory_size(value);
      if (!bytes) refuse(row, name, fmt::format("is '{}'; accepted: a number of bytes, or a size like 2GB", value));
      return std::to_string(*bytes);
    }
    case OptionType::choice: {
      for (const std::string_view choice : option.choices) {
        if (lower(choice) == lower(value)) return std::string(choice);
      }
      std::vector<std::string> choices(option.choices.begin(), option.choices.end());
      refuse(row, name, fmt::format("is '{}'; accepted: {}", value, join(choices)));
    }
    case OptionType::text:
    case OptionType::path:
      return value;
  }
  return value;
}

void note(ResolvedOptions& options, const ProviderRow& row, const std::string& from, const std::string& to) {
  options.notes.push_back(fmt::format("{}: {} became {}", row.id, from, to));
}

// CoreML's flags before 1.20 (coreml_provider_factory.h), bit by bit.
void translate_coreml_flags(ResolvedOptions& options, const ProviderRow& row, const std::string& value) {
  char* end = nullptr;
  const unsigned long flags = std::strtoul(value.c_str(), &end, 0);
  if (value.empty() || *end != '\0' || flags > 0x3f) {
    refuse(row, "coreml_flags", fmt::format("is '{}'; accepted: a sum of the flags 1, 2, 4, 8, 16, 32", value));
  }

  struct Flag {
    unsigned long bit;
    const char* name;
    const char* value;
  };

  static constexpr std::array<Flag, 6> table{{{0x01, "MLComputeUnits", "CPUOnly"},
                                              {0x02, "EnableOnSubgraphs", "1"},
                                              {0x04, "MLComputeUnits", "CPUAndNeuralEngine"},
                                              {0x08, "RequireStaticInputShapes", "1"},
                                              {0x10, "ModelFormat", "MLProgram"},
                                              {0x20, "MLComputeUnits", "CPUAndGPU"}}};
  std::string became;
  for (const Flag& flag : table) {
    if ((flags & flag.bit) == 0) continue;
    put(options, flag.name, flag.value);
    became += fmt::format("{}{}={}", became.empty() ? "" : ", ", flag.name, flag.value);
  }
  note(options, row, "coreml_flags=" + value, became.empty() ? "nothing (no flag is set)" : became);
}

// OpenVINO's device types with a precision in them ("CPU_FP32") ended with its 2024 releases.
bool translate_device_type(ResolvedOptions& options, const ProviderRow& row, const std::string& value) {
  for (const char* precision : {"FP32", "FP16"}) {
    const std::string suffix = std::string("_") + precision;
    if (!value.ends_with(suffix)) continue;
    const std::string device = value.substr(0, value.size() - suffix.size());
    put(options, "device_type", device);
    put(options, "precision", precision);
    note(options, row, "device_type=" + value, fmt::format("device_type={}, precision={}", device, precision));
    return true;
  }
  return false;
}

// Names of other versions and of other people's documents.
bool translate(ResolvedOptions& options, const ProviderRow& row, const std::string& name, const std::string& value) {
  if (row.id == "tensorrt" && name == "trt_strict_type_constraints") {
    refuse(
        row, name,
        "was removed from TensorRT and ONNX Runtime; use trt_layer_norm_fp32_fallback to keep layer norms in fp32, or "
        "leave trt_fp16_enable off");
  }
  if (row.id == "coreml" && name == "coreml_flags") {
    translate_coreml_flags(options, row, value);
    return true;
  }
  if (row.id == "coreml" && name == "MLComputeUnits") {
    static constexpr std::array<std::pair<const char*, const char*>, 3> spellings{
        {{"CPU_AND_GPU", "CPUAndGPU"}, {"CPU_ONLY", "CPUOnly"}, {"CPU_AND_NE", "CPUAndNeuralEngine"}}};
    for (const auto& [spelling, real] : spellings) {
      if (value != spelling) continue;
      put(options, name, real);
      note(options, row, name + "=" + value, name + "=" + real);
      return true;
    }
  }
  if (row.id == "openvino" && name == "device_type") return translate_device_type(options, row, value);
  if (row.id == "openvino" && name == "device_id") {
    refuse(row, name, "was removed from ONNX Runtime; use device_type, as in device_type=GPU.1");
  }
  if (row.id == "migraphx" && (name == "gpu_mem_limit" || name == "arena_extend_strategy")) {
    const std::string real = name == "gpu_mem_limit" ? "migraphx_mem_limit" : "migraphx_arena_extend_strategy";
    put(options, real, checked_value(row, *find_option(row, real), name, value));
    note(options, row, name, real);
    return true;
  }
  return false;
}

// OpenVINO as a plugin takes its settings in one JSON text (load_config), by OpenVINO's own property names.
void to_load_config(ResolvedOptions& options, const ProviderRow& row) {
  static constexpr std::array<std::pair<const char*, const char*>, 4> properties{
      {{"cache_dir", "CACHE_DIR"},
       {"precision", "INFERENCE_PRECISION_HINT"},
       {"num_streams", "NUM_STREAMS"},
       {"num_of_threads", "INFERENCE_NUM_THREADS"}}};
  std::string device = "CPU";
  nlohmann::ordered_json members;
  OptionList kept;
  for (const auto& [name, value] : options.passed) {
    if (name == "device_type") {
      device = value.substr(0, value.find('.'));
      continue;
    }
    const auto property =
        std::find_if(properties.begin(), properties.end(), [&](const auto& p) { return name == p.first; });
    if (property == properties.end()) {
      kept.emplace_back(name, value);
      continue;
    }
    if (name == "precision" && value == "ACCURACY") {
      members["EXECUTION_MODE_HINT"] = value;
      note(options, row, "precision=ACCURACY", "EXECUTION_MODE_HINT in load_config");
      continue;
    }
    members[property->second] = name == "precision" ? (value == "FP16" ? "f16" : "f32") : value;
    note(options, row, name, fmt::format("{} in load_config", property->second));
  }
  if (!members.empty()) {
    if (std::any_of(kept.begin(), kept.end(), [](const auto& option) { return option.first == "load_config"; })) {
      refuse(row, "load_config", "cannot be combined with cache_dir, precision, num_streams or num_of_threads");
    }
    kept.emplace_back("load_config", nlohmann::ordered_json{{device, members}}.dump(
                                         -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  }
  options.passed = std::move(kept);
}

void apply_device(const ProviderRow& row, unsigned device, bool as_plugin, ResolvedOptions& options) {
  const std::string text = std::to_string(device);
  if (row.id == "webgpu") {
    options.device = device;
    if (device == 0 || has(options, "adapterIndex")) return;
    put(options, "adapterIndex", text);
    note(options, row, "device=" + text, "adapterIndex=" + text + ", which its releases before 0.5 ignore");
  } else if (find_option(row, "device_id") != nullptr && !as_plugin) {
    put_unless_said(options, "device_id", text);
  } else {
    options.device = device;
  }
}

// The device that OpenVINO's spelling ("GPU.1") means, by its place in the list.
std::optional<std::size_t> find_openvino_device(const std::string& type, std::span<const Device> devices) {
  const std::vector<std::string> parts = split(lower(type), '.');
  std::size_t skip = parts.size() > 1 ? static_cast<std::size_t>(std::strtoul(parts[1].c_str(), nullptr, 10)) : 0;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (devices[i].kind == parts[0] && skip-- == 0) return i;
  }
  return std::nullopt;
}

std::string openvino_type_of(const Device& device) {
  if (device.kind == "cpu") return "CPU";
  if (device.kind == "npu") return "NPU";
  return device.name.starts_with("GPU") ? device.name : "GPU";
}

Error no_device(const ProviderRow& row, std::size_t index, std::span<const Device> devices) {
  return {ErrorCode::provider_unavailable,
          fmt::format("provider {}: there is no device {}; accepted: {}", row.id, index, numbered(devices))};
}

// OpenVINO would take its own default, whatever else is there: it is told the device that was found.
void apply_openvino_device(const ProviderRow& row, std::optional<unsigned> wanted, std::span<const Device> devices,
                           bool as_plugin, ResolvedOptions& options) {
  std::optional<std::size_t> place;
  for (const auto& [name, value] : options.passed) {
    if (name != "device_type") continue;
    if (!as_plugin || devices.empty()) return;  // its own word counts
    place = find_openvino_device(value, devices);
    if (place) break;
    std::vector<std::string> types;
    for (const Device& device : devices) types.push_back(openvino_type_of(device));
    throw Error(ErrorCode::provider_unavailable,
                fmt::format("provider {}: there is no device '{}' here; accepted: {}", row.id, value, join(types)));
  }
  if (!place && !wanted && devices.empty()) return;
  if (!place) place = wanted.value_or(0);
  if (!devices.empty() && *place >= devices.size()) {
    throw no_device(row, *place, devices);
  }
  if (!devices.empty()) {
    put(options, "device_type", openvino_type_of(devices[*place]));
  } else if (*place != 0) {
    put(options, "device_type", fmt::format("GPU.{}", *place));
  }
  if (as_plugin) options.device = static_cast<unsigned>(*place);
}

bool apply_memory(const ProviderRow& row, std::uint64_t bytes, ResolvedOptions& options) {
  for (const char* name : {"gpu_mem_limit", "migraphx_mem_limit", "npu_mem_limit"}) {
    if (find_option(row, name) == nullptr) continue;
    put_unless_said(options, name, std::to_string(bytes));
    options.memory_limited = true;
    return true;
  }
  return false;
}

bool apply_cache(const ProviderRow& row, const std::string& folder, ResolvedOptions& options) {
  if (row.id == "tensorrt") {
    put_unless_said(options, "trt_engine_cache_enable", "1");
    put_unless_said(options, "trt_engine_cache_path", folder);
    // How long each kernel took on this device: what spares most of the time where an engine is built again.
    put_unless_said(options, "trt_timing_cache_enable", "1");
    put_unless_said(options, "trt_timing_cache_path", folder);
    return true;
  }
  for (const char* name : {"nv_runtime_cache_path", "migraphx_model_cache_dir", "ModelCacheDirectory", "cache_dir"}) {
    if (find_option(row, name) == nullptr) continue;
    put_unless_said(options, name, folder);
    return true;
  }
  return false;
}

// TensorRT and OpenVINO compile for ranges of shapes. Others take shapes as they come.
bool apply_shapes(const ProviderRow& row, const std::string& text, bool as_plugin, ResolvedOptions& options) {
  if (!takes_shapes(row, as_plugin)) return false;
  const std::vector<ShapeRange> ranges = parse_shape_profile(text);
  if (row.id == "openvino") {
    put_unless_said(options, "reshape_input", reshape_text(ranges));
    return true;
  }
  const std::string prefix = row.id == "tensorrt" ? "trt" : "nv";
  put_unless_said(options, prefix + "_profile_min_shapes", shapes_text(ranges, &ShapeRange::smallest));
  put_unless_said(options, prefix + "_profile_opt_shapes", shapes_text(ranges, &ShapeRange::tuned));
  put_unless_said(options, prefix + "_profile_max_shapes", shapes_text(ranges, &ShapeRange::largest));
  return true;
}

bool apply_threads(const ProviderRow& row, unsigned threads, ResolvedOptions& options) {
  if (row.id == "cpu") return true;  // the session's own threads
  for (const char* name : {"num_of_threads", "intra_op_num_threads"}) {
    if (find_option(row, name) == nullptr) continue;
    put_unless_said(options, name, std::to_string(threads));
    return true;
  }
  return false;
}

// A plugin is given a device of its list; its own number for it could contradict that.
void to_plugin_device(const ProviderRow& row, ResolvedOptions& options) {
  if (row.id != "cuda" && row.id != "tensorrt-rtx" && row.id != "migraphx") return;
  const auto given =
      std::ranges::find_if(options.passed, [](const auto& option) { return option.first == "device_id"; });
  if (given == options.passed.end()) return;
  options.device = static_cast<unsigned>(std::strtoul(given->second.c_str(), nullptr, 10));
  options.passed.erase(given);
}

// Which of the devices the options mean. Error provider_unavailable where there is none of this number.
void settle_device(const ProviderRow& row, bool as_plugin, std::span<const Device> devices, ResolvedOptions& options) {
  if (devices.empty()) return;
  std::size_t index = options.device.value_or(0);
  if (const std::string_view given = value_of(options, "device_id"); !given.empty()) {
    index = static_cast<std::size_t>(std::strtoul(std::string(given).c_str(), nullptr, 10));
  } else if (row.id == "openvino" && !as_plugin) {
    const auto found = find_openvino_device(std::string(value_of(options, "device_type")), devices);
    if (!found) return;  // AUTO and the like: OpenVINO chooses
    index = *found;
  }
  if (index >= devices.size()) throw no_device(row, index, devices);
  options.used_device = static_cast<unsigned>(index);
}

// Recorded runs are replayed with the memory that the recorded one had, and every run of gpux has memory of its own.
constexpr std::array<std::string_view, 6> recording_options{"enable_cuda_graph",    "trt_cuda_graph_enable",
                                                            "nv_cuda_graph_enable", "enablegraphcapture",
                                                            "enable_graph_capture", "hip_graph_enable"};

}  // namespace

bool takes_shapes(const ProviderRow& row, bool as_plugin) {
  return has_option(row, "trt_profile_min_shapes") || has_option(row, "nv_profile_min_shapes") ||
         (has_option(row, "reshape_input") && !as_plugin);
}

std::string reason_against(std::string_view name, std::string_view value) {
  const std::string option = lower(name.substr(name.rfind('.') == std::string_view::npos ? 0 : name.rfind('.') + 1));
  if (option == "backend_type" && (lower(value) == "saver" || lower(value) == "ir")) {
    return "records the model for Qualcomm's tools and computes nothing";
  }
  if (!parse_boolean(value).value_or(false)) return {};
  if (std::ranges::find(recording_options, option) != recording_options.end()) {
    return "replays a recorded run on the memory of that run, and gpux gives each run memory of its own: the answers "
           "would be those of an earlier input";
  }
  if (option == "enable_causallm") {
    return "keeps the keys and values of a text in the session, and gpux runs many texts in one session";
  }
  return {};
}

bool read_common_option(const std::string& name, const std::string& value, CommonOptions& common) {
  const auto fail = [&](const char* accepted) -> void {
    throw Error(ErrorCode::usage, fmt::format("option '{}' is '{}'; accepted: {}", name, value, accepted));
  };
  const auto number = [&]() -> unsigned {
    unsigned parsed = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
    if (error != std::errc() || end != value.data() + value.size()) fail("a number");
    return parsed;
  };
  if (name == "device") {
    common.device = number();
  } else if (name == "threads") {
    common.threads = number();
  } else if (name == "memory") {
    common.memory_bytes = parse_memory_size(value);
    if (!common.memory_bytes) fail("a number of bytes, or a size like 2GB");
  } else if (name == "precision") {
    common.precision = lower(value);
    static constexpr std::array<std::string_view, 6> known{"fp32", "tf32", "fp16", "bf16", "int8", "int8-bf16"};
    if (std::find(known.begin(), known.end(), common.precision) == known.end()) {
      fail("fp32, tf32, fp16, bf16, int8, int8-bf16");
    }
  } else if (name == "cache_directory") {
    common.cache_directory = value;
  } else if (name == "shapes") {
    (void)parse_shape_profile(value);
    common.shapes = value;
  } else {
    return false;
  }
  return true;
}

bool names_a_place(std::string_view provider, std::string_view name, std::string_view value) {
  if (name == "cache_directory") return true;
  const ProviderRow* row = find_row(provider);
  if (row == nullptr) return value.find_first_of("/\\") != std::string_view::npos;
  const OptionRow* option = find_option(*row, name);
  return option != nullptr && option->type == OptionType::path;
}

namespace {

// The user's options of the provider by name; those that all providers have go to `own`. Error usage.
void read_given(const ProviderRow& row, const OptionList& given, CommonOptions& own, ResolvedOptions& options) {
  for (const auto& [name, value] : given) {
    // OpenVINO has a precision of its own, with a value more than everybody's.
    const bool own_value = row.id == "openvino" && name == "precision" && lower(value) == "accuracy";
    if (!own_value && read_common_option(name, value, own)) continue;
    if (translate(options, row, name, value)) continue;
    const OptionRow* option = find_option(row, name);
    if (option == nullptr) {
      const std::vector<std::string> names = names_of(row);
      const std::string_view near = nearest(name, names);
      refuse(row, name,
             fmt::format("is not known{}; {}", near.empty() ? "" : fmt::format(", did you mean '{}'?", near),
                         names.empty() ? "it has none" : "accepted: " + join(names)));
    }
    if (const std::string reason = reason_against(name, value); !reason.empty()) {
      refuse(row, name, fmt::format("is refused as '{}': it {}", value, reason));
    }
    put(options, name, checked_value(row, *option, name, value));
  }
}

}  // namespace

ResolvedOptions resolve_options(const ProviderRow& row, const OptionList& given, const CommonOptions& common,
                                bool as_plugin, std::span<const Device> devices) {
  ResolvedOptions options;
  CommonOptions own;
  read_given(row, given, own, options);
  // An option of the user's for just this provider must have a counterpart; one for all providers may lack it.
  const auto apply = [&](const char* name, bool own_given, bool common_given, auto&& action) {
    if (!own_given && !common_given) return;
    if (action()) return;
    if (own_given) refuse(row, name, "has no counterpart there");
    options.unenforced.push_back(fmt::format("{}: {} has no counterpart there and is not enforced", row.id, name));
  };
  const auto device = own.device ? own.device : common.device;
  if (row.id == "openvino") {
    apply_openvino_device(row, device, devices, as_plugin, options);
  } else {
    apply("device", own.device.has_value(), common.device.has_value(), [&] {
      if (row.kind == "cpu") return *device == 0;
      apply_device(row, *device, as_plugin, options);
      return true;
    });
  }
  const auto memory = own.memory_bytes ? own.memory_bytes : common.memory_bytes;
  if (memory && !apply_memory(row, *memory, options) && own.memory_bytes) {
    refuse(row, "memory", "has no counterpart there; set gpu.memory, which is measured after loading");
  }
  if (own.precision.empty()) {
    options.precisions = precisions_of(row, common.tf32_is_off, options);
    // Of a plugin's devices nothing is known before it is opened: a graphics card would take this one.
    const bool any_device = as_plugin && devices.empty() && !has(options, "device_type");
    if (row.id == "openvino" && any_device && !options.precisions.empty()) options.precisions.emplace_back("fp16");
  }
  set_precision(row, own.precision, common.precision, common.tf32_is_off, options);
  const std::string& cache = own.cache_directory.empty() ? common.cache_directory : own.cache_directory;
  apply("cache_directory", !own.cache_directory.empty(), !common.cache_directory.empty(),
        [&] { return apply_cache(row, cache, options); });
  const std::string& shapes = own.shapes.empty() ? common.shapes : own.shapes;
  const bool has_shapes = !shapes.empty() && (!own.shapes.empty() || takes_shapes(row, as_plugin));
  apply("shapes", !own.shapes.empty(), has_shapes, [&] { return apply_shapes(row, shapes, as_plugin, options); });
  options.shapes = ranges_of_options(options.passed);
  const auto threads = own.threads ? own.threads : common.threads;
  apply("threads", own.threads.has_value(), common.threads.has_value(),
        [&] { return apply_threads(row, *threads, options) || !own.threads; });
  if (as_plugin && row.id == "openvino") to_load_config(options, row);
  // Where several runs share it, a recorded one would be replayed on the memory of the first.
  if (row.id == "tensorrt-rtx") put_unless_said(options, "enable_cuda_graph", "0");
  if (as_plugin) to_plugin_device(row, options);
  settle_device(row, as_plugin, devices, options);
  settle_precision(row, common.tf32_is_off, as_plugin, devices, options);
  return options;
}

}  // namespace gpux::provider

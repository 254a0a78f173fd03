#include "provider/precision.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/spelling.h"
#include "provider/resolved_options.h"

namespace gpux::provider {
namespace {

// What OpenVINO takes depends on the device: its processors know fp32, and bf16 by a property of their own.
bool apply_openvino_precision(const std::string& precision, ResolvedOptions& options) {
  if (has(options, "precision")) return true;
  const auto device = std::find_if(options.passed.begin(), options.passed.end(),
                                   [](const auto& option) { return option.first == "device_type"; });
  const bool on_processor = device == options.passed.end() || device->second == "CPU";
  if (precision == "fp32" || (precision == "fp16" && !on_processor)) {
    put_unless_said(options, "precision", precision == "fp32" ? "FP32" : "FP16");
    return true;
  }
  if (precision == "bf16" && on_processor && !has(options, "load_config")) {
    put_unless_said(options, "load_config", R"({"CPU":{"INFERENCE_PRECISION_HINT":"bf16"}})");
    return true;
  }
  return false;
}

// What each needs so that float32 is computed as such.
bool apply_fp32(const ProviderRow& row, bool tf32_is_off, ResolvedOptions& options) {
  if (row.id == "cuda") {
    put_unless_said(options, "use_tf32", "0");
  } else if (row.id == "qnn") {
    put_unless_said(options, "enable_htp_fp16_precision", "0");
  } else if (row.id == "coreml") {
    // Its older format has no types, and the Neural Engine has no float32.
    put_unless_said(options, "ModelFormat", "MLProgram");
    put_unless_said(options, "MLComputeUnits", "CPUAndGPU");
    put_unless_said(options, "AllowLowPrecisionAccumulationOnGPU", "0");
  } else if (row.id == "cann") {
    put_unless_said(options, "precision_mode", "must_keep_origin_dtype");
  } else if (row.computes_float32_in == "tf32") {
    return tf32_is_off;
  }
  return !row.computes_float32_in.empty();
}

bool apply_tf32(const ProviderRow& row, bool tf32_is_off, ResolvedOptions& options) {
  if (row.computes_float32_in != "tf32" || tf32_is_off) return false;
  if (row.id == "cuda") put_unless_said(options, "use_tf32", "1");
  return true;
}

bool apply_precision(const ProviderRow& row, const std::string& precision, bool tf32_is_off, ResolvedOptions& options) {
  if (row.id == "openvino") return apply_openvino_precision(precision, options);
  if (const OptionRow* own = find_option(row, "precision"); own != nullptr) {
    if (std::ranges::find(own->choices, precision) == own->choices.end()) return false;
    put_unless_said(options, "precision", precision);
    return true;
  }
  if (precision == "fp32") return apply_fp32(row, tf32_is_off, options);
  if (precision == "tf32") return apply_tf32(row, tf32_is_off, options);
  for (const char* prefix : {"trt_", "migraphx_"}) {
    const std::string name = std::string(prefix) + precision + "_enable";
    if (find_option(row, name) == nullptr) continue;
    put_unless_said(options, name, "1");
    return true;
  }
  if (row.id == "qnn" && precision == "fp16") {
    put_unless_said(options, "enable_htp_fp16_precision", "1");
    return true;
  }
  return false;
}

bool needs_calibration(const ProviderRow& row, std::string_view precision) {
  return precision == "int8" && (find_option(row, "trt_int8_calibration_table_name") != nullptr ||
                                 find_option(row, "migraphx_int8_calibration_table_name") != nullptr);
}

// The hint in OpenVINO's settings, as the JSON text that load_config may be.
std::string hinted_precision(std::string_view load_config) {
  const std::size_t hint = load_config.find("INFERENCE_PRECISION_HINT");
  if (hint == std::string_view::npos) return {};
  const std::string_view behind = load_config.substr(hint);
  static constexpr std::array<std::pair<std::string_view, const char*>, 3> words{
      {{"\"f32\"", "fp32"}, {"\"f16\"", "fp16"}, {"\"bf16\"", "bf16"}}};
  for (const auto& [word, precision] : words) {
    constexpr std::size_t near = 40;  // less than std::string_view::npos
    if (behind.find(word) < near) return precision;
  }
  return {};
}

std::string openvino_precision(bool as_plugin, std::span<const Device> devices, const ResolvedOptions& options) {
  const std::string_view given = value_of(options, "precision");
  if (given == "FP32" || given == "ACCURACY") return "fp32";
  if (given == "FP16") return "fp16";
  const std::string_view config = value_of(options, "load_config");
  if (config.find("EXECUTION_MODE_HINT") != std::string_view::npos) return "fp32";
  if (!config.empty()) return hinted_precision(config);
  std::string device(value_of(options, "device_type"));
  if (device.empty() && options.device && *options.device < devices.size()) device = devices[*options.device].kind;
  device = lower(device);
  if (device.starts_with("gpu") || device.starts_with("npu")) return "fp16";
  // As a plugin it takes bfloat16 where the processor has it.
  return device == "cpu" && !as_plugin ? "fp32" : std::string();
}

std::string tensorrt_precision(const ProviderRow& row, bool tf32_is_off, const ResolvedOptions& options) {
  const std::string prefix = row.id == "migraphx" ? "migraphx_" : "trt_";
  std::vector<std::string> lower_ones;
  for (const char* precision : {"int8", "fp8", "bf16", "fp16"}) {
    if (value_of(options, prefix + precision + "_enable") == "1") lower_ones.emplace_back(precision);
  }
  if (!lower_ones.empty()) return join(lower_ones, "/");
  return row.computes_float32_in == "tf32" && !tf32_is_off ? "tf32" : "fp32";
}

// NVIDIA's have TF32 from Ampere (sm_80) on. One of unknown kind counts as having it.
bool has_tf32(std::span<const Device> devices, const ResolvedOptions& options) {
  const std::size_t index = options.used_device.value_or(0);
  if (index >= devices.size() || !devices[index].architecture.starts_with("sm_")) return true;
  return std::strtoul(devices[index].architecture.c_str() + 3, nullptr, 10) >= 80;
}

std::string computed_precision(const ProviderRow& row, bool tf32_is_off, bool as_plugin,
                               std::span<const Device> devices, const ResolvedOptions& options) {
  tf32_is_off = tf32_is_off || !has_tf32(devices, options);
  if (row.id == "openvino") return openvino_precision(as_plugin, devices, options);
  if (row.id == "tensorrt" || row.id == "tensorrt-rtx" || row.id == "migraphx") {
    return tensorrt_precision(row, tf32_is_off, options);
  }
  if (row.id == "cuda") return tf32_is_off || value_of(options, "use_tf32") == "0" ? "fp32" : "tf32";
  if (row.id == "qnn") {
    const std::string_view backend = value_of(options, "backend_type");
    if (backend == "cpu") return "fp32";
    if (!backend.empty() && backend != "htp") return {};
    return value_of(options, "enable_htp_fp16_precision") == "0" ? "fp32" : "fp16";
  }
  if (row.id == "coreml") {
    if (value_of(options, "MLComputeUnits") == "CPUOnly") return "fp32";
    const bool is_typed = value_of(options, "ModelFormat") == "MLProgram";
    return is_typed && value_of(options, "AllowLowPrecisionAccumulationOnGPU") != "1" ? "fp32" : "fp16";
  }
  if (row.id == "cann") {
    const std::string_view mode = value_of(options, "precision_mode");
    return mode == "must_keep_origin_dtype" || mode.starts_with("force_fp32") ? "fp32" : "fp16";
  }
  if (row.id == "acl" && value_of(options, "enable_fast_math") == "1") return "bf16";
  if (row.id == "nnapi" && value_of(options, "use_fp16") == "1") return "fp16";
  const std::string_view own =
      find_option(row, "precision") == nullptr ? std::string_view() : value_of(options, "precision");
  return std::string(own.empty() ? row.computes_float32_in : own);
}

}  // namespace

std::vector<std::string> precisions_of(const ProviderRow& row, bool tf32_is_off, const ResolvedOptions& options) {
  std::vector<std::string> precisions;
  bool fp32_is_open = false;
  for (const char* precision : {"fp32", "tf32", "fp16", "bf16", "int8", "int8-bf16"}) {
    ResolvedOptions with = options;
    if (needs_calibration(row, precision) || !apply_precision(row, precision, tf32_is_off, with)) continue;
    const bool is_open = with.passed.size() != options.passed.size();
    const bool is_default = row.id != "cuda" && std::string_view(precision) == row.computes_float32_in;
    if (is_open || is_default || std::string_view(precision) == "fp32") precisions.emplace_back(precision);
    fp32_is_open = fp32_is_open || (is_open && std::string_view(precision) == "fp32");
  }
  const bool has_choice = precisions.size() > 1 || (fp32_is_open && row.computes_float32_in != "fp32");
  if (!has_choice) precisions.clear();
  return precisions;
}

void set_precision(const ProviderRow& row, const std::string& own, const std::string& common, bool tf32_is_off,
                   ResolvedOptions& options) {
  const std::string& precision = own.empty() ? common : own;
  if (precision.empty()) return;
  const std::string others = join(precisions_of(row, tf32_is_off, options));
  if (apply_precision(row, precision, tf32_is_off, options)) {
    options.precision = precision;
  } else if (own.empty() && precision == "fp32" && row.computes_float32_in == "tf32") {
    options.unenforced.push_back(
        fmt::format("{} computes float32 in tf32, and has no option against that: precision fp32 is not enforced; set "
                    "NVIDIA_TF32_OVERRIDE=0 in the environment",
                    row.id));
  } else if (!own.empty()) {
    refuse(row, "precision",
           others.empty() ? "has no counterpart there" : fmt::format("is '{}'; accepted: {}", precision, others));
  } else if (others.empty()) {
    options.unenforced.push_back(fmt::format("{}: precision has no counterpart there and is not enforced", row.id));
  } else {
    options.unenforced.push_back(
        fmt::format("{} computes in {}, not in {}: precision is not enforced", row.id, others, precision));
  }
}

void settle_precision(const ProviderRow& row, bool tf32_is_off, bool as_plugin, std::span<const Device> devices,
                      ResolvedOptions& options) {
  options.computes_float32_in = computed_precision(row, tf32_is_off, as_plugin, devices, options);
  const std::string& computed = options.computes_float32_in;
  if (options.precision.empty() || computed.empty() || computed == options.precision) return;
  if (options.precision != "tf32" || computed != "fp32") {
    options.unenforced.push_back(fmt::format("{}: its options make it compute in {}: precision {} is not enforced",
                                             row.id, computed, options.precision));
  }
  options.precision.clear();
}

}  // namespace gpux::provider

#include "ort/session.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

#include <fmt/format.h>

#include "base/dynamic_library.h"
#include "base/format_message.h"
#include "base/log.h"
#include "ort/api.h"
#include "ort/core.h"
#include "ort/input_memory.h"
#include "ort/message.h"
#include "ort/session_state.h"

namespace gpux::ort {

std::vector<AssignedNode> read_assignment(const OrtSession* session);

namespace {

GraphOptimizationLevel to_ort(OptimizationLevel level) {
  switch (level) {
    case OptimizationLevel::disabled:
      return ORT_DISABLE_ALL;
    case OptimizationLevel::basic:
      return ORT_ENABLE_BASIC;
    case OptimizationLevel::extended:
      return ORT_ENABLE_EXTENDED;
    case OptimizationLevel::layout:
      return ORT_ENABLE_LAYOUT;
    case OptimizationLevel::all:
      return ORT_ENABLE_ALL;
  }
  return ORT_ENABLE_ALL;
}

using OptionMap = std::unordered_map<std::string, std::string>;

struct CStrings {
  std::vector<const char*> keys, values;

  explicit CStrings(const std::vector<std::pair<std::string, std::string>>& options) {
    for (const auto& [key, value] : options) {
      keys.push_back(key.c_str());
      values.push_back(value.c_str());
    }
  }
};

// CUDA, TensorRT, DNNL and CANN: an options object is made, updated with texts, appended and released.
template <typename Options>
void append_bridge(Ort::SessionOptions& session, const ProviderAppend& provider,
                   OrtStatus*(ORT_API_CALL* create)(Options**),
                   OrtStatus*(ORT_API_CALL* update)(Options*, const char* const*, const char* const*, std::size_t),
                   void(ORT_API_CALL* release)(Options*),
                   OrtStatus*(ORT_API_CALL* append)(OrtSessionOptions*, const Options*)) {
  Options* raw = nullptr;
  Ort::ThrowOnError(create(&raw));
  const std::unique_ptr<Options, void(ORT_API_CALL*)(Options*)> options(raw, release);
  const CStrings texts(provider.options);
  Ort::ThrowOnError(update(options.get(), texts.keys.data(), texts.values.data(), texts.keys.size()));
  Ort::ThrowOnError(append(session, options.get()));
}

// Functions of a library that was built with the provider, which are not in the interface's table.
template <typename Function>
Function* core_function(const char* name) {
  std::string failure;
  const auto library = DynamicLibrary::open(Core::current()->library(), failure);
  void* const symbol = library ? library->symbol(name) : nullptr;
  if (symbol == nullptr) {
    throw Ort::Exception(fmt::format("ONNX Runtime {} has no {}", Core::current()->version(), name),
                         ORT_NOT_IMPLEMENTED);
  }
  return reinterpret_cast<Function*>(symbol);
}

bool is_set(const std::vector<std::pair<std::string, std::string>>& options, std::string_view name) {
  return std::ranges::any_of(options, [&](const auto& option) { return option.first == name && option.second == "1"; });
}

void append(Ort::SessionOptions& session, const ProviderAppend& provider) {
  const OrtApi& api = Ort::GetApi();
  using Way = ProviderAppend::Way;
  switch (provider.way) {
    case Way::by_name:
      session.AppendExecutionProvider(provider.name, OptionMap(provider.options.begin(), provider.options.end()));
      return;
    case Way::cuda:
      append_bridge<OrtCUDAProviderOptionsV2>(session, provider, api.CreateCUDAProviderOptions,
                                              api.UpdateCUDAProviderOptions, api.ReleaseCUDAProviderOptions,
                                              api.SessionOptionsAppendExecutionProvider_CUDA_V2);
      return;
    case Way::tensorrt:
      append_bridge<OrtTensorRTProviderOptionsV2>(session, provider, api.CreateTensorRTProviderOptions,
                                                  api.UpdateTensorRTProviderOptions, api.ReleaseTensorRTProviderOptions,
                                                  api.SessionOptionsAppendExecutionProvider_TensorRT_V2);
      return;
    case Way::dnnl:
      append_bridge<OrtDnnlProviderOptions>(session, provider, api.CreateDnnlProviderOptions,
                                            api.UpdateDnnlProviderOptions, api.ReleaseDnnlProviderOptions,
                                            api.SessionOptionsAppendExecutionProvider_Dnnl);
      return;
    case Way::cann:
      append_bridge<OrtCANNProviderOptions>(session, provider, api.CreateCANNProviderOptions,
                                            api.UpdateCANNProviderOptions, api.ReleaseCANNProviderOptions,
                                            api.SessionOptionsAppendExecutionProvider_CANN);
      return;
    case Way::nnapi:
      Ort::ThrowOnError(core_function<OrtStatus*(OrtSessionOptions*, std::uint32_t)>(
          "OrtSessionOptionsAppendExecutionProvider_Nnapi")(session, nnapi_flags(provider.options)));
      return;
    case Way::acl:
      Ort::ThrowOnError(core_function<OrtStatus*(OrtSessionOptions*, bool)>(
          "OrtSessionOptionsAppendExecutionProvider_ACL")(session, is_set(provider.options, "enable_fast_math")));
      return;
    case Way::openvino:
      session.AppendExecutionProvider_OpenVINO_V2(OptionMap(provider.options.begin(), provider.options.end()));
      return;
    case Way::by_device: {
      const std::vector<Ort::ConstEpDevice> all = environment().GetEpDevices();
      std::vector<Ort::ConstEpDevice> chosen;
      for (const std::size_t index : provider.devices) chosen.push_back(all.at(index));
      session.AppendExecutionProvider_V2(environment(), chosen,
                                         OptionMap(provider.options.begin(), provider.options.end()));
      return;
    }
  }
}

// ONNX Runtime writes no graph in which providers have compiled nodes, but what they compiled.
void write_graph(const SessionSettings& settings, Ort::SessionOptions& options) {
  if (settings.providers.empty()) {
    options.SetOptimizedModelFilePath(settings.optimized_model.c_str());
    return;
  }
  std::error_code ignored;
  std::filesystem::remove(settings.optimized_model, ignored);  // of an earlier try; it refuses to write over one
  options.AddConfigEntry("ep.context_enable", "1");
  options.AddConfigEntry("ep.context_file_path", settings.optimized_model.c_str());
}

void register_custom_operators(const std::filesystem::path& library, Ort::SessionOptions& options) {
  try {
    options.RegisterCustomOpsLibrary(std::filesystem::absolute(library).c_str());
  } catch (const Ort::Exception& exception) {
    throw Error(ErrorCode::usage, format_message("the library of custom operators '{}' cannot be used: {}",
                                                 file_at(library), translate(exception).message()));
  }
}

Ort::SessionOptions to_ort(const SessionSettings& settings) {
  Ort::SessionOptions options;
  options.SetIntraOpNumThreads(static_cast<int>(settings.intra_threads));
  // For plugin providers that divide their work among these threads, and cannot ask how many there are.
  if (settings.intra_threads != 0)
    options.AddConfigEntry("gpux.threads", std::to_string(settings.intra_threads).c_str());
  options.SetInterOpNumThreads(static_cast<int>(settings.inter_threads));
  options.SetExecutionMode(settings.inter_threads > 1 ? ORT_PARALLEL : ORT_SEQUENTIAL);
  options.SetGraphOptimizationLevel(to_ort(settings.optimization));
  options.AddConfigEntry("session.record_ep_graph_assignment_info", "1");
  if (!settings.spinning) options.AddConfigEntry("session.intra_op.allow_spinning", "0");
  if (!settings.cpu_fallback) options.AddConfigEntry("session.disable_cpu_ep_fallback", "1");
  if (!settings.profile_prefix.empty()) options.EnableProfiling(settings.profile_prefix.c_str());
  if (!settings.optimized_model.empty()) write_graph(settings, options);
  for (const auto& [key, value] : settings.config) options.AddConfigEntry(key.c_str(), value.c_str());
  for (const std::filesystem::path& library : settings.custom_operator_libraries) {
    register_custom_operators(library, options);
  }
  const auto is_plugin = [](const ProviderAppend& provider) { return provider.way == ProviderAppend::Way::by_device; };
  if (std::ranges::any_of(settings.providers, is_plugin)) options.SetLogSeverityLevel(ORT_LOGGING_LEVEL_WARNING);
  for (std::size_t i = 0; i < settings.providers.size(); ++i) {
    (void)take_logged_error();
    try {
      append(options, settings.providers[i]);
    } catch (const Ort::Exception& exception) {
      const std::string logged = take_logged_error();
      throw AppendError(i, translate(exception).message() + (logged.empty() ? "" : ": " + logged));
    }
  }
  (void)take_logged_error();  // from here on it is the session's
  return options;
}

}  // namespace

// Of 1.24 to 1.31: from the declared shape, before the run, or from the shape that the run gives.
bool is_about_preallocated_memory(std::string_view text) {
  return std::ranges::any_of(
      std::array<std::string_view, 5>{"Invalid rank for output", "invalid dimensions for output",
                                      "pre-allocated output", "OrtValue shape verification failed",
                                      "Shape mismatch attempting to re-use buffer"},
      [&](std::string_view mark) { return text.find(mark) != std::string_view::npos; });
}

std::uint32_t nnapi_flags(const std::vector<std::pair<std::string, std::string>>& options) {
  static constexpr std::array<std::pair<std::string_view, std::uint32_t>, 4> flags{
      {{"use_fp16", 1}, {"use_nchw", 2}, {"cpu_disabled", 4}, {"cpu_only", 8}}};
  std::uint32_t sum = 0;
  for (const auto& [name, flag] : flags) {
    if (is_set(options, name)) sum |= flag;
  }
  return sum;
}

RunHandle::RunHandle() : options_(std::make_unique<Options>()) {}

RunHandle::~RunHandle() = default;

void RunHandle::request_all_logits() {
  options_->options.AddConfigEntry(logits_option, "all");
}

void RunHandle::take_turns(ComputeTurn& turn) noexcept {
  options_->turn = &turn;
}

void RunHandle::stop() {
  options_->is_stopped = true;
  options_->options.SetTerminate();
  if (options_->turn != nullptr) options_->turn->wake();
  const std::scoped_lock lock(options_->mutex);
  if (options_->running == nullptr) return;
  const char* const key = stop_run_option;
  const char* const name = options_->name.c_str();
  try {
    options_->running->SetEpDynamicOptions(&key, &name, 1);
  } catch (const Ort::Exception& exception) {
    // A provider need not know the option.
    log::debug("a provider could not be signalled to stop: {}", exception.what());
  }
}

Session::Session(std::shared_ptr<State> state) : state_(std::move(state)) {}

Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

Session Session::from_file(const std::filesystem::path& model, const SessionSettings& settings) {
  try {
    const Ort::SessionOptions options = to_ort(settings);
    (void)take_remarks();
    return Session(State::create(settings, [&] { return Ort::Session(environment(), model.c_str(), options); }));
  } catch (const Ort::Exception& exception) {
    throw translate(exception);
  }
}

Session Session::from_memory(std::span<const std::byte> model, const std::filesystem::path& folder,
                             const SessionSettings& settings) {
  try {
    Ort::SessionOptions options = to_ort(settings);
    (void)take_remarks();
    if (!folder.empty()) {
      options.AddConfigEntry("session.model_external_initializers_file_folder_path", folder.c_str());
    }
    return Session(
        State::create(settings, [&] { return Ort::Session(environment(), model.data(), model.size(), options); }));
  } catch (const Ort::Exception& exception) {
    throw translate(exception);
  }
}

const std::vector<std::string>& Session::input_names() const noexcept {
  return state_->input_names;
}

const std::vector<std::string>& Session::output_names() const noexcept {
  return state_->output_names;
}

bool Session::can_place(std::size_t output) const noexcept {
  if (state_->staging != nullptr || output >= state_->output_names.size()) return false;
  if (state_->has_providers) {
    const auto& memories = state_->outputs.memories;
    if (output >= memories.size() || !is_written_in_place(facts_of(memories[output]))) return false;
  }
  return std::ranges::find(state_->input_names, state_->output_names[output]) == state_->input_names.end();
}

NamedValues Session::run(const NamedValues& inputs, const std::vector<std::size_t>& outputs, RunHandle* handle,
                         std::span<const std::optional<Tensor>> places) const {
  if (state_->staging != nullptr) return run_staged(inputs, outputs, handle);
  const auto place = [&](std::size_t index) -> const Tensor* {
    if (index >= places.size()) return nullptr;
    const std::optional<Tensor>& one = places[index];
    return one ? &*one : nullptr;
  };
  // A run of a small model takes microseconds: lists of a few entries are kept from the heap.
  std::array<std::byte, 512> buffer;
  std::pmr::monotonic_buffer_resource memory(buffer.data(), buffer.size());
  std::pmr::vector<const char*> names(&memory);  // the inputs', then the outputs'
  std::pmr::vector<Ort::Value> values(&memory);  // likewise
  names.reserve(inputs.size() + outputs.size());
  values.reserve(inputs.size() + outputs.size());
  try {
    for (const auto& [name, value] : inputs) {
      if (value.is_none()) continue;  // an optional that holds nothing is one that is left out
      names.push_back(name.c_str());
      values.push_back(state_->wrap_input(name, value));
    }
    const std::size_t given = values.size();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      names.push_back(state_->output_names.at(outputs[i]).c_str());
      const Tensor* placed = place(i);
      values.push_back(placed == nullptr ? Ort::Value(nullptr) : wrap(*placed));
    }
    const StoppableRun stoppable(handle == nullptr || !state_->has_plugins ? nullptr : handle->options_.get(),
                                 state_->session);
    std::optional<Ort::RunOptions> own;
    const Ort::RunOptions& options =
        state_->options_of_run(handle == nullptr ? nullptr : handle->options_.get(), outputs, own);
    state_->session.Run(options, names.data(), values.data(), given, names.data() + given, values.data() + given,
                        outputs.size());
    state_->count_inputs(inputs);
    const InputMemory input_memory(inputs, &memory);
    NamedValues results;
    results.reserve(outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const std::string& name = state_->output_names[outputs[i]];
      if (const Tensor* placed = place(i)) {
        results.emplace_back(name, *placed);
      } else {
        results.emplace_back(name, unwrap(std::move(values[given + i])));
        input_memory.replace_shared(results.back().second);
      }
      state_->count_output(outputs[i], results.back().second);
    }
    return results;
  } catch (const Ort::Exception& exception) {
    const Error error = translate(exception);
    if (!places.empty() && is_about_preallocated_memory(exception.what())) {
      throw OtherShape(ErrorCode::invalid_input, error.message());
    }
    throw Error(error);
  }
}

Value Session::run_in_place(const NamedValues& inputs, const NamedValues& in_place, std::size_t output,
                            RunHandle* handle) const {
  std::vector<const char*> names;
  std::vector<Ort::Value> values;
  const std::size_t count = inputs.size() + 1 + in_place.size();
  names.reserve(count);
  values.reserve(count);
  try {
    const auto add = [&](const NamedValues& given) {
      for (const auto& [name, value] : given) {
        names.push_back(name.c_str());
        values.push_back(wrap(value));
      }
    };
    add(inputs);
    names.push_back(state_->output_names.at(output).c_str());
    values.emplace_back(nullptr);
    add(in_place);
    const StoppableRun stoppable(handle == nullptr || !state_->has_plugins ? nullptr : handle->options_.get(),
                                 state_->session);
    const Ort::RunOptions& options = handle == nullptr ? state_->run_options : handle->options_->options;
    const std::size_t given = inputs.size();
    state_->session.Run(options, names.data(), values.data(), given, names.data() + given, values.data() + given,
                        count - given);
    state_->count_inputs(inputs);
    state_->count_outputs(in_place);
    Value result = unwrap(std::move(values[given]));
    state_->count_output(output, result);
    return result;
  } catch (const Ort::Exception& exception) {
    throw translate(exception);
  }
}

const SessionLog& Session::log() const noexcept {
  return state_->log;
}

std::vector<AssignedNode> Session::assignment() const {
  try {
    return read_assignment(state_->session);
  } catch (const Ort::Exception& exception) {
    throw translate(exception);
  }
}

std::filesystem::path Session::end_profiling() {
  Ort::AllocatorWithDefaultOptions allocator;
  try {
    return state_->session.EndProfilingAllocated(allocator).get();
  } catch (const Ort::Exception& exception) {
    throw translate(exception);
  }
}

}  // namespace gpux::ort

#include "gpux/runtime.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <optional>

#include <fmt/format.h>

#include "base/format_message.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/memory_size.h"
#include "base/spelling.h"
#include "gpux/error.h"
#include "gpux/model_inspector.h"
#include "isolation/load_facts.h"
#include "onnx/pooled_output.h"
#include "onnx/stored_caches.h"
#include "runtime/loading/memory_limit.h"
#include "runtime/loading/preflight.h"
#include "runtime/runtime_state.h"
#include "runtime/session/local_session.h"
#include "runtime/session/steps.h"

namespace gpux {

std::string_view to_string(WorkerStatus::State state) noexcept {
  switch (state) {
    case WorkerStatus::State::ready:
      return "ready";
    case WorkerStatus::State::starting:
      return "starting";
    case WorkerStatus::State::waiting:
      return "waiting";
  }
  return "";
}

namespace {

void require_worker_for_sandbox(const LoadOptions& options) {
  if (options.sandbox == Sandbox::off || options.isolation == Isolation::process) return;
  throw Error(ErrorCode::usage, "a sandbox requires isolation 'process', and it is 'thread'; accepted: sandbox off");
}

void require_place_for_stored_caches(const LoadOptions& options) {
  const bool is_int8 = options.cache_precision == CachePrecision::int8;
  if (options.cache_precision != CachePrecision::float16 && !is_int8) return;
  if (options.before.empty() && options.after.empty()) return;
  throw Error(ErrorCode::usage, fmt::format("keys and values in {} are not supported with models before or after",
                                            is_int8 ? "int8" : "float16"));
}

void measure_memory(const Runtime& runtime, runtime::Loaded& loaded, std::uint64_t limit_bytes) {
  try {
    (void)runtime.infer(synthetic_inputs(runtime.info().signature));
  } catch (const Error& error) {
    loaded.verdict.notes.emplace_back("the memory limit was checked without a warm-up run: " + error.message());
  }
  const std::uint64_t now = resident_bytes();
  const std::uint64_t used = now > loaded.resident_before_bytes ? now - loaded.resident_before_bytes : 0;
  if (used > limit_bytes) {
    throw Error(ErrorCode::resource_exhausted,
                fmt::format("the model takes {} of memory after loading and one run, more than the {} allowed",
                            format_bytes(used), format_bytes(limit_bytes)));
  }
}

}  // namespace

Runtime::Runtime(const std::filesystem::path& model, const LoadOptions& given) {
  const auto start = std::chrono::steady_clock::now();
  require_worker_for_sandbox(given);
  require_place_for_stored_caches(given);
  ModelInfo info = ModelInspector::inspect(model);
  LoadOptions options = given;
  const bool is_alone = options.before.empty() && options.after.empty();
  if (!is_alone) options.cache_precision = CachePrecision::as_written;
  const std::string& given_name = facts_of(given).worker_name;
  const std::string name = given_name.empty() ? info.name : given_name;
  if (options.preflight)
    change_facts(options, [&](LoadFacts& facts) {
      std::ranges::move(runtime::preflight(model, name, options), std::back_inserter(facts.crashed_providers));
    });
  Signature signature = runtime::with_steps(info.signature, options);
  if (options.isolation == Isolation::process) {
    state_ = State::load_in_worker(std::move(info), name, std::move(signature), options);
    state_->load_time = std::chrono::steady_clock::now() - start;
    return;
  }
  runtime::Loaded loaded = runtime::load(model, info, options);
  onnx::set_types(signature.inputs, loaded.stored_caches);
  onnx::set_types(signature.outputs, loaded.stored_caches);
  if (loaded.has_pooled_output && options.pooled_output) {
    signature.outputs.push_back(onnx::pooled_entry(info.signature, *options.pooled_output));
  }
  info.signature = std::move(signature);
  auto session =
      std::make_unique<runtime::LocalSession>(std::move(loaded.session), runtime::Steps(options), loaded.verdict);
  state_ = std::make_shared<State>(std::move(info), std::move(loaded), std::move(session), options);
  if (const std::string& reason = facts_of(options).isolation_reason; !reason.empty()) {
    state_->loaded.verdict.notes.emplace_back(reason);
  }
  state_->profile = options.profile;
  state_->load_time = std::chrono::steady_clock::now() - start;
  try {
    runtime::Loaded& made = state_->loaded;
    runtime::keep_memory_limit(options, made.memory_limited_by_provider, made.verdict,
                               [&] { measure_memory(*this, made, *options.memory_bytes); });
  } catch (const Error&) {
    if (!state_->loaded.profile_prefix.empty()) {
      (void)state_->session->end_profiling();
      runtime::remove_profiles(std::exchange(state_->loaded.profile_prefix, {}));
    }
    throw;
  }
}

Runtime::Runtime(std::shared_ptr<State> state) : state_(std::move(state)) {}

Runtime::~Runtime() {
  if (!state_) return;
  try {
    finish_profile();
  } catch (const std::exception& exception) {
    log::warning("the profile was not written: {}", exception.what());
  }
}

Runtime::Runtime(Runtime&&) noexcept = default;
Runtime& Runtime::operator=(Runtime&&) noexcept = default;

bool Runtime::keeps_on_device() const noexcept {
  return state_->session->keeps_on_device();
}

bool Runtime::uses_pinned_memory() const noexcept {
  return state_->session->uses_pinned_memory();
}

TransferCounts Runtime::transfers() const noexcept {
  return state_->session->transfers();
}

const ModelInfo& Runtime::info() const noexcept {
  return state_->info;
}

const Verdict& Runtime::verdict() const noexcept {
  return state_->loaded.verdict;
}

const OptimizedGraph& Runtime::written_graph() const noexcept {
  return state_->loaded.written_graph;
}

const std::filesystem::path& Runtime::weights_file() const noexcept {
  return state_->loaded.weights_file;
}

std::chrono::duration<double, std::milli> Runtime::load_time() const noexcept {
  return state_->load_time;
}

std::optional<WorkerStatus> Runtime::worker() const {
  return state_->session->worker();
}

std::optional<std::string> Runtime::lost_device() const {
  return state_->session->lost_device();
}

std::vector<Runtime::PlacedNode> Runtime::placement() const {
  return state_->session->placement(state_->loaded.verdict);
}

void Runtime::finish_profile() {
  if (state_->loaded.profile_prefix.empty()) return;
  state_->loaded.profile_prefix.clear();
  const std::filesystem::path written = state_->session->end_profiling();
  std::error_code error;
  std::filesystem::rename(written, state_->profile, error);
  if (error) {
    throw Error(ErrorCode::storage,
                format_message("cannot write the profile '{}': {}", file_at(state_->profile), error.message()));
  }
}

}  // namespace gpux

#include "runtime/runtime_state.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/spelling.h"
#include "isolation/load_facts.h"
#include "isolation/remote_session.h"
#include "onnx/pooled_output.h"
#include "onnx/stored_caches.h"
#include "runtime/session/worker_session.h"

namespace gpux {
namespace {

// A stranger's model has to be known as one.
void note_missing_sandbox(const LoadOptions& options, Verdict& verdict) {
  const std::string& origin = facts_of(options).pulled_from;
  if (origin.empty() || options.sandbox != Sandbox::off) return;
  verdict.notes.emplace_back(fmt::format("not sandboxed: the model comes from {}{}", origin,
                                         options.isolation == Isolation::thread ? " and runs in this process" : ""));
}

}  // namespace

Runtime::State::State(ModelInfo model_info, runtime::Loaded&& result,
                      std::unique_ptr<runtime::ModelSession> model_session, const LoadOptions& load_options)
    : info(std::move(model_info)), loaded(std::move(result)), session(std::move(model_session)), options(load_options) {
  note_missing_sandbox(options, loaded.verdict);
  for (std::size_t i = 0; i < session->output_names().size(); ++i) all_outputs.push_back(i);
  // A model before it makes other inputs of those that callers give.
  if (options.before.empty()) profile_of_shapes = provider::active_profile(loaded.verdict);
}

std::shared_ptr<Runtime::State> Runtime::State::load_in_worker(ModelInfo model_info, const std::string& name,
                                                               Signature signature, const LoadOptions& load_options) {
  auto worker = std::make_unique<isolation::RemoteSession>(model_info.path, name, load_options, signature.outputs);
  const isolation::LoadReport& report = worker->report();
  if (load_options.pooled_output && report.output_names.size() == signature.outputs.size() + 1) {
    signature.outputs.push_back(onnx::pooled_entry(model_info.signature, *load_options.pooled_output));
  }
  onnx::set_types(signature.inputs, report.stored_caches);
  onnx::set_types(signature.outputs, report.stored_caches);
  model_info.signature = std::move(signature);
  runtime::Loaded loaded = runtime::loaded_in_worker(model_info.path, report, load_options);
  return std::make_shared<State>(std::move(model_info), std::move(loaded),
                                 std::make_unique<runtime::WorkerSession>(std::move(worker)), load_options);
}

std::vector<std::size_t> Runtime::State::output_indices(const std::vector<std::string>& names) const {
  const std::vector<std::string>& known = session->output_names();
  std::vector<std::size_t> indices;
  for (const std::string& name : names) {
    const auto found = std::find(known.begin(), known.end(), name);
    if (found == known.end()) {
      throw Error(ErrorCode::invalid_input, fmt::format("there is no output '{}'; outputs: {}", name, join(known)));
    }
    indices.push_back(static_cast<std::size_t>(found - known.begin()));
  }
  return indices;
}

std::string Runtime::State::busy_sentence() const {
  return fmt::format("the model ({}) has not stopped yet after an earlier deadline", join(loaded.verdict.active));
}

void Runtime::State::wait_until_free(std::optional<std::chrono::steady_clock::time_point> deadline) {
  if (abandoned_runs.load(std::memory_order_acquire) == 0) return;
  std::unique_lock lock(mutex);
  const auto is_free = [&] { return abandoned_runs == 0; };
  if (!deadline) {
    returned.wait(lock, is_free);
  } else if (!returned.wait_until(lock, *deadline, is_free)) {
    throw Error(ErrorCode::deadline_exceeded, busy_sentence());
  }
}

}  // namespace gpux

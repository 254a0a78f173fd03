#include "runtime/session/worker_session.h"

#include <stop_token>
#include <utility>

#include "gpux/error.h"
#include "isolation/load_facts.h"

namespace gpux::runtime {

WorkerSession::WorkerSession(std::unique_ptr<isolation::RemoteSession> session) : session_(std::move(session)) {}

const std::vector<std::string>& WorkerSession::output_names() const noexcept {
  return session_->report().output_names;
}

NamedValues WorkerSession::run(const NamedValues& inputs, const std::vector<std::size_t>& outputs, StopHandle* handle,
                               WorkerAbsence absence) const {
  if (handle == nullptr) return session_->run(inputs, outputs, {}, absence);
  return session_->run(inputs, outputs, handle->in_worker(), absence, &handle->worker_run());
}

Value WorkerSession::run_in_place(const NamedValues&, const NamedValues&, std::size_t, bool, StopHandle&) const {
  throw Error(ErrorCode::usage,
              "isolation 'process' does not support models that update caches in place; accepted: thread");
}

bool WorkerSession::uses_pinned_memory() const noexcept {
  return session_->report().uses_pinned_memory;
}

std::vector<Runtime::PlacedNode> WorkerSession::placement(const Verdict&) const {
  return session_->report().placement;
}

std::optional<WorkerStatus> WorkerSession::worker() const {
  return session_->status();
}

void WorkerSession::limit_computing(std::size_t runs) const {
  session_->limit_computing(runs);
}

Loaded loaded_in_worker(const std::filesystem::path& model, const isolation::LoadReport& report,
                        const LoadOptions& options) {
  const auto& variants = options.precision_variants;
  const bool is_variant = report.weights != 0 && report.weights <= variants.size();
  Loaded loaded{.session = nullptr,
                .verdict = report.verdict,
                .weights_file = is_variant ? variants[report.weights - 1].file : model,
                .profile_prefix = {},
                .computed_by = report.computed_by,
                .identity = report.identity,
                .stored_caches = report.stored_caches,
                .written_graph = {}};
  const std::string& reason = facts_of(options).isolation_reason;
  loaded.verdict.notes.emplace_back(reason.empty() ? "the model runs in a worker process" : reason);
  return loaded;
}

}  // namespace gpux::runtime

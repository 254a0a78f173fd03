#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "image/read_image.h"
#include "pipeline/pipeline.h"
#include "runtime/scheduling/scheduler.h"
#include "server/jobs/run_job.h"
#include "server/jobs/text_figures.h"
#include "server/models/served_model.h"
#include "server/requests/request_work.h"

namespace gpux::server {

/// A request on its way through a model. Copies are the same request. cancel() from any thread.
class Pending {
 public:
  Pending() = default;

  Pending(std::shared_ptr<ServedSession> session, runtime::Scheduler::Ticket ticket)
      : session_(std::move(session)), ticket_(ticket) {}

  explicit Pending(std::shared_ptr<RunJob> job) : job_(std::move(job)) {}

  /// Whether it was under way when it was made: not answered on the spot.
  explicit operator bool() const noexcept { return ticket_ != 0 || job_ != nullptr; }

  /// Nobody waits any more.
  void cancel() const;

 private:
  std::shared_ptr<ServedSession> session_;
  runtime::Scheduler::Ticket ticket_ = 0;
  std::shared_ptr<RunJob> job_;
};

/// The parts of a request that are under way, by their numbers. All members from any thread.
class PendingParts {
 public:
  /// A part is about to be submitted.
  void begin(std::size_t index);
  /// It is under way. Cancels it where cancel() was called before; nothing where it has ended already.
  void add(std::size_t index, const Pending& part);
  void end(std::size_t index);
  /// Nobody waits for any of them any more.
  void cancel();

 private:
  std::mutex mutex_;
  std::map<std::size_t, Pending> parts_;
  bool is_cancelled_ = false;
};

struct SubmitOptions {
  pipeline::PrepareOptions prepare = {};
  std::optional<image::Sources> sources = std::nullopt;  ///< of images; empty: the model's
  /// Filled by the time that `done` is called without an error, where texts are given. May be null.
  std::shared_ptr<TextFigures> figures = nullptr;
};

/// ServedSession::submit() for what callers give as of ServedModel::signature(), and for outputs of that: texts get a
/// run each, and the answers that the model's pipeline makes of them; strings for the input that is given images are
/// images. Texts and images are prepared a few at a time, by the readers where that takes long. The request's deadline
/// is that of `work`. Errors as there, of Pipeline::rows() and of RequestWork::hold(); what comes later goes to `done`.
Pending submit_infer(const std::shared_ptr<ServedModel>& model, runtime::InferRequest request, const RequestWork& work,
                     runtime::Completion done, runtime::Here here, const SubmitOptions& options = {});

/// The memory of the values' elements.
[[nodiscard]] std::uint64_t bytes_of(const NamedValues& values) noexcept;

}  // namespace gpux::server

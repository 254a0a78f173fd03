#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpux/error.h"
#include "gpux/tensor.h"
#include "isolation/remote_session.h"
#include "runtime/scheduling/batch_plan.h"
#include "runtime/scheduling/device_health.h"
#include "runtime/scheduling/padding.h"

namespace gpux::runtime {

/// One inference that somebody waits for.
struct InferRequest {
  NamedValues inputs;                ///< complete and fitting the signature; their memory is their own
  std::vector<std::size_t> outputs;  ///< indices into the session's outputs
  int priority = 0;                  ///< lower goes first
  std::optional<std::chrono::steady_clock::time_point> deadline;
  std::chrono::steady_clock::time_point arrived = {};  ///< at a server: its time limit and statistics count from it
  /// Whether this is part of a request that is already queued: it is not refused if the queue is full.
  bool is_admitted = false;
};

/// Times of one request in its phases, and the size of its batch.
struct InferTimes {
  std::chrono::nanoseconds queue{0};    ///< from submission to being taken
  std::chrono::nanoseconds input{0};    ///< joining the inputs, and waiting for the replica
  std::chrono::nanoseconds compute{0};  ///< inside the session
  std::chrono::nanoseconds output{0};   ///< cutting the results apart
  std::size_t batch_requests = 0;
  std::int64_t batch_rows = 0;
  isolation::WorkerRun worker;  ///< of the last run, if it was in a worker process; its time is a part of `compute`
};

struct InferAnswer {
  std::optional<Error> error;
  NamedValues outputs;
  InferTimes times;
};

/// Called once, on one of the scheduler's threads or (Here::allowed) within submit(), without any lock held. Must not
/// throw and should not block.
using Completion = std::function<void(InferAnswer&&)>;

/// Executes one run at a time: a session, or one of several.
class Replica {
 public:
  Replica() = default;
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;
  virtual ~Replica() = default;

  /// Runs the model; `outputs`: indices of the requested outputs. Errors invalid_input, interrupted after stop(),
  /// resource_exhausted, internal.
  virtual NamedValues run(const NamedValues& inputs, const std::vector<std::size_t>& outputs) = 0;

  /// run() of made-up inputs, which shows whether the device works again: may wait for it where run() does not.
  virtual NamedValues run_trial(const NamedValues& inputs, const std::vector<std::size_t>& outputs) {
    return run(inputs, outputs);
  }

  /// From another thread: the run that is in progress, if any, ends as soon as it can.
  virtual void stop() = 0;

  /// Whether the last run, which failed, ended the process that it ran in: it may be to blame, and is not repeated.
  [[nodiscard]] virtual bool has_lost_its_worker() const noexcept { return false; }

  /// Where the last run was done, if it succeeded in a worker process.
  [[nodiscard]] virtual isolation::WorkerRun worker_run() const noexcept { return {}; }

  /// Which of the model's devices it runs on, from 0: those with one number fail together.
  [[nodiscard]] virtual std::size_t device() const noexcept { return 0; }
};

/// Report of one finished call of Replica::run.
struct RunReport {
  std::size_t requests = 0;
  std::int64_t rows = 0;
  std::chrono::nanoseconds input{0}, compute{0}, output{0};
  bool failed = false;
  bool is_probe = false;  ///< of submit_first(), not of a client's request
};

struct SchedulerOptions {
  BatchLimits batch;
  bool can_batch = false;  ///< whether requests may share runs: Runtime::run_sharing()
  /// How requests whose sizes differ share one; null: they do not. Made for the model's signature.
  std::shared_ptr<const Padding> padding;
  std::size_t max_queue = 1024;  ///< requests that may wait
  /// Runs that have lately taken less than this, with the answer, may happen on the caller's thread: waking another one
  /// costs as much. 0: none do.
  std::chrono::microseconds quick_run{200};
  /// `quick_run` while other requests are running that this one could be batched with next.
  std::chrono::microseconds quick_run_if_batchable{50};
  /// Called after each run, before its answers, on the thread that ran it, without any lock held. May be null.
  std::function<void(const RunReport&)> on_run;
  /// A trial run of a device that may have failed: inputs and outputs. Empty: its next request is the trial.
  std::optional<InferRequest> trial = {};
  TrialDelays trial_delays = {};
  /// Runs that compute at the same time on one device, where its other replicas only copy: 0: all replicas compute.
  /// While so many are on their way, only full batches follow: what waits may still fill one.
  std::size_t computing_per_device = 0;
  std::vector<std::string> device_names = {};  ///< by Replica::device(), for messages; may be shorter
};

/// Counters of a scheduler since its start. Requests count once; runs are calls of Replica::run.
struct SchedulerCounts {
  std::uint64_t runs = 0;
  std::uint64_t rejected = 0;    ///< the queue was full
  std::uint64_t cancelled = 0;   ///< the client left
  std::uint64_t expired = 0;     ///< past the deadline
  std::uint64_t here = 0;        ///< runs on callers' threads, counted in `runs` too
  std::uint64_t retried = 0;     ///< batches that failed and were run one by one
  std::uint64_t moved = 0;       ///< requests whose device failed and that were run on another one
  std::size_t waiting = 0;       ///< now
  std::size_t running = 0;       ///< now: requests in runs, those past their deadline left out
  std::size_t overdue_runs = 0;  ///< now: runs that nobody waits for any more and that have not returned
};

/// State and counters of one device of a model.
struct DeviceReport {
  DeviceState state = DeviceState::in_service;
  std::uint64_t failures = 0;  ///< how often it was taken out; of the only device, its failed runs
  std::string reason;          ///< of the last failure; empty: there was none
  std::optional<std::chrono::milliseconds> next_trial;  ///< from now
  std::size_t replicas = 0;
  std::size_t running = 0;  ///< runs now
  std::uint64_t runs = 0;
};

/// Whether a run may happen on the thread that submits its request.
enum class Here : std::uint8_t { no, allowed };

/// The queue before one model's replicas. All calls from any thread.
///
/// With several devices, a device that fails takes no requests until a trial run succeeds. The requests of the failed
/// run are retried once on another device. If no device is left, requests get provider_unavailable.
class Scheduler {
 public:
  using Ticket = std::uint64_t;

  /// One thread more than replicas: it prepares the next full batch while they run. `lanes` are used for runs on
  /// callers' threads alone, each for one at a time; without them there are none.
  Scheduler(std::vector<std::unique_ptr<Replica>> replicas, const SchedulerOptions& options,
            std::vector<std::unique_ptr<Replica>> lanes = {});
  /// Cancels what waits, tells what runs to stop, and waits until it has, on callers' threads too.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Queues the request. Errors, thrown at once and without a call of `done`: resource_exhausted where the queue is
  /// full, deadline_exceeded where the deadline has passed, interrupted after close(), provider_unavailable where all
  /// devices have failed.
  /// Otherwise `done` gets the results, or the error of this request alone; deadline_exceeded at the deadline,
  /// whatever the run does.
  /// Here::allowed: where nothing waits, a lane is free and runs of exactly these types and sizes have lately been
  /// quick, it runs at once on this thread, and `done` is called before this returns 0.
  Ticket submit(InferRequest request, Completion done, Here here = Here::no);

  /// Ahead of the queue and beyond its bound: for probes of the device.
  Ticket submit_first(InferRequest request, Completion done);

  /// Nobody waits any more: `done` gets interrupted. What waits is dropped; a run ends after the node it is in when
  /// nobody waits for any of its requests. Without effect after the answer.
  void cancel(Ticket ticket);

  /// Takes no new request and waits until all are answered, at most until `deadline`; true where all are.
  bool close(std::chrono::steady_clock::time_point deadline);

  /// Takes no new request and answers all with interrupted; does not wait for the runs.
  void abandon();

  [[nodiscard]] SchedulerCounts counts() const;

  /// Reports of the devices, indexed by Replica::device().
  [[nodiscard]] std::vector<DeviceReport> devices() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpux::runtime

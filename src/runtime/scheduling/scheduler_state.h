#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>

#include "runtime/scheduling/batch.h"
#include "runtime/scheduling/run_times.h"
#include "runtime/scheduling/scheduler.h"

/// State that the sources of the scheduler share: scheduler.cpp has the queue and shutdown, scheduler_runs.cpp the
/// threads that run batches, scheduler_devices.cpp the choice of devices and their health, scheduler_lanes.cpp runs on
/// callers' threads.
namespace gpux::runtime {

struct ScheduledRun;

/// A request on its way.
struct ScheduledEntry {
  Scheduler::Ticket ticket = 0;
  InferRequest request;
  Completion done;
  std::string shape_key;  ///< empty: shares no run
  bool is_probe = false;
  std::int64_t rows = 1;
  std::vector<Shape> row_shapes;          ///< of WaitingRequest; only with a bound on the cost or padding
  std::optional<std::uint64_t> size_key;  ///< only where runs on callers' threads are possible
  std::chrono::steady_clock::time_point arrived;
  InferTimes times;
  ScheduledRun* run = nullptr;           ///< while it is in one
  bool is_moved = false;                 ///< its device failed, and another one runs it
  std::optional<std::size_t> failed_on;  ///< that device
  std::uint64_t suspicion = 0;           ///< DeviceHealth::suspicion() of then
};

/// One of the devices of the replicas.
struct ScheduledDevice {
  DeviceHealth health;
  std::vector<Replica*> parked;  ///< idle, and not to be used: the device takes no requests
  std::size_t replicas = 0;
  std::size_t taken = 0;               ///< replicas that have a run, or are about to
  std::size_t running = 0;             ///< runs now
  std::uint64_t runs = 0;              ///< that have begun
  std::chrono::nanoseconds recent{0};  ///< how long a run has lately taken; 0: not known
  bool is_known_out = false;           ///< the log says so
  std::uint64_t failed_runs = 0;       ///< of the only device
  std::string last_failure;            ///< of the only device
};

/// Requests that were taken together. Changed under the scheduler's lock, but for `inputs`.
struct ScheduledRun {
  std::vector<std::shared_ptr<ScheduledEntry>> entries;
  std::vector<NamedValues> inputs;  ///< of each entry
  std::size_t awaited = 0;          ///< entries that are not answered yet
  Replica* reserved = nullptr;      ///< will compute it; null: none was free when it was planned
  Replica* replica = nullptr;       ///< while it computes
  bool overdue = false;             ///< it computes, and nobody waits for it
  bool failed = false;              ///< something that it computed did
  bool is_trial = false;            ///< of a device that may have failed, without entries
  bool has_thrown = false;          ///< the replica did, in the last run
  std::optional<Error> unjoined;    ///< why its inputs could not be joined
};

/// Members that take a lock release it while a model runs or a caller is answered; the others want it held.
struct Scheduler::State {
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;
  using Run = ScheduledRun;
  using EntryPointer = std::shared_ptr<ScheduledEntry>;

  struct Answer {
    Completion done;
    InferAnswer answer;
  };

  SchedulerOptions options;
  std::atomic<bool> can_batch = false;
  std::vector<std::unique_ptr<Replica>> replicas, lanes;

  mutable std::mutex mutex;
  std::condition_variable arrived;    ///< a request, or a replica for those who plan
  std::condition_variable freed;      ///< a replica for who holds a prepared run
  std::condition_variable all_quiet;  ///< an answer was given, or a lane is free again
  std::condition_variable watch;      ///< an earlier deadline
  bool closed = false, abandoned = false, ended = false;
  std::size_t planning_idle = 0;
  std::size_t prepared = 0;  ///< runs without a replica yet: 0 or 1

  std::deque<EntryPointer> queue;  ///< in the order of service
  std::int64_t waiting_rows = 0;   ///< of all in the queue
  std::vector<Replica*> free, free_lanes;
  std::vector<ScheduledDevice> devices;  ///< by Replica::device()
  std::vector<Replica*> on_trial;
  std::unordered_map<Ticket, EntryPointer> live;  ///< not answered yet
  std::set<std::pair<Clock::time_point, Ticket>> deadlines;
  Clock::time_point watching_until = Clock::time_point::min();  ///< when the watcher looks again; min: it is looking
  Ticket last_ticket = 0;
  SchedulerCounts counts;
  RunTimes times;

  std::vector<std::thread> workers;
  std::thread watcher;

  static void deliver(std::vector<Answer>& answers);

  // The queue.
  Ticket submit(InferRequest&& request, Completion&& done, bool first, Here here);
  void settle(const EntryPointer& entry, std::optional<Error> error, NamedValues outputs, std::vector<Answer>& answers);
  void give_up(const EntryPointer& entry, const Error& error, std::vector<Answer>& answers);
  void watch_deadlines();
  void end_threads();

  // Runs.
  void work();
  [[nodiscard]] BatchGroup group_of(const Run& run) const;
  NamedValues join(Run& run, const BatchGroup& group) const;
  bool take(Lock& lock, Run& run);
  void execute(Lock& lock, Run& run, const BatchGroup& group, const NamedValues& joined, std::vector<Answer>& answers);
  std::vector<NamedValues> compute(Lock& lock, Run& run, const BatchGroup& group, const NamedValues& joined,
                                   std::optional<Error>& error);
  void release(Run& run);
  void pass_on();
  [[nodiscard]] bool planner_has_work() const noexcept;
  [[nodiscard]] bool may_be_full() const noexcept;
  [[nodiscard]] std::vector<WaitingRequest> waiting_requests() const;
  void learn(const Run& run, Clock::duration answering);

  // Devices.
  void set_up_devices();

  [[nodiscard]] bool has_several_devices() const noexcept { return devices.size() > 1; }

  [[nodiscard]] std::string name_of(std::size_t device) const;
  [[nodiscard]] bool may_compute_now() const noexcept;
  Replica* take_free();
  void give_back(Replica* replica);
  void refresh_devices();
  [[nodiscard]] bool are_all_out() const noexcept;
  [[nodiscard]] Error all_are_out() const;
  void refuse_where_all_are_out(std::vector<Answer>& answers);
  bool moves_elsewhere(Run& run, const NamedValues& joined, const Error& error);
  [[nodiscard]] bool may_move(const Run& run) const;
  void note_failure(const Replica& replica, RunFailure failure, const Error& error, bool moves);
  void requeue(Run& run, const NamedValues& joined, std::size_t device);
  void resolve_suspicion(const ScheduledEntry& entry, bool succeeded);
  bool take_trial(Run& run, Clock::time_point now);
  [[nodiscard]] std::optional<Clock::time_point> next_trial() const noexcept;
  void run_trial(Lock& lock, Run& run);
  [[nodiscard]] std::vector<DeviceReport> device_reports() const;

  // Runs on callers' threads.
  class Lane;
  [[nodiscard]] bool may_run_here(const ScheduledEntry& entry) const noexcept;
  void run_here(Lock& lock, const EntryPointer& entry);
};

}  // namespace gpux::runtime

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "gpux/error.h"

namespace gpux::server {

/// How far a job is: a line of text, and the part of it that is transferred.
struct JobStatus {
  std::string text;
  std::string digest;                      ///< "sha256:…" of the part; may be empty
  std::uint64_t total = 0, completed = 0;  ///< bytes; a total of 0: unknown
};

enum class JobKind : std::uint8_t { pull, push, create };
inline constexpr std::array<std::string_view, 3> job_kind_names{"pull", "push", "create"};

/// Counters of the jobs of one kind since the start of the server. Thread-safe.
struct JobCounts {
  std::atomic<std::uint64_t> running = 0, succeeded = 0, failed = 0;
  std::atomic<std::uint64_t> cancelled = 0;  ///< their clients left, or the server ended
  std::atomic<std::uint64_t> refused = 0;    ///< too many ran, or the name was being created
};

using StoreJobCounts = std::array<JobCounts, job_kind_names.size()>;

/// Work on the store that takes longer than a request may be read for: each job on a thread of its own, a few at the
/// same time, one for a request. A job lives as long as somebody waits for it. All members from any thread.
class StoreJobs {
 public:
  using Tell = std::function<void(const JobStatus&)>;
  using Work = std::function<void(const std::stop_token& stop, const Tell& tell)>;

  /// One who waits for a job. Called on the job's thread or on that of stop(), the end once and last.
  struct Listener {
    Tell progress;
    std::function<void(const std::optional<Error>&)> ended;
  };

  explicit StoreJobs(std::size_t max_running) : max_running_(max_running) {}

  /// stop(), and waits for the work in progress.
  ~StoreJobs();
  StoreJobs(const StoreJobs&) = delete;
  StoreJobs& operator=(const StoreJobs&) = delete;

  /// Begins the work, or joins the job of this kind and `request` that runs; gives the ticket of the listener.
  /// `request`: all that the work depends on; of a creation, the model's name, and nobody joins one: two creations of a
  /// name may make different models. Errors resource_exhausted where as many run as may, the name is being created, or
  /// there is no thread left; interrupted after stop(). The listener is not called then.
  [[nodiscard]] std::uint64_t start(JobKind kind, const std::string& request, Work work, Listener listener);

  /// This listener waits no longer, and is not called any more but for a call in progress. The last one ends the job.
  void leave(std::uint64_t ticket);

  /// Ends all jobs and tells their listeners: interrupted. Later ones are refused.
  void stop();

  [[nodiscard]] const StoreJobCounts& counts() const noexcept { return counts_; }

 private:
  struct Job {
    JobKind kind = JobKind::pull;
    std::string request;
    std::stop_source stop;
    std::map<std::uint64_t, Listener> listeners;
    std::optional<JobStatus> last;  ///< for those who join
    bool is_done = false;           ///< its end is known: nobody joins
    bool has_ended = false;         ///< its listeners know it: the thread can be joined
    std::thread thread;
  };

  void run(const std::shared_ptr<Job>& job, const Work& work);
  void tell(Job& job, const JobStatus& status);
  void count(const Job& job, const std::optional<Error>& failure);
  [[nodiscard]] std::list<std::shared_ptr<Job>> take_ended();

  JobCounts& counts_of(JobKind kind) { return counts_.at(static_cast<std::size_t>(kind)); }

  const std::size_t max_running_;
  StoreJobCounts counts_;
  std::mutex mutex_;
  std::list<std::shared_ptr<Job>> jobs_;
  std::uint64_t last_ticket_ = 0;
  bool is_stopped_ = false;
};

}  // namespace gpux::server

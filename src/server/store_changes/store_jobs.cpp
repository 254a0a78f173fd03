#include "server/store_changes/store_jobs.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/failure_of.h"
#include "base/in_quotes.h"
#include "base/start_thread.h"

namespace gpux::server {

StoreJobs::~StoreJobs() {
  stop();
  std::list<std::shared_ptr<Job>> jobs;
  {
    const std::lock_guard lock(mutex_);
    jobs.swap(jobs_);
  }
  for (const auto& job : jobs) job->thread.join();
}

std::list<std::shared_ptr<StoreJobs::Job>> StoreJobs::take_ended() {
  std::list<std::shared_ptr<Job>> ended;
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    const auto next = std::next(job);
    if ((*job)->has_ended) ended.splice(ended.end(), jobs_, job);
    job = next;
  }
  return ended;
}

std::uint64_t StoreJobs::start(JobKind kind, const std::string& request, Work work, Listener listener) {
  std::list<std::shared_ptr<Job>> ended;
  const auto job = std::make_shared<Job>();  // goes without the lock
  std::optional<JobStatus> last;
  Tell progress = listener.progress;
  std::uint64_t ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    if (is_stopped_) throw Error(ErrorCode::interrupted, "the server is shutting down");
    const auto same = std::ranges::find_if(jobs_, [&](const auto& one) {
      // What is stopped may still write under the name that it creates.
      const bool goes_on = kind == JobKind::create || !one->stop.stop_requested();
      return one->kind == kind && one->request == request && !one->is_done && goes_on;
    });
    if (same != jobs_.end() && kind == JobKind::create) {
      ++counts_of(kind).refused;
      throw Error(ErrorCode::resource_exhausted,
                  fmt::format("the model {} is being created by another request: try again when that is done",
                              in_quotes(request)));
    }
    const auto running = std::ranges::count_if(jobs_, [](const auto& one) { return !one->is_done; });
    if (same == jobs_.end() && static_cast<std::size_t>(running) >= max_running_) {
      ++counts_of(kind).refused;
      throw Error(ErrorCode::resource_exhausted,
                  fmt::format("{} models are being pulled, pushed or created, which is the maximum: try again when one "
                              "of them is done",
                              max_running_));
    }
    ticket = ++last_ticket_;
    if (same != jobs_.end()) {
      last = (*same)->last;
      (*same)->listeners.emplace(ticket, std::move(listener));
    } else {
      job->kind = kind;
      job->request = request;
      job->listeners.emplace(ticket, std::move(listener));
      jobs_.push_back(job);
      try {
        job->thread = start_thread([this, job, work = std::move(work)] { run(job, work); });
      } catch (...) {
        jobs_.pop_back();
        throw;
      }
      ++counts_of(kind).running;
    }
    // Last: from here on nothing fails before they are joined.
    ended = take_ended();
  }
  for (const auto& one : ended) one->thread.join();
  if (last) call_guarded(progress, *last);
  return ticket;
}

void StoreJobs::run(const std::shared_ptr<Job>& job, const Work& work) {
  const std::optional<Error> failure =
      failure_of([&] { work(job->stop.get_token(), [&](const JobStatus& status) { tell(*job, status); }); });
  std::map<std::uint64_t, Listener> listeners;
  {
    const std::lock_guard lock(mutex_);
    listeners.swap(job->listeners);
    job->is_done = true;
    count(*job, failure);
  }
  for (const auto& [ticket, listener] : listeners) call_guarded(listener.ended, failure);
  const std::lock_guard lock(mutex_);
  job->has_ended = true;
}

void StoreJobs::count(const Job& job, const std::optional<Error>& failure) {
  JobCounts& counts = counts_of(job.kind);
  --counts.running;
  ++(!failure ? counts.succeeded : job.stop.stop_requested() ? counts.cancelled : counts.failed);
}

void StoreJobs::tell(Job& job, const JobStatus& status) {
  std::vector<Tell> all;
  {
    const std::lock_guard lock(mutex_);
    job.last = status;
    for (const auto& [ticket, listener] : job.listeners) all.push_back(listener.progress);
  }
  for (const Tell& one : all) call_guarded(one, status);
}

void StoreJobs::leave(std::uint64_t ticket) {
  std::map<std::uint64_t, Listener>::node_type left;  // goes without the lock
  const std::lock_guard lock(mutex_);
  for (const auto& job : jobs_) {
    if (!job->listeners.contains(ticket)) continue;
    left = job->listeners.extract(ticket);
    if (job->listeners.empty()) job->stop.request_stop();
  }
}

void StoreJobs::stop() {
  std::vector<Listener> listeners;
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    for (const auto& job : jobs_) {
      for (auto& [ticket, listener] : std::exchange(job->listeners, {})) listeners.push_back(std::move(listener));
      job->stop.request_stop();
    }
  }
  const std::optional<Error> interrupted = Error(ErrorCode::interrupted, "the server is shutting down");
  for (const Listener& listener : listeners) call_guarded(listener.ended, interrupted);
}

}  // namespace gpux::server

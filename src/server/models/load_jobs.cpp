#include "server/models/load_jobs.h"

#include <utility>

namespace gpux::server {

LoadJob& LoadJobs::add(LoadJob::Kind kind, std::string_view name, std::string_view version,
                       std::optional<std::string> config) {
  for (const auto& job : waiting_) {
    if (job->kind == kind && job->name == name && job->version == version && job->config == config) return *job;
  }
  waiting_.push_back(std::make_shared<LoadJob>(LoadJob{.kind = kind,
                                                       .name = std::string(name),
                                                       .version = std::string(version),
                                                       .config = std::move(config),
                                                       .requesters = {}}));
  return *waiting_.back();
}

std::uint64_t LoadJobs::add_requester(LoadJob& job, Done done) {
  const std::uint64_t number = next_number();
  requesters_.emplace(number, std::move(done));
  job.requesters.push_back(number);
  return number;
}

LoadJobs::Done LoadJobs::take_requester(std::uint64_t number) {
  const auto found = requesters_.find(number);
  if (found == requesters_.end()) return nullptr;
  Done done = std::move(found->second);
  requesters_.erase(found);
  return done;
}

std::map<std::uint64_t, LoadJobs::Done> LoadJobs::take_all_requesters() {
  return std::exchange(requesters_, {});
}

std::shared_ptr<LoadJob> LoadJobs::start_next() {
  running_ = std::move(waiting_.front());
  waiting_.pop_front();
  return running_;
}

std::vector<std::uint64_t> LoadJobs::cancel(std::string_view model) {
  std::vector<std::uint64_t> requesters;
  if (running_ && running_->is_about(model)) {
    running_->is_cancelled = true;
    requesters = running_->requesters;
  }
  std::erase_if(waiting_, [&](const std::shared_ptr<LoadJob>& job) {
    if (!job->is_about(model)) return false;
    requesters.insert(requesters.end(), job->requesters.begin(), job->requesters.end());
    return true;
  });
  return requesters;
}

}  // namespace gpux::server

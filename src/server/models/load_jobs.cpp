#include "server/models/load_jobs.h"

#include <utility>

namespace gpux::server {

LoadJob& LoadJobs::add(LoadJob::Kind kind, std::string_view name, std::string_view version) {
  for (const auto& job : waiting_) {
    if (job->kind == kind && job->name == name && job->version == version) return *job;
  }
  waiting_.push_back(std::make_shared<LoadJob>(
      LoadJob{.kind = kind, .name = std::string(name), .version = std::string(version), .askers = {}}));
  return *waiting_.back();
}

std::uint64_t LoadJobs::add_asker(LoadJob& job, Done done) {
  const std::uint64_t number = next_number();
  askers_.emplace(number, std::move(done));
  job.askers.push_back(number);
  return number;
}

LoadJobs::Done LoadJobs::take_asker(std::uint64_t number) {
  const auto found = askers_.find(number);
  if (found == askers_.end()) return nullptr;
  Done done = std::move(found->second);
  askers_.erase(found);
  return done;
}

std::map<std::uint64_t, LoadJobs::Done> LoadJobs::take_all_askers() {
  return std::exchange(askers_, {});
}

std::shared_ptr<LoadJob> LoadJobs::start_next() {
  running_ = std::move(waiting_.front());
  waiting_.pop_front();
  return running_;
}

std::vector<std::uint64_t> LoadJobs::cancel(std::string_view model) {
  std::vector<std::uint64_t> askers;
  if (running_ && running_->is_about(model)) {
    running_->is_cancelled = true;
    askers = running_->askers;
  }
  std::erase_if(waiting_, [&](const std::shared_ptr<LoadJob>& job) {
    if (!job->is_about(model)) return false;
    askers.insert(askers.end(), job->askers.begin(), job->askers.end());
    return true;
  });
  return askers;
}

}  // namespace gpux::server

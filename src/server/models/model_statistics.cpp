#include "server/models/model_statistics.h"

#include <algorithm>

namespace gpux::server {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

void EngineCounts::add(const std::shared_ptr<const generation::Engine>& engine) {
  const std::lock_guard lock(mutex_);
  engines_.push_back(engine);
}

void EngineCounts::remove(const std::shared_ptr<const generation::Engine>& engine) {
  const std::lock_guard lock(mutex_);
  if (std::erase(engines_, engine) == 0) return;
  generation::EngineStatistics last = engine->statistics();
  last.running = last.waiting = last.slots = 0;
  last.cached_tokens = last.cache_bytes = last.max_cache_bytes = 0;
  add_to(ended_, last);
}

generation::EngineStatistics EngineCounts::sum() const {
  const std::lock_guard lock(mutex_);
  generation::EngineStatistics sum = ended_;
  for (const auto& engine : engines_) add_to(sum, engine->statistics());
  return sum;
}

void add_to(generation::EngineStatistics& sum, const generation::EngineStatistics& one) {
  sum.running += one.running;
  sum.waiting += one.waiting;
  sum.slots += one.slots;
  sum.cached_tokens += one.cached_tokens;
  sum.cache_bytes += one.cache_bytes;
  sum.max_cache_bytes += one.max_cache_bytes;
  sum.steps += one.steps;
  sum.prompt_tokens += one.prompt_tokens;
  sum.reused_tokens += one.reused_tokens;
  sum.generated_tokens += one.generated_tokens;
  sum.draft_tokens += one.draft_tokens;
  sum.accepted_draft_tokens += one.accepted_draft_tokens;
  sum.draft_model_steps += one.draft_model_steps;
  sum.draft_model_failures += one.draft_model_failures;
  sum.finished += one.finished;
  sum.cancelled += one.cancelled;
  sum.failed += one.failed;
  sum.preempted += one.preempted;
}

void ModelStatistics::count(const Error& error, Clock::time_point arrived, bool admitted) noexcept {
  failure.add(Clock::now() - arrived);
  switch (error.code()) {
    case ErrorCode::resource_exhausted:
      ++(admitted ? failed : rejected);
      break;
    case ErrorCode::interrupted:
      ++cancelled;
      break;
    case ErrorCode::deadline_exceeded:
      ++expired;
      break;
    case ErrorCode::invalid_input:
      ++invalid;
      break;
    default:
      ++failed;
  }
}

void ModelStatistics::count(const runtime::RunReport& run) {
  ++runs;
  const std::lock_guard lock(mutex_);
  BatchStatistics& batch = batches_[run.rows];
  ++batch.runs;
  batch.input += run.input;
  batch.compute += run.compute;
  batch.output += run.output;
}

std::map<std::int64_t, BatchStatistics> ModelStatistics::batches() const {
  const std::lock_guard lock(mutex_);
  return batches_;
}

}  // namespace gpux::server

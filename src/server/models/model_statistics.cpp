#include "server/models/model_statistics.h"

#include <algorithm>

namespace gpux::server {
namespace {

using Clock = std::chrono::steady_clock;

// What only grows.
void add_counts(generation::EngineStatistics& sum, const generation::EngineStatistics& one) {
  sum.steps += one.steps;
  sum.prompt_tokens += one.prompt_tokens;
  sum.reused_tokens += one.reused_tokens;
  sum.restored_tokens += one.restored_tokens;
  sum.generated_tokens += one.generated_tokens;
  sum.draft_tokens += one.draft_tokens;
  sum.accepted_draft_tokens += one.accepted_draft_tokens;
  sum.draft_model_steps += one.draft_model_steps;
  sum.draft_model_failures += one.draft_model_failures;
  sum.finished += one.finished;
  sum.cancelled += one.cancelled;
  sum.failed += one.failed;
  sum.preempted += one.preempted;
  sum.files.hits += one.files.hits;
  sum.files.misses += one.files.misses;
  sum.files.written_files += one.files.written_files;
  sum.files.skipped_writes += one.files.skipped_writes;
}

}  // namespace

void EngineCounts::add(const std::shared_ptr<const generation::Engine>& engine) {
  const std::lock_guard lock(mutex_);
  engines_.push_back(engine);
}

void EngineCounts::remove(const std::shared_ptr<const generation::Engine>& engine) {
  const std::lock_guard lock(mutex_);
  if (std::erase(engines_, engine) == 0) return;
  const generation::EngineStatistics last = engine->statistics();
  add_counts(ended_, last);
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
  // Those of engines that share a folder are the same.
  sum.files.files = std::max(sum.files.files, one.files.files);
  sum.files.bytes = std::max(sum.files.bytes, one.files.bytes);
  add_counts(sum, one);
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

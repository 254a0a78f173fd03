#include "base/memory_budget.h"

#include <algorithm>

namespace gpux {

bool MemoryBudget::take(std::uint64_t bytes) noexcept {
  std::uint64_t held = held_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_ || held > limit_ - bytes) return false;
  } while (!held_.compare_exchange_weak(held, held + bytes, std::memory_order_relaxed));
  return true;
}

void MemoryBudget::give_back(std::uint64_t bytes) noexcept {
  held_.fetch_sub(bytes, std::memory_order_relaxed);
}

void MemoryBudget::reclaim() {
  const std::lock_guard lock(mutex_);
  for (const MemoryReclaimer* reclaimer : reclaimers_) reclaimer->release_();
}

MemoryReclaimer::MemoryReclaimer(std::shared_ptr<MemoryBudget> budget, std::function<void()> release)
    : budget_(std::move(budget)), release_(std::move(release)) {
  const std::lock_guard lock(budget_->mutex_);
  budget_->reclaimers_.push_back(this);
}

MemoryReclaimer::~MemoryReclaimer() {
  const std::lock_guard lock(budget_->mutex_);
  std::erase(budget_->reclaimers_, this);
}

bool MemoryShare::grow(std::uint64_t bytes) noexcept {
  if (budget_ != nullptr && !budget_->take(bytes)) return false;
  bytes_ += bytes;
  return true;
}

bool MemoryShare::resize(std::uint64_t bytes) noexcept {
  if (bytes > bytes_) return grow(bytes - bytes_);
  if (budget_ != nullptr) budget_->give_back(bytes_ - bytes);
  bytes_ = bytes;
  return true;
}

void MemoryShare::release() noexcept {
  if (budget_ != nullptr) budget_->give_back(bytes_);
  bytes_ = 0;
}

}  // namespace gpux

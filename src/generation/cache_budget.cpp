#include "generation/cache_budget.h"

#include <algorithm>
#include <utility>

#include "base/machine.h"

namespace gpux::generation {

CacheLimits cache_limits(std::uint64_t usable_bytes, std::uint64_t memory_bytes, std::uint64_t model_bytes) {
  const std::uint64_t memory = memory_bytes == 0 ? usable_bytes : std::min(memory_bytes, usable_bytes);
  const std::uint64_t free = memory - std::min(memory, model_bytes);
  // Where models fill a budget, those that were least recently used make room.
  constexpr std::uint64_t least_part = 8;
  const std::uint64_t limit = std::max(free / 2, memory_bytes / least_part);
  return {.limit_bytes = limit, .free_bytes = std::max(free, limit)};
}

const std::shared_ptr<CacheBudget>& CacheBudget::of_process() {
  static const std::shared_ptr<CacheBudget> budget(new CacheBudget());
  return budget;
}

CacheBudget::CacheBudget() : is_measured_(true) {
  measure();
}

void CacheBudget::set_memory(std::uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    memory_ = bytes;
  }
  measure();
}

void CacheBudget::measure(std::uint64_t worker_bytes) {
  {
    const std::lock_guard lock(mutex_);
    worker_bytes_ = worker_bytes;
  }
  measure();
}

void CacheBudget::measure() {
  const std::uint64_t usable = usable_memory_bytes(Machine::this_one()), resident = resident_bytes();
  const std::lock_guard lock(mutex_);
  if (!is_measured_) return;
  // Keys and values are in this process, or in a worker.
  const std::uint64_t taken = resident + worker_bytes_;
  const CacheLimits limits = cache_limits(usable, memory_, taken - std::min(taken, held()));
  limit_ = limits.limit_bytes;
  free_ = limits.free_bytes;
}

std::uint64_t CacheBudget::limit() const noexcept {
  std::uint64_t most = limit_;
  for (const CacheShare* share : shares_) most = std::max(most, share->min_bytes_);
  return most;
}

std::uint64_t CacheBudget::held() const noexcept {
  std::uint64_t sum = 0;
  for (const CacheShare* share : shares_) sum += share->bytes_;
  return sum;
}

std::uint64_t CacheBudget::limit_bytes() const {
  const std::lock_guard lock(mutex_);
  return limit();
}

std::uint64_t CacheBudget::free_bytes() const {
  const std::lock_guard lock(mutex_);
  // What an engine was given, the one that replaces it shares.
  return std::max(free_, limit());
}

std::uint64_t CacheBudget::held_bytes() const {
  const std::lock_guard lock(mutex_);
  return held();
}

bool CacheBudget::has_older_waiter(const CacheShare* share, std::uint64_t age) const noexcept {
  return std::ranges::any_of(shares_, [&](const CacheShare* other) {
    return other != share && other->waiting_age_ && *other->waiting_age_ < age;
  });
}

void CacheBudget::ask_others(const CacheShare* share) const {
  for (const CacheShare* other : shares_) {
    if (other != share && other->bytes_ != 0) other->release_();
  }
}

CacheShare::CacheShare(std::shared_ptr<CacheBudget> budget, std::uint64_t min_bytes, std::function<void()> release)
    : budget_(std::move(budget)), min_bytes_(min_bytes), release_(std::move(release)) {
  const std::lock_guard lock(budget_->mutex_);
  budget_->shares_.push_back(this);
}

CacheShare::~CacheShare() {
  const std::lock_guard lock(budget_->mutex_);
  std::erase(budget_->shares_, this);
}

bool CacheShare::resize(std::uint64_t bytes, std::uint64_t age) {
  const std::lock_guard lock(budget_->mutex_);
  const bool is_more = bytes > bytes_;
  if (is_more && budget_->has_older_waiter(this, age)) return false;
  if (is_more && budget_->held() - bytes_ + bytes > budget_->limit()) {
    budget_->ask_others(this);
    return false;
  }
  bytes_ = bytes;
  waiting_age_.reset();
  return true;
}

void CacheShare::shrink(std::uint64_t bytes) {
  const std::lock_guard lock(budget_->mutex_);
  bytes_ = std::min(bytes_, bytes);
}

bool CacheShare::wait(std::uint64_t age) {
  const std::lock_guard lock(budget_->mutex_);
  waiting_age_ = age;
  budget_->ask_others(this);
  return !budget_->has_older_waiter(this, age);
}

void CacheShare::stop_waiting() {
  const std::lock_guard lock(budget_->mutex_);
  waiting_age_.reset();
}

}  // namespace gpux::generation

#include "server/grpc/transfer_watch.h"

#include <algorithm>
#include <utility>

#include "base/failure_of.h"

namespace gpux::server {

using Clock = std::chrono::steady_clock;

TransferWatch::TransferWatch(std::chrono::milliseconds timeout, std::uint64_t min_bytes_per_second)
    : timeout_(timeout),
      min_bytes_per_second_(std::max<std::uint64_t>(min_bytes_per_second, 1)),
      thread_([this](const std::stop_token& stop) { sweep(stop); }) {}

TransferWatch::~TransferWatch() = default;

void TransferWatch::add(WatchedTransfer& transfer, std::uint64_t bytes, Holds holds, Clock::time_point latest) {
  const Clock::time_point now = Clock::now();
  transfer.deadline_ =
      std::min(latest, now + timeout_ + std::chrono::milliseconds(bytes * 1000 / min_bytes_per_second_));
  constexpr std::uint64_t worth_giving_up = 64 << 10, slow_bytes_per_second = 1 << 20;
  transfer.slow_from_ = holds == Holds::memory && bytes >= worth_giving_up
                            ? now + std::max(std::chrono::milliseconds(500),
                                             std::chrono::milliseconds(bytes * 1000 / slow_bytes_per_second))
                            : Clock::time_point::max();
  const std::lock_guard lock(mutex_);
  transfer.place_ = transfers_.size();
  transfers_.push_back(&transfer);
}

void TransferWatch::remove(WatchedTransfer& transfer) {
  const std::lock_guard lock(mutex_);
  take_out(transfer);
}

void TransferWatch::release_memory() {
  const Clock::time_point now = Clock::now();
  const std::lock_guard lock(mutex_);
  const auto slowest = std::min_element(transfers_.begin(), transfers_.end(),
                                        [](const auto* a, const auto* b) { return a->slow_from_ < b->slow_from_; });
  if (slowest == transfers_.end() || (*slowest)->slow_from_ > now) return;
  WatchedTransfer& transfer = **slowest;
  take_out(transfer);
  transfer.give_up(WatchedTransfer::GivenUp::for_memory);
}

void TransferWatch::take_out(WatchedTransfer& transfer) {
  const std::size_t place = transfer.place_;
  if (place == WatchedTransfer::nowhere) return;
  transfers_[place] = transfers_.back();
  transfers_[place]->place_ = place;
  transfers_.pop_back();
  transfer.place_ = WatchedTransfer::nowhere;
}

void TransferWatch::sweep(const std::stop_token& stop) {
  const auto interval = std::clamp<std::chrono::milliseconds>(timeout_ / 20, std::chrono::milliseconds(1),
                                                              std::chrono::milliseconds(500));
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    (void)ending_.wait_for(lock, stop, interval, [] { return false; });
    const Clock::time_point now = Clock::now();
    // Backwards: what is taken out is replaced by the last, which has been looked at.
    for (std::size_t i = transfers_.size(); i-- > 0;) {
      WatchedTransfer& transfer = *transfers_[i];
      if (now < transfer.deadline_) continue;
      take_out(transfer);
      call_guarded([&] { transfer.give_up(WatchedTransfer::GivenUp::as_late); });
    }
  }
}

}  // namespace gpux::server

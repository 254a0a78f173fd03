#include "runtime/scheduling/device_health.h"

#include <algorithm>

#include "ort/lost_device.h"

namespace gpux::runtime {

RunFailure run_failure(const Error& error, bool has_lost_its_worker) {
  if (has_lost_its_worker) return RunFailure::lost;
  // Only these are about the provider; the words of others may quote an input.
  const bool may_be_the_device = error.code() == ErrorCode::provider_unavailable || error.code() == ErrorCode::internal;
  if (error.code() == ErrorCode::resource_exhausted) return RunFailure::memory;
  if (!may_be_the_device) return RunFailure::request;
  return ort::is_lost_device(error) ? RunFailure::lost : RunFailure::suspected;
}

std::string_view to_string(DeviceState state) noexcept {
  switch (state) {
    case DeviceState::in_service:
      return "in_service";
    case DeviceState::suspected:
      return "suspected";
    case DeviceState::checking:
      return "checking";
    case DeviceState::out:
      return "out";
  }
  return "";
}

std::chrono::milliseconds trial_delay(unsigned failures, const TrialDelays& delays) noexcept {
  constexpr unsigned most_doublings = 20;
  const unsigned doublings = failures == 0 ? 0 : std::min(failures - 1, most_doublings);
  return std::min(delays.first * (std::int64_t{1} << doublings), delays.max);
}

void DeviceHealth::failed(RunFailure failure, const std::string& reason, bool is_retried, Time now) {
  if (!is_of_the_device(failure)) return;
  // Of runs that began before: it is known already.
  if (state_ == DeviceState::out) return;
  reason_ = reason;
  if (failure == RunFailure::lost) {
    take_out(now);
  } else if (!is_retried) {
    if (state_ == DeviceState::in_service) check(now);
  } else if (state_ == DeviceState::in_service) {
    state_ = DeviceState::suspected;
    ++suspicion_;
  }
}

void DeviceHealth::elsewhere(bool succeeded, std::uint64_t suspicion, Time now) {
  if (state_ != DeviceState::suspected || suspicion != suspicion_) return;
  if (succeeded) {
    take_out(now);
  } else {
    check(now);
  }
}

void DeviceHealth::check(Time now) {
  if (!can_try_) {
    put_back(now);
    return;
  }
  state_ = DeviceState::checking;
  trial_at_ = now;
}

void DeviceHealth::end_trial(const std::optional<std::string>& failure, Time now) {
  is_on_trial_ = false;
  if (failure) {
    reason_ = *failure;
    take_out(now);
  } else {
    put_back(now);
  }
}

bool DeviceHealth::end_delay(Time now) {
  if (can_try_ || state_ != DeviceState::out || now < trial_at_) return false;
  put_back(now);
  return true;
}

std::optional<DeviceHealth::Time> DeviceHealth::trial_due() const noexcept {
  if (is_on_trial_ || (state_ != DeviceState::checking && state_ != DeviceState::out)) return std::nullopt;
  return trial_at_;
}

void DeviceHealth::take_out(Time now) {
  const bool was_calm = state_ != DeviceState::out && in_service_since_ + delays_.calm <= now;
  in_a_row_ = was_calm ? 1 : in_a_row_ + 1;
  if (state_ != DeviceState::out) ++failures_;
  state_ = DeviceState::out;
  trial_at_ = now + trial_delay(in_a_row_, delays_);
}

void DeviceHealth::put_back(Time now) noexcept {
  state_ = DeviceState::in_service;
  in_service_since_ = now;
}

}  // namespace gpux::runtime

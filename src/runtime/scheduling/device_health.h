#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gpux/error.h"

namespace gpux::runtime {

/// What a failed run implies about its device.
enum class RunFailure : std::uint8_t {
  request,    ///< nothing: the input, the caller or the time limit ended it
  memory,     ///< it has too little memory for this run; it stays in service
  suspected,  ///< it may have failed, or the input made its provider fail: known once the request ran elsewhere
  lost,       ///< it cannot be used any more, whatever the input was: ort::is_lost_device()
};

/// Classifies the error of a run. `has_lost_its_worker`: Replica::has_lost_its_worker(). Pure.
RunFailure run_failure(const Error& error, bool has_lost_its_worker);

constexpr bool is_of_the_device(RunFailure failure) noexcept {
  return failure == RunFailure::suspected || failure == RunFailure::lost;
}

enum class DeviceState : std::uint8_t {
  in_service,
  suspected,  ///< a run failed, and its request has not run elsewhere yet; takes no requests
  checking,   ///< whether the device failed is not known; takes no requests until a trial run succeeds
  out,        ///< it failed; takes no requests until a trial run succeeds
};

/// Name of the state: "in_service" …
std::string_view to_string(DeviceState state) noexcept;

/// How long a device that failed is left alone before its next trial run.
struct TrialDelays {
  std::chrono::milliseconds first{250};
  std::chrono::milliseconds max{30'000};
  /// A device that was in service for so long does not count as one that keeps failing.
  std::chrono::milliseconds calm{60'000};
};

/// After so many failures in a row (1: the first): `first`, doubled each time, at most `max`. Pure.
std::chrono::milliseconds trial_delay(unsigned failures, const TrialDelays& delays) noexcept;

/// Whether a device takes requests. It has no clock and no thread: callers pass the time. Not thread-safe.
class DeviceHealth {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `can_try`: trial runs are possible. Without them a device that failed is in service again after its delay, and the
  /// next request is the trial.
  explicit DeviceHealth(const TrialDelays& delays = {}, bool can_try = true) noexcept
      : delays_(delays), can_try_(can_try) {}

  /// A run failed with `failure`. `is_retried`: its request runs elsewhere next, and elsewhere() follows.
  void failed(RunFailure failure, const std::string& reason, bool is_retried, Time now);

  /// The request whose failure made it `suspected` succeeded elsewhere, or did not. `suspicion`: suspicion() of then;
  /// an earlier one has no effect.
  void elsewhere(bool succeeded, std::uint64_t suspicion, Time now);

  /// Nobody can tell, as no other device is in service: a trial run must.
  void check(Time now);

  /// A trial run begins or ends; `failure` is its reason, empty where it succeeded.
  void begin_trial() noexcept { is_on_trial_ = true; }

  void end_trial(const std::optional<std::string>& failure, Time now);

  /// Without trial runs: puts a device whose delay has passed in service again. True where it did.
  bool end_delay(Time now);

  /// When the next trial run, or end_delay(), is due; empty where none is.
  [[nodiscard]] std::optional<Time> trial_due() const noexcept;

  [[nodiscard]] DeviceState state() const noexcept { return state_; }

  [[nodiscard]] bool takes_requests() const noexcept { return state_ == DeviceState::in_service; }

  [[nodiscard]] bool can_try() const noexcept { return can_try_; }

  [[nodiscard]] std::uint64_t suspicion() const noexcept { return suspicion_; }

  /// How often the device was taken out of service.
  [[nodiscard]] std::uint64_t failures() const noexcept { return failures_; }

  /// Why it was last taken out, or is not known to work; empty: it never was.
  [[nodiscard]] const std::string& reason() const noexcept { return reason_; }

 private:
  void take_out(Time now);
  void put_back(Time now) noexcept;

  TrialDelays delays_;
  bool can_try_;
  DeviceState state_ = DeviceState::in_service;
  bool is_on_trial_ = false;
  unsigned in_a_row_ = 0;
  std::uint64_t failures_ = 0, suspicion_ = 0;
  Time trial_at_{}, in_service_since_ = Time::min();
  std::string reason_;
};

}  // namespace gpux::runtime

#include "engines.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include <onnxruntime_cxx_api.h>

namespace gpux_example {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t largest = 100'000;
constexpr std::size_t max_devices = 8;

std::mutex& mutex_of(std::size_t device, Engine engine) {
  static std::array<std::array<std::mutex, 3>, max_devices> all;
  return all.at(device).at(static_cast<std::size_t>(engine));
}

}  // namespace

Speed speed_from_environment() {
  const char* const given = std::getenv("GPUX_EXAMPLE_SPEED");
  const std::string_view text = given == nullptr ? "" : given;
  if (text.empty()) return {};
  std::array<std::uint32_t, 3> numbers{};
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  bool fits = true;
  for (std::size_t i = 0; fits && i < numbers.size(); ++i) {
    if (i != 0) fits = at != end && *at++ == ',';
    if (!fits) break;
    const auto [behind, error] = std::from_chars(at, end, numbers.at(i));
    fits = error == std::errc{} && numbers.at(i) <= largest;
    at = behind;
  }
  if (!fits || at != end) {
    throw Ort::Exception("GPUX_EXAMPLE_SPEED is '" + std::string(text) +
                             "'; accepted: IN,COMPUTE,OUT, each from 0 to 100000 (MB/s, ms, MB/s)",
                         ORT_INVALID_ARGUMENT);
  }
  return {.in_mb_per_s = numbers[0], .compute_ms = numbers[1], .out_mb_per_s = numbers[2]};
}

bool runs_one_at_a_time() {
  const char* const given = std::getenv("GPUX_EXAMPLE_RUNS");
  const std::string_view text = given == nullptr ? "" : given;
  if (text.empty() || text == "several") return false;
  if (text == "one") return true;
  throw Ort::Exception("GPUX_EXAMPLE_RUNS is '" + std::string(text) + "'; accepted: one, several",
                       ORT_INVALID_ARGUMENT);
}

BusyEngine::BusyEngine(std::size_t device, Engine engine) : speed_(speed_from_environment()), engine_(engine) {
  const bool takes_time = engine == Engine::copy_in    ? speed_.in_mb_per_s != 0
                          : engine == Engine::copy_out ? speed_.out_mb_per_s != 0
                                                       : speed_.compute_ms != 0;
  if (takes_time) lock_ = std::unique_lock(mutex_of(device, engine));
}

void BusyEngine::wait_for_bytes(std::size_t bytes) const {
  const std::uint32_t mb_per_s = engine_ == Engine::copy_in ? speed_.in_mb_per_s : speed_.out_mb_per_s;
  if (mb_per_s == 0) return;
  constexpr std::uint64_t ns_per_byte_at_1_mb_per_s = 1000;
  std::this_thread::sleep_for(std::chrono::nanoseconds(bytes * ns_per_byte_at_1_mb_per_s / mb_per_s));
}

void BusyEngine::wait_for_computation(const std::function<void()>& check) const {
  constexpr std::chrono::milliseconds step{2};
  const auto end = Clock::now() + std::chrono::milliseconds(speed_.compute_ms);
  for (auto now = Clock::now(); now < end; now = Clock::now()) {
    check();
    std::this_thread::sleep_for(std::min<Clock::duration>(step, end - now));
  }
}

}  // namespace gpux_example

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>

namespace gpux_example {

/// The parts of a simulated device that work side by side, each on one thing at a time.
enum class Engine : std::uint8_t { copy_in, compute, copy_out };

/// How long they take, from the environment variable GPUX_EXAMPLE_SPEED=IN,COMPUTE,OUT: megabytes (10^6) per second of
/// copies to the device, milliseconds per computation, megabytes per second of copies from it; 0: no time at all.
struct Speed {
  std::uint32_t in_mb_per_s = 0;
  std::uint32_t compute_ms = 0;
  std::uint32_t out_mb_per_s = 0;
};

/// Throws Ort::Exception for what is none: three numbers from 0 to 100000. Read anew at each call.
Speed speed_from_environment();

/// Whether a session's runs, with the copies of their inputs and outputs, are one after the other, as of providers that
/// do not support concurrent runs: GPUX_EXAMPLE_RUNS=one. Throws Ort::Exception for what is neither that nor "several".
bool runs_one_at_a_time();

/// Has an engine of a device to itself while it lives. Without a speed it does not wait for it.
class BusyEngine {
 public:
  BusyEngine(std::size_t device, Engine engine);

  /// Waits as long as copying these bytes takes.
  void wait_for_bytes(std::size_t bytes) const;
  /// Waits as long as a computation takes. `check` is called now and then, and ends it by throwing.
  void wait_for_computation(const std::function<void()>& check) const;

 private:
  Speed speed_;
  Engine engine_;
  std::unique_lock<std::mutex> lock_;
};

}  // namespace gpux_example

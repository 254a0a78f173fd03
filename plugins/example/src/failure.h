#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpux_example {

/// The failure that is set for the provider.
struct Failure {
  enum class Kind {
    none,
    load,
    no_device,
    create,
    capability,
    claim_nothing,
    compile,
    hang_compile,
    out_of_memory,
    run,
    device_lost,
    crash,
    crash_load,
    crash_create,
    crash_compile,
    hang,
    slow,
    broken
  };

  Kind kind = Kind::none;
  /// The computation that fails, counted from 1 in each session, for `run`, `crash` and `device_lost`, after which
  /// every computation of the process fails, in all sessions, as after CUDA's sticky errors; the first that fails for
  /// `broken`; milliseconds for `slow`; how many bytes the device holds for `out_of_memory`.
  std::uint64_t number = 0;
};

/// Reads commands, separated by commas: none, or load, no-device, create, capability, claim-nothing, compile,
/// hang-compile, out-of-memory:BYTES, run:N, device-lost:N, crash:N, crash-load, crash-create, crash-compile, hang,
/// slow:MS, broken:N, each of them of all devices or of one, as run:3@1. Returns the first that is of `device`. Throws
/// Ort::Exception, naming `source`, for anything else.
Failure parse_failure(std::string_view commands, std::string_view source, std::size_t device = 0);

/// The commands in the environment variable GPUX_EXAMPLE_FAIL, read anew at each call.
Failure failure_from_environment(std::size_t device = 0);

/// Throws Ort::Exception with the code a vendor's provider would give, saying at which step it was set to fail.
[[noreturn]] void fail_on_command(const std::string& step);

}  // namespace gpux_example

#include "failure.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <system_error>

#include <onnxruntime_cxx_api.h>

namespace gpux_example {
namespace {

struct Word {
  std::string_view text;
  Failure::Kind kind;
  bool takes_number;
};

constexpr std::array<Word, 17> words{{
    {"load", Failure::Kind::load, false},
    {"no-device", Failure::Kind::no_device, false},
    {"create", Failure::Kind::create, false},
    {"capability", Failure::Kind::capability, false},
    {"claim-nothing", Failure::Kind::claim_nothing, false},
    {"compile", Failure::Kind::compile, false},
    {"hang-compile", Failure::Kind::hang_compile, false},
    {"out-of-memory", Failure::Kind::out_of_memory, true},
    {"run", Failure::Kind::run, true},
    {"device-lost", Failure::Kind::device_lost, true},
    {"crash", Failure::Kind::crash, true},
    {"crash-load", Failure::Kind::crash_load, false},
    {"crash-create", Failure::Kind::crash_create, false},
    {"crash-compile", Failure::Kind::crash_compile, false},
    {"hang", Failure::Kind::hang, false},
    {"slow", Failure::Kind::slow, true},
    {"broken", Failure::Kind::broken, true},
}};

bool parse_number(std::string_view text, std::uint64_t& number) {
  // A day in milliseconds: far from where a clock's arithmetic would overflow.
  constexpr std::uint64_t largest = 86'400'000;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && number >= 1 && number <= largest;
}

struct Command {
  Failure failure;
  std::optional<std::size_t> device;  ///< empty: all of them
};

/// Empty where the text is none.
std::optional<Command> read_command(std::string_view text) {
  Command command;
  if (const std::size_t at = text.find('@'); at != std::string_view::npos) {
    std::size_t device = 0;
    const std::string_view digits = text.substr(at + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), device);
    if (error != std::errc{} || end != digits.data() + digits.size() || device > 7) return std::nullopt;
    command.device = device;
    text = text.substr(0, at);
  }
  const std::size_t colon = text.find(':');
  for (const Word& word : words) {
    if (word.text != text.substr(0, colon) || word.takes_number != (colon != std::string_view::npos)) continue;
    // These happen before there are devices.
    using Kind = Failure::Kind;
    const bool is_of_all = word.kind == Kind::load || word.kind == Kind::no_device || word.kind == Kind::crash_load;
    if (command.device && is_of_all) continue;
    command.failure.kind = word.kind;
    if (!word.takes_number || parse_number(text.substr(colon + 1), command.failure.number)) return command;
  }
  return std::nullopt;
}

Command parse_command(std::string_view text, std::string_view source) {
  if (const std::optional<Command> command = read_command(text)) return *command;
  throw Ort::Exception(std::string(source) + ": '" + std::string(text) +
                           "' is no failure to command; accepted: load, no-device, create, capability, claim-nothing, "
                           "compile, hang-compile, out-of-memory:BYTES, run:N, device-lost:N, crash:N, crash-load, "
                           "crash-create, crash-compile, hang, slow:MS, broken:N, with numbers from 1 to 86400000; "
                           "behind any of them but load, no-device and crash-load @DEVICE, from 0 to 7",
                       ORT_INVALID_ARGUMENT);
}

}  // namespace

Failure parse_failure(std::string_view commands, std::string_view source, std::size_t device) {
  Failure chosen;
  while (!commands.empty()) {
    const std::size_t comma = commands.find(',');
    const Command command = parse_command(commands.substr(0, comma), source);
    if (chosen.kind == Failure::Kind::none && command.device.value_or(device) == device) chosen = command.failure;
    commands = comma == std::string_view::npos ? std::string_view() : commands.substr(comma + 1);
  }
  return chosen;
}

Failure failure_from_environment(std::size_t device) {
  const char* commands = std::getenv("GPUX_EXAMPLE_FAIL");
  return parse_failure(commands == nullptr ? "" : commands, "GPUX_EXAMPLE_FAIL", device);
}

void fail_on_command(const std::string& step) {
  throw Ort::Exception("GpuxExampleExecutionProvider was set to fail at: " + step, ORT_EP_FAIL);
}

}  // namespace gpux_example

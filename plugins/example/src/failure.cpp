#include "failure.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <system_error>

#include <onnxruntime_cxx_api.h>

namespace gpux_example {
namespace {

struct Word {
  std::string_view text;
  Failure::Kind kind;
  bool takes_number;
};

constexpr std::array<Word, 16> words{{
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
}};

bool parse_number(std::string_view text, std::uint64_t& number) {
  // A day in milliseconds: far from where a clock's arithmetic would overflow.
  constexpr std::uint64_t largest = 86'400'000;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && number >= 1 && number <= largest;
}

}  // namespace

Failure parse_failure(std::string_view command, std::string_view source) {
  if (command.empty()) return {};
  const std::size_t colon = command.find(':');
  const std::string_view name = command.substr(0, colon);
  for (const Word& word : words) {
    if (word.text != name || word.takes_number != (colon != std::string_view::npos)) continue;
    Failure failure{word.kind, 0};
    if (!word.takes_number || parse_number(command.substr(colon + 1), failure.number)) return failure;
  }
  throw Ort::Exception(std::string(source) + ": '" + std::string(command) +
                           "' is no failure to command; accepted: load, no-device, create, capability, claim-nothing, "
                           "compile, hang-compile, out-of-memory:BYTES, run:N, device-lost:N, crash:N, crash-load, "
                           "crash-create, crash-compile, hang, slow:MS, with numbers from 1 to 86400000",
                       ORT_INVALID_ARGUMENT);
}

Failure failure_from_environment() {
  const char* command = std::getenv("GPUX_EXAMPLE_FAIL");
  return parse_failure(command == nullptr ? "" : command, "GPUX_EXAMPLE_FAIL");
}

void fail_on_command(const std::string& step) {
  throw Ort::Exception("GpuxExampleExecutionProvider was set to fail at: " + step, ORT_EP_FAIL);
}

}  // namespace gpux_example

#include "cli/synthetic_flags.h"

#include <charconv>
#include <limits>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>

#include "gpux/error.h"

namespace gpux::cli {
namespace {

std::pair<std::string, std::int64_t> name_and_size(const std::string& text) {
  const std::size_t equals = text.rfind('=');
  std::int64_t size = -1;
  if (equals != std::string::npos && equals != 0) {
    const char* end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data() + equals + 1, end, size);
    if (error != std::errc() || stopped != end) size = -1;
  }
  if (size < 0) {
    throw Error(ErrorCode::usage,
                fmt::format("--dim is '{}'; accepted: NAME=SIZE or INPUT.INDEX=SIZE, as in batch=8", text));
  }
  return {text.substr(0, equals), size};
}

}  // namespace

void add_synthetic_flags(CLI::App& command, SyntheticFlags& flags) {
  command
      .add_option("--dim", flags.dimensions,
                  "size of a free dimension of synthetic inputs (default: as preprocessing says, else 1): NAME=SIZE or "
                  "INPUT.INDEX=SIZE; repeatable")
      ->allow_extra_args(false);
  command.add_option("--seed", flags.seed, "seed of synthetic inputs (default 0)")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()));
}

MadeInputs make_inputs(const SyntheticFlags& flags, OpenModel& model) {
  std::vector<std::pair<std::string, std::int64_t>> sizes;
  for (const std::string& text : flags.dimensions) sizes.push_back(name_and_size(text));
  return gpux::make_inputs(model, sizes, flags.seed);
}

}  // namespace gpux::cli

#include "isolation/decide_isolation.h"

#include <fmt/format.h>

namespace gpux::isolation {
namespace {

/// Why a worker process is the default of a load; empty: it is not.
std::string cause_of(const IsolationFacts& facts) {
  if (!facts.plugin_library.empty()) {
    return fmt::format("the library of provider '{}' is given by its path", facts.plugin_library);
  }
  if (!facts.operator_library.empty()) return fmt::format("'{}' has custom operators", facts.operator_library);
  if (facts.is_pulled_package) return "the package was pulled or loaded";
  return {};
}

}  // namespace

IsolationDecision decide_isolation(const IsolationRequest& request, const IsolationFacts& facts) {
  const std::string cause = cause_of(facts);
  const bool is_ignored = request.isolation == Isolation::thread && request.is_from_package && facts.is_pulled_package;
  if (request.isolation && !is_ignored) {
    if (*request.isolation == Isolation::process) {
      return {Isolation::process, fmt::format("the model runs in a worker process ({})", request.from)};
    }
    if (cause.empty()) return {};
    return {Isolation::thread,
            fmt::format("the model runs in this process ({}), and a crash would end it: {}", request.from, cause)};
  }
  if (cause.empty()) return {};
  if (!facts.obstacle.empty()) {
    return {Isolation::thread,
            fmt::format("the model runs in this process, as {}, and a crash would end it: {}", facts.obstacle, cause)};
  }
  return {Isolation::process, fmt::format("the model runs in a worker process: {}", cause)};
}

}  // namespace gpux::isolation

#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace gpux {

/// What the operator of a server lets a model take. 0: no limit.
struct ModelLimits {
  std::uint64_t memory_bytes = 0;         ///< as LoadOptions::memory_bytes
  std::uint32_t processors = 0;           ///< threads that compute its runs at the same time
  std::uint64_t requests_per_minute = 0;  ///< of all clients together, as the other limits of requests
  std::uint64_t tokens_per_minute = 0;    ///< that it reads and generates
  std::uint64_t tokens_per_day = 0;
  std::uint64_t requests_in_flight = 0;

  bool operator==(const ModelLimits&) const = default;
};

/// Those that there are, by the names that a list of models has for them; memory in bytes. Pure.
[[nodiscard]] inline std::vector<std::pair<std::string_view, std::uint64_t>> given_limits(const ModelLimits& limits) {
  std::vector<std::pair<std::string_view, std::uint64_t>> given{{"memory", limits.memory_bytes},
                                                                {"processors", limits.processors},
                                                                {"requests_per_minute", limits.requests_per_minute},
                                                                {"tokens_per_minute", limits.tokens_per_minute},
                                                                {"tokens_per_day", limits.tokens_per_day},
                                                                {"requests_in_flight", limits.requests_in_flight}};
  std::erase_if(given, [](const auto& limit) { return limit.second == 0; });
  return given;
}

}  // namespace gpux

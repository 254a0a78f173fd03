#pragma once

#include <array>
#include <cstddef>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

namespace gpux_cpu {

/// The first of `tables`, best first, that this processor runs, or the one that the environment variable names. Throws
/// std::invalid_argument where it names none that this processor runs. The last one runs on each.
template <typename Table, std::size_t count>
const Table& choose_kernels(const char* variable, const std::array<const Table*, count>& tables) {
  const char* given = std::getenv(variable);
  const std::string_view name = given == nullptr ? "" : given;
  std::string accepted;
  for (const Table* table : tables) {
    if (!table->can_run()) continue;
    if (name.empty() || name == table->name) return *table;
    accepted.append(accepted.empty() ? "" : ", ").append(table->name);
  }
  throw std::invalid_argument(std::string(variable) + " is '" + std::string(name) + "'; this processor runs " +
                              accepted);
}

}  // namespace gpux_cpu

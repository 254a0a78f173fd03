#include "server/protocols/field.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace gpux::server {

std::string names_of(std::initializer_list<std::span<const Field>> tables) {
  std::vector<std::string_view> names;
  for (const std::span<const Field> table : tables) {
    for (const Field& field : table) names.push_back(field.name);
  }
  std::ranges::sort(names);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<Field> joined(std::initializer_list<std::span<const Field>> tables) {
  std::vector<Field> all;
  for (const std::span<const Field> table : tables) all.insert(all.end(), table.begin(), table.end());
  return all;
}

}  // namespace gpux::server

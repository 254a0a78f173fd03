#include "gpux/options.h"

#include <array>

#include "base/memory_size.h"

namespace gpux {
namespace {

constexpr std::array<std::string_view, 5> optimization_names{"disabled", "basic", "extended", "layout", "all"};

}  // namespace

std::string_view to_string(Optimization level) noexcept {
  return optimization_names[static_cast<std::size_t>(level)];
}

std::optional<Optimization> optimization_from(std::string_view name) noexcept {
  for (std::size_t i = 0; i < optimization_names.size(); ++i) {
    if (optimization_names[i] == name) return static_cast<Optimization>(i);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> memory_bytes_from(std::string_view text) noexcept {
  return parse_memory_size(text);
}

}  // namespace gpux

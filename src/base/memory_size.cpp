#include "base/memory_size.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

namespace gpux {

std::optional<std::uint64_t> parse_memory_size(std::string_view text) noexcept {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(number) || number < 0) return std::nullopt;
  std::string unit;
  for (const char c : text.substr(static_cast<std::size_t>(end - text.data()))) {
    if (c == ' ' && unit.empty()) continue;
    unit += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }

  struct Unit {
    std::string_view name;
    double bytes;
  };

  static constexpr std::array<Unit, 16> units{{{"", 1},
                                               {"b", 1},
                                               {"k", 1e3},
                                               {"kb", 1e3},
                                               {"kib", 0x1p10},
                                               {"m", 1e6},
                                               {"mb", 1e6},
                                               {"mib", 0x1p20},
                                               {"g", 1e9},
                                               {"gb", 1e9},
                                               {"gib", 0x1p30},
                                               {"t", 1e12},
                                               {"tb", 1e12},
                                               {"tib", 0x1p40},
                                               {"ki", 0x1p10},
                                               {"mi", 0x1p20}}};
  for (const Unit& candidate : units) {
    if (candidate.name != unit) continue;
    const double bytes = number * candidate.bytes;
    if (bytes >= 0x1p63) return std::nullopt;
    return static_cast<std::uint64_t>(bytes);
  }
  return std::nullopt;
}

std::string format_bytes(std::uint64_t bytes) {
  static constexpr std::array<const char*, 5> units{"kB", "MB", "GB", "TB", "PB"};
  if (bytes < 1000) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (value /= 1000; value >= 999.95 && unit + 1 < units.size(); value /= 1000) ++unit;
  return fmt::format("{:.1f} {}", value, units[unit]);
}

}  // namespace gpux

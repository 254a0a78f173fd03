#include "checkpoint/gguf_name.h"

#include <charconv>
#include <system_error>

namespace gpux::checkpoint {
namespace {

// 0: it is none.
std::size_t whole_number_in(std::string_view digits) noexcept {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() && end == digits.data() + digits.size() ? number : 0;
}

}  // namespace

bool is_gguf(std::string_view name) noexcept {
  return name.ends_with(".gguf");
}

GgufName gguf_name_of(std::string_view name) noexcept {
  GgufName found{.model = name.substr(0, name.size() - std::string_view(".gguf").size())};
  constexpr std::string_view middle = "-of-";
  constexpr std::size_t digits = 5, length = 1 + 2 * digits + middle.size();
  if (found.model.size() <= length) return found;
  const std::string_view end = found.model.substr(found.model.size() - length);
  const std::size_t part = whole_number_in(end.substr(1, digits)), parts = whole_number_in(end.substr(length - digits));
  if (end.front() != '-' || end.substr(1 + digits, middle.size()) != middle || part == 0 || part > parts) return found;
  return {.model = found.model.substr(0, found.model.size() - length), .part = part, .parts = parts};
}

}  // namespace gpux::checkpoint

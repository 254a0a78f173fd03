#include "server/protocols/ollama/keep_alive.h"

#include <array>
#include <charconv>
#include <utility>

namespace gpux::server {
namespace {

constexpr std::array<std::pair<std::string_view, double>, 7> milliseconds_of{
    {{"ns", 1e-6}, {"us", 1e-3}, {"µs", 1e-3}, {"ms", 1}, {"s", 1e3}, {"m", 60e3}, {"h", 3600e3}}};

// A century. More is as good as for ever.
constexpr double max_milliseconds = 100.0 * 365 * 24 * 3600e3;

KeepAlive of_milliseconds(double count) {
  if (count < 0 || count > max_milliseconds) return KeepAlive::max();
  return KeepAlive(static_cast<KeepAlive::rep>(count));
}

// Digits with one dot at most, off the text.
std::optional<double> take_number(std::string_view& text) {
  const std::string_view digits = text.substr(0, text.find_first_not_of("0123456789."));
  double number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  text.remove_prefix(digits.size());
  return number;
}

std::optional<double> take_unit(std::string_view& text) {
  for (const auto& [unit, milliseconds] : milliseconds_of) {
    if (!text.starts_with(unit)) continue;
    text.remove_prefix(unit.size());
    return milliseconds;
  }
  return std::nullopt;
}

}  // namespace

std::optional<KeepAlive> keep_alive_from(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty()) return std::nullopt;
  double all = 0;
  for (bool is_first = true; !text.empty(); is_first = false) {
    const std::optional<double> number = take_number(text);
    if (is_first && number && text.empty()) return of_milliseconds((is_negative ? -*number : *number) * 1e3);
    const std::optional<double> unit = number ? take_unit(text) : std::nullopt;
    if (!unit) return std::nullopt;
    all += *number * *unit;
  }
  return of_milliseconds(is_negative ? -all : all);
}

std::optional<KeepAlive> read_keep_alive(Members& members) {
  const RequestJson* value = members.find("keep_alive");
  if (value == nullptr) return std::nullopt;
  std::optional<KeepAlive> read;
  if (value->is_number()) read = of_milliseconds(value->get<double>() * 1e3);
  if (value->is_string()) read = keep_alive_from(value->get_ref<const std::string&>());
  if (!read) refuse_member("keep_alive", "is neither a number of seconds nor a duration as 5m");
  return read;
}

}  // namespace gpux::server

#include "registry/http/header_block.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "base/spelling.h"
#include "gpux/error.h"

namespace gpux::registry {
namespace {

constexpr std::size_t limit_headers = 256, limit_bytes = std::size_t{256} << 10;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::optional<unsigned> month_number(std::string_view name) {
  constexpr std::array<std::string_view, 12> names{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const auto* const found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<unsigned>(found - names.begin()) + 1;
}

/// "Sun, 06 Nov 1994 08:49:37 GMT", the only form that a sender may write.
std::optional<std::chrono::sys_seconds> parse_date(std::string_view text) {
  constexpr std::size_t length = 29;
  if (text.size() != length || text.substr(3, 2) != ", " || text.substr(25) != " GMT" || text[19] != ':' ||
      text[22] != ':') {
    return std::nullopt;
  }
  const auto number = [&](std::size_t at, std::size_t digits) { return parse_decimal(text.substr(at, digits)); };
  const auto day = number(5, 2), year = number(12, 4), hour = number(17, 2), minute = number(20, 2),
             second = number(23, 2);
  const auto month = month_number(text.substr(8, 3));
  if (!day || !year || !hour || !minute || !second || !month) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(*year)), std::chrono::month(*month),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  return std::chrono::sys_seconds(std::chrono::sys_days(date)) + std::chrono::hours(*hour) +
         std::chrono::minutes(*minute) + std::chrono::seconds(*second);
}

}  // namespace

void Headers::add(std::string_view name, std::string_view value) {
  entries_.emplace_back(lower(name), trimmed(value));
}

std::string Headers::find(std::string_view name) const {
  const auto found = std::ranges::find_if(entries_, [&](const auto& entry) { return entry.first == name; });
  return found == entries_.end() ? std::string() : found->second;
}

bool Headers::has(std::string_view name) const noexcept {
  return std::ranges::any_of(entries_, [&](const auto& entry) { return entry.first == name; });
}

void HeaderBlock::add_line(std::string_view line) {
  if (line.starts_with("HTTP/")) {
    headers_ = {};
    bytes_ = 0;
    return;
  }
  bytes_ += line.size();
  if (bytes_ > limit_bytes || headers_.entries().size() >= limit_headers) {
    throw Error(ErrorCode::network, fmt::format("the server sent more than {} headers or {} KiB of them", limit_headers,
                                                limit_bytes >> 10));
  }
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0) return;
  headers_.add(trimmed(line.substr(0, colon)), line.substr(colon + 1));
}

std::optional<std::uint64_t> parse_decimal(std::string_view text) {
  constexpr std::size_t max_digits = 18;
  std::uint64_t number = 0;
  const bool is_number = !text.empty() && text.size() <= max_digits &&
                         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!is_number) return std::nullopt;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::optional<ContentRange> parse_content_range(std::string_view value) {
  constexpr std::string_view unit = "bytes ";
  if (!value.starts_with(unit)) return std::nullopt;
  value.remove_prefix(unit.size());
  const std::size_t dash = value.find('-'), slash = value.find('/');
  if (dash == std::string_view::npos || slash == std::string_view::npos || dash > slash) return std::nullopt;
  const auto first = parse_decimal(value.substr(0, dash)),
             last = parse_decimal(value.substr(dash + 1, slash - dash - 1));
  if (!first || !last || *last < *first) return std::nullopt;
  ContentRange range{.first = *first, .last = *last, .size = std::nullopt};
  const std::string_view whole = value.substr(slash + 1);
  if (whole == "*") return range;
  range.size = parse_decimal(whole);
  if (!range.size || *range.size <= range.last) return std::nullopt;
  return range;
}

std::optional<std::chrono::seconds> parse_retry_after(std::string_view value, std::chrono::sys_seconds now) {
  value = trimmed(value);
  if (const auto seconds = parse_decimal(value)) {
    constexpr std::uint64_t day = 86400;
    return std::chrono::seconds(std::min(*seconds, day));
  }
  const auto date = parse_date(value);
  if (!date) return std::nullopt;
  return std::max(*date - now, std::chrono::seconds(0));
}

bool is_strong_etag(std::string_view value) noexcept {
  return !value.empty() && !value.starts_with("W/");
}

std::string_view strip_etag(std::string_view value) noexcept {
  if (value.starts_with("W/")) value.remove_prefix(2);
  if (value.size() >= 2 && value.starts_with('"') && value.ends_with('"')) value = value.substr(1, value.size() - 2);
  return value;
}

std::string find_link(std::string_view value, std::string_view name) {
  while (!value.empty()) {
    const std::size_t open = value.find('<'), close = value.find('>', std::min(open, value.size()));
    if (open == std::string_view::npos || close == std::string_view::npos) return {};
    const std::string_view url = value.substr(open + 1, close - open - 1);
    const std::string_view rest = value.substr(close + 1);
    const std::size_t next = rest.find('<');
    const std::string_view parameters = rest.substr(0, next);
    if (parameters.find(fmt::format("rel=\"{}\"", name)) != std::string_view::npos ||
        parameters.find(fmt::format("rel={}", name)) != std::string_view::npos) {
      return std::string(url);
    }
    if (next == std::string_view::npos) return {};
    value = rest.substr(next);
  }
  return {};
}

}  // namespace gpux::registry

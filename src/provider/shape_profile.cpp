#include "provider/shape_profile.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/spelling.h"
#include "gpux/error.h"

namespace gpux::provider {
namespace {

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw Error(ErrorCode::usage, fmt::format("option 'shapes' is '{}': {}; accepted: INPUT:SMALLEST..TUNED..LARGEST, as "
                                            "input_ids:1x1..8x128..32x512, several with commas",
                                            text, why));
}

std::vector<std::int64_t> parse_shape(std::string_view text, std::string_view whole) {
  std::vector<std::int64_t> shape;
  for (const std::string& part : split(text, 'x')) {
    std::int64_t dimension = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), dimension);
    if (error != std::errc() || end != part.data() + part.size() || dimension < 1) {
      refuse(whole, fmt::format("'{}' is no shape", text));
    }
    shape.push_back(dimension);
  }
  return shape;
}

// The parts between two dots.
std::vector<std::string> split_range(std::string_view text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find("..", begin);
    parts.emplace_back(text.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 2;
  }
}

bool grows(const std::vector<std::int64_t>& smaller, const std::vector<std::int64_t>& larger) {
  return std::ranges::equal(smaller, larger, std::ranges::less_equal());
}

ShapeRange parse_range(const std::string& text, std::string_view whole) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) refuse(whole, fmt::format("'{}' names no input", text));
  const std::vector<std::string> parts = split_range(std::string_view(text).substr(colon + 1));
  if (parts.size() > 3) refuse(whole, fmt::format("'{}' has more than three shapes", text));
  ShapeRange range{
      .input = text.substr(0, colon), .smallest = parse_shape(parts.front(), whole), .tuned = {}, .largest = {}};
  range.largest = parse_shape(parts.back(), whole);
  range.tuned = parts.size() == 3 ? parse_shape(parts[1], whole) : range.largest;
  const bool is_same_rank = range.smallest.size() == range.largest.size() && range.tuned.size() == range.largest.size();
  if (!is_same_rank) refuse(whole, fmt::format("the shapes of '{}' differ in their dimensions", range.input));
  if (!grows(range.smallest, range.tuned) || !grows(range.tuned, range.largest)) {
    refuse(whole, fmt::format("the shapes of '{}' fall in a dimension", range.input));
  }
  return range;
}

}  // namespace

std::vector<ShapeRange> parse_shape_profile(std::string_view text) {
  std::vector<ShapeRange> ranges;
  for (const std::string& part : split(text, ',')) {
    ShapeRange range = parse_range(part, text);
    if (std::ranges::find(ranges, range.input, &ShapeRange::input) != ranges.end()) {
      refuse(text, fmt::format("'{}' is given twice", range.input));
    }
    ranges.push_back(std::move(range));
  }
  return ranges;
}

std::string shapes_text(const std::vector<ShapeRange>& ranges, std::vector<std::int64_t> ShapeRange::*which) {
  std::vector<std::string> texts;
  for (const ShapeRange& range : ranges) {
    texts.push_back(fmt::format("{}:{}", range.input, fmt::join(range.*which, "x")));
  }
  return join(texts, ",");
}

}  // namespace gpux::provider

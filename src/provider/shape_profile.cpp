#include "provider/shape_profile.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/spelling.h"
#include "gpux/error.h"
#include "provider/table.h"

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

std::optional<std::int64_t> number_in(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

using Option = std::pair<std::string, std::string>;

std::string_view value_with_ending(std::span<const Option> options, std::string_view ending) {
  for (const Option& option : options) {
    if (option.first.ends_with(ending)) return option.second;
  }
  return {};
}

// "x:1x3,y:2x2" of TensorRT. Empty where it is anything else, or names an input twice, for several profiles.
std::vector<std::pair<std::string, std::vector<std::int64_t>>> shapes_in(std::string_view text) {
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> shapes;
  for (const std::string& part : split(text, ',')) {
    const std::size_t colon = part.rfind(':');
    if (colon == std::string::npos) return {};
    std::vector<std::int64_t> shape;
    for (const std::string& size : split(std::string_view(part).substr(colon + 1), 'x')) {
      const auto number = number_in(size);
      if (!number) return {};
      shape.push_back(*number);
    }
    const std::string name = part.substr(0, colon);
    const bool is_known = std::ranges::any_of(shapes, [&](const auto& known) { return known.first == name; });
    if (is_known) return {};
    shapes.emplace_back(name, std::move(shape));
  }
  return shapes;
}

std::vector<ShapeRange> ranges_of_profiles(std::span<const Option> options) {
  const auto smallest = shapes_in(value_with_ending(options, "_profile_min_shapes"));
  const auto largest = shapes_in(value_with_ending(options, "_profile_max_shapes"));
  const auto tuned = shapes_in(value_with_ending(options, "_profile_opt_shapes"));
  std::vector<ShapeRange> ranges;
  for (const auto& [name, shape] : smallest) {
    const auto is_same = [&name = name, rank = shape.size()](const auto& other) {
      return other.first == name && other.second.size() == rank;
    };
    const auto upper = std::ranges::find_if(largest, is_same), middle = std::ranges::find_if(tuned, is_same);
    if (upper == largest.end() || middle == tuned.end()) return {};
    ranges.push_back({.input = name, .smallest = shape, .tuned = middle->second, .largest = upper->second});
  }
  return ranges;
}

// "3", "1..4", "?", "1.." of OpenVINO: the least and the most.
std::optional<std::pair<std::int64_t, std::int64_t>> bounds_in(const std::string& text) {
  if (text == "?" || text == "-1") return std::pair(std::int64_t{1}, unbounded_size);
  const std::size_t dots = text.find("..");
  if (dots == std::string::npos) {
    const auto size = number_in(text);
    return size ? std::optional(std::pair(*size, *size)) : std::nullopt;
  }
  const std::string below = text.substr(0, dots), above = text.substr(dots + 2);
  const auto least = below.empty() ? std::optional<std::int64_t>(1) : number_in(below);
  const auto most = above.empty() ? std::optional(unbounded_size) : number_in(above);
  if (!least || !most) return std::nullopt;
  return std::pair(*least, *most);
}

std::optional<ShapeRange> range_in_brackets(const std::string& name, std::string_view sizes) {
  ShapeRange range{.input = name, .smallest = {}, .tuned = {}, .largest = {}};
  for (const std::string& size : split(sizes, ',')) {
    const auto bounds = bounds_in(size);
    if (!bounds) return std::nullopt;
    range.smallest.push_back(bounds->first);
    range.largest.push_back(bounds->second);
  }
  range.tuned = range.largest;
  return range;
}

// "x[1..4,3],y[2]" of OpenVINO.
std::vector<ShapeRange> ranges_of_reshape(std::string_view text) {
  std::vector<ShapeRange> ranges;
  while (!text.empty()) {
    const std::size_t open = text.find('['), close = text.find(']');
    if (open == std::string_view::npos || close == std::string_view::npos || close < open) return {};
    const std::vector<std::string> names = split(text.substr(0, open), ',');
    const auto range = range_in_brackets(names.back(), text.substr(open + 1, close - open - 1));
    if (!range || range->input.empty()) return {};
    ranges.push_back(*range);
    text.remove_prefix(close + 1);
  }
  return ranges;
}

const ExpectedSize* size_of(std::span<const ExpectedSize> sizes, const std::string& input, std::size_t dimension) {
  const auto found = std::ranges::find_if(
      sizes, [&](const ExpectedSize& size) { return size.input == input && size.dimension == dimension; });
  return found == sizes.end() ? nullptr : &*found;
}

bool has_free_dimensions(const SignatureEntry& entry) {
  if (entry.type.kind != ValueKind::tensor) return false;
  return !entry.type.dimensions ||
         std::ranges::any_of(*entry.type.dimensions, [](const Dimension& dimension) { return !dimension.size; });
}

// Adds the input's range; false where a dimension is not known, which `profile` then tells.
bool add_range(const SignatureEntry& entry, std::span<const ExpectedSize> sizes, DerivedProfile& profile,
               std::vector<std::string>& sources) {
  if (!entry.type.dimensions) {
    profile.unknown = fmt::format("the number of dimensions of input '{}' is not known", entry.name);
    return false;
  }
  if (entry.name.find_first_of(",:[]") != std::string::npos) {
    profile.unknown = fmt::format("the name of input '{}' cannot be part of the option", entry.name);
    return false;
  }
  ShapeRange range{.input = entry.name, .smallest = {}, .tuned = {}, .largest = {}};
  for (std::size_t i = 0; i < entry.type.dimensions->size(); ++i) {
    const Dimension& dimension = (*entry.type.dimensions)[i];
    const ExpectedSize* size = size_of(sizes, entry.name, i);
    if (!dimension.size && (size == nullptr || size->largest < 1)) {
      const std::string name = dimension.name.empty() ? std::string() : fmt::format(" ({})", dimension.name);
      profile.unknown =
          size != nullptr && !size->from.empty()
              ? size->from
              : fmt::format("nothing says how large dimension {}{} of input '{}' becomes", i, name, entry.name);
      return false;
    }
    range.smallest.push_back(dimension.size ? *dimension.size : size->smallest);
    range.tuned.push_back(dimension.size ? *dimension.size : size->tuned);
    range.largest.push_back(dimension.size ? *dimension.size : size->largest);
    if (dimension.size || size->from.empty()) continue;
    if (std::ranges::find(sources, size->from) == sources.end()) sources.push_back(size->from);
  }
  profile.ranges.push_back(std::move(range));
  return true;
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

std::string profile_text(const std::vector<ShapeRange>& ranges) {
  std::vector<std::string> texts;
  for (const ShapeRange& range : ranges) {
    texts.push_back(fmt::format("{}:{}..{}..{}", range.input, fmt::join(range.smallest, "x"),
                                fmt::join(range.tuned, "x"), fmt::join(range.largest, "x")));
  }
  return join(texts, ",");
}

std::string reshape_text(const std::vector<ShapeRange>& ranges) {
  std::vector<std::string> texts;
  for (const ShapeRange& range : ranges) {
    std::vector<std::string> sizes;
    for (std::size_t i = 0; i < range.largest.size(); ++i) {
      const std::int64_t least = range.smallest[i], most = range.largest[i];
      sizes.push_back(least == most ? std::to_string(most) : fmt::format("{}..{}", least, most));
    }
    texts.push_back(fmt::format("{}[{}]", range.input, join(sizes, ",")));
  }
  return join(texts, ",");
}

bool is_shape_option(std::string_view name) {
  return name.find("_profile_") != std::string_view::npos || name == "reshape_input" || name == "shapes";
}

std::vector<ShapeRange> ranges_of_options(std::span<const std::pair<std::string, std::string>> options) {
  const auto reshape =
      std::ranges::find_if(options, [](const Option& option) { return option.first == "reshape_input"; });
  return reshape != options.end() ? ranges_of_reshape(reshape->second) : ranges_of_profiles(options);
}

DerivedProfile derive_shape_profile(const Signature& signature, std::span<const ExpectedSize> sizes) {
  DerivedProfile profile;
  std::vector<std::string> sources;
  for (const SignatureEntry& entry : signature.inputs) {
    if (!entry.required || !has_free_dimensions(entry)) continue;
    if (add_range(entry, sizes, profile, sources)) continue;
    profile.ranges.clear();
    return profile;
  }
  profile.from = join(sources);
  return profile;
}

std::string outside_of_profile(std::span<const ShapeRange> ranges, std::string_view input, const Shape& shape) {
  const auto range = std::ranges::find(ranges, input, &ShapeRange::input);
  if (range == ranges.end()) return {};
  const std::span<const std::int64_t> sizes(shape);
  const bool fits = sizes.size() == range->largest.size() &&
                    std::ranges::equal(range->smallest, sizes, std::ranges::less_equal()) &&
                    std::ranges::equal(sizes, range->largest, std::ranges::less_equal());
  if (fits) return {};
  return fmt::format("input '{}' is {}, and the model was compiled for {} to {}", input, fmt::join(sizes, "x"),
                     fmt::join(range->smallest, "x"), fmt::join(range->largest, "x"));
}

std::int64_t max_rows_of(std::span<const ShapeRange> ranges) {
  std::int64_t rows = 0;
  for (const ShapeRange& range : ranges) {
    if (range.largest.empty() || range.largest.front() == unbounded_size) continue;
    rows = rows == 0 ? range.largest.front() : std::min(rows, range.largest.front());
  }
  return rows;
}

ActiveProfile active_profile(const Verdict& verdict) {
  for (const ProviderAttempt& attempt : verdict.tried) {
    if (attempt.shapes.empty() || std::ranges::find(verdict.active, attempt.id) == verdict.active.end()) continue;
    try {
      return {.provider = attempt.id, .ranges = parse_shape_profile(attempt.shapes)};
    } catch (const Error&) {
      continue;  // of the provider's own options, in a form that only it knows
    }
  }
  return {};
}

std::string compiles_each_size(const Verdict& verdict) {
  if (verdict.active.empty()) return {};
  const std::string& id = verdict.active.front();
  const ProviderRow* row = find_row(id);
  if (row == nullptr || row->id != id || !row->compiles_each_size) return {};
  for (const ProviderAttempt& attempt : verdict.tried) {
    if (attempt.id != id) continue;
    const Device* device = attempt.device            ? &*attempt.device
                           : attempt.devices.empty() ? nullptr
                                                     : &attempt.devices.front();
    const bool is_on_processor = device != nullptr && device->kind == "cpu";
    return is_on_processor || !attempt.shapes.empty() ? std::string() : id;
  }
  return {};
}

}  // namespace gpux::provider

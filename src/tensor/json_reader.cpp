#include "tensor/json_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fast_float/fast_float.h>
#include <fmt/format.h>

#include "gpux/error.h"
#include "tensor/decimal.h"
#include "tensor/integer_range.h"
#include "tensor/json_text.h"
#include "tensor/packed.h"
#include "tensor/small_float.h"

namespace gpux {
namespace {

// The text with what a message needs to name the place.
class Reader {
 public:
  Reader(std::string_view text, std::string_view name) : cursor(text), name_(name) {}

  /// Says what is wrong at the place, indices counted within the tensor that is being read.
  [[noreturn]] void refuse(std::string_view message, std::span<const std::int64_t> indices = {}) const {
    std::string place = outer_place;
    for (const std::int64_t index : indices) place += fmt::format("[{}]", index);
    if (!place.empty()) place += ": ";
    throw Error(ErrorCode::invalid_input, fmt::format("input '{}': {}{}", name_, place, message));
  }

  [[nodiscard]] std::string excerpt() const { return json_excerpt(cursor.rest()); }

  JsonCursor cursor;
  std::string outer_place;  // in the sequences and maps around the tensor

 private:
  std::string_view name_;
};

// What reading an element found wrong; the reader adds the place. Empty where all is well.
using Failure = std::string;

std::string_view word_at(const JsonCursor& cursor) noexcept {
  const char* end = cursor.at;
  while (end != cursor.end && !ends_json_word(*end)) ++end;
  return {cursor.at, static_cast<std::size_t>(end - cursor.at)};
}

Failure not_a(std::string_view expected, const JsonCursor& cursor) {
  return fmt::format("{} is not {}", json_excerpt(cursor.rest()), expected);
}

std::string with_article(ElementType type) {
  const std::string_view name = to_string(type);
  return fmt::format("{} {}", name.starts_with('i') ? "an" : "a", name);
}

// Numbers that fast_float takes and JSON does not: 01, 1. and .5. What it leaves behind shows by itself.
bool begins_as_json_number(const JsonCursor& cursor) noexcept {
  const char* digit = cursor.at + (cursor.peek() == '-' ? 1 : 0);
  if (digit == cursor.end || !is_json_digit(*digit)) return false;
  const char* after = digit + 1;
  while (after != cursor.end && is_json_digit(*after)) ++after;
  if (*digit == '0' && after != digit + 1) return false;
  return after == cursor.end || *after != '.' || (after + 1 != cursor.end && is_json_digit(after[1]));
}

template <typename Float>
bool read_decimal(JsonCursor& cursor, Float& value) noexcept {
  if (!begins_as_json_number(cursor)) return false;
  const auto parsed = fast_float::from_chars(cursor.at, cursor.end, value);
  if (parsed.ptr != cursor.end && !ends_json_word(*parsed.ptr)) return false;
  cursor.at = parsed.ptr;
  return true;
}

enum class Special : std::uint8_t { none, nan, infinity, negative_infinity };

Special read_special(JsonCursor& cursor) noexcept {
  const bool quoted = cursor.peek() == '"';
  JsonCursor inside = cursor;
  if (quoted) ++inside.at;
  const std::string_view word = word_at(inside);
  inside.at += word.size();
  if (quoted && !inside.take('"')) return Special::none;
  Special special = Special::none;
  if (word == "NaN") special = Special::nan;
  if (word == "Infinity") special = Special::infinity;
  if (word == "-Infinity") special = Special::negative_infinity;
  if (special != Special::none) cursor = inside;
  return special;
}

Failure too_large(std::string_view number, ElementType type) {
  return type == ElementType::float8e8m0
             ? fmt::format("{} does not fit float8e8m0 (powers of two up to 2^127, no zero)", json_excerpt(number))
             : fmt::format("{} does not fit {} (largest {})", json_excerpt(number), to_string(type),
                           type == ElementType::float32 ? fmt::format("{}", std::numeric_limits<float>::max())
                                                        : fmt::format("{}", largest_finite(type)));
}

Failure not_a_float(ElementType type, const JsonCursor& cursor) {
  if (word_at(cursor) == "null") return fmt::format("null is not {}: write \"NaN\"", with_article(type));
  return not_a(with_article(type) + " (a number, NaN, Infinity or -Infinity)", cursor);
}

// Each codec reads one element at the cursor. `Stored` is what the tensor's memory is made of; the packed types are
// packed at the end.

template <typename Float>
struct FloatCodec {
  using Stored = Float;
  ElementType type;

  /// The plain case without a message; false: read() is to look, from the same place.
  static bool read_plain(JsonCursor& cursor, Stored& value) noexcept {
    JsonCursor ahead = cursor;
    if (!read_decimal(ahead, value) || !std::isfinite(value)) return false;
    cursor.at = ahead.at;
    return true;
  }

  Failure read(JsonCursor& cursor, Stored& value) const {
    const char* const first = cursor.at;
    if (read_decimal(cursor, value)) {
      if (std::isfinite(value)) [[likely]]
        return {};
      return too_large({first, static_cast<std::size_t>(cursor.at - first)}, type);
    }
    switch (read_special(cursor)) {
      case Special::nan:
        value = std::numeric_limits<Float>::quiet_NaN();
        return {};
      case Special::infinity:
        value = std::numeric_limits<Float>::infinity();
        return {};
      case Special::negative_infinity:
        value = -std::numeric_limits<Float>::infinity();
        return {};
      case Special::none:
        break;
    }
    return not_a_float(type, cursor);
  }
};

// Where the decimal lies, seen from the double nearest to it.
Remainder remainder_of(std::string_view number, double nearest) {
  const int order = compare_magnitudes(decimal_from(number), decimal_of(nearest));
  return order < 0 ? Remainder::below : order > 0 ? Remainder::above : Remainder::exact;
}

template <typename Bits>
struct SmallFloatCodec {
  using Stored = Bits;
  ElementType type;

  Failure read(JsonCursor& cursor, Stored& bits) const {
    const char* const first = cursor.at;
    double value = 0;
    if (read_decimal(cursor, value)) {
      const std::string_view number(first, static_cast<std::size_t>(cursor.at - first));
      SmallFloatRounding rounding = round_to_small_float(type, value);
      if (rounding.tie && std::isfinite(value)) {
        rounding = round_to_small_float(type, value, remainder_of(number, value));
      }
      if (!rounding.fits) return too_large(number, type);
      bits = static_cast<Bits>(rounding.bits);
      return {};
    }
    const char* const word = cursor.at;
    const Special special = read_special(cursor);
    if (special == Special::none) return not_a_float(type, cursor);
    const auto pattern = special == Special::nan ? small_float_nan(type)
                                                 : small_float_infinity(type, special == Special::negative_infinity);
    if (!pattern) {
      return fmt::format("{} does not fit {}, which has no such value",
                         json_excerpt({word, static_cast<std::size_t>(cursor.at - word)}), to_string(type));
    }
    bits = static_cast<Bits>(*pattern);
    return {};
  }
};

Failure out_of_range(std::string_view number, ElementType type, IntegerRange range) {
  return fmt::format("{} does not fit {} ({} to {})", json_excerpt(number), to_string(type), range.lowest,
                     range.highest);
}

// A whole number written with a point or an exponent, or with more digits than 64 bits have.
Failure read_written_out(std::string_view number, ElementType type, IntegerRange range, Integer& value) {
  if (!is_json_number(number)) return fmt::format("{} is not {}", json_excerpt(number), with_article(type));
  Decimal decimal = decimal_from(number);
  if (!decimal.is_integer()) return fmt::format("{} is not whole, {} is", json_excerpt(number), with_article(type));
  constexpr std::int64_t most_digits = 20;
  if (decimal.exponent > most_digits) return out_of_range(number, type, range);
  decimal.digits.append(static_cast<std::size_t>(decimal.exponent) - decimal.digits.size(), '0');
  value = {.negative = decimal.negative, .magnitude = 0};
  const char* const end = decimal.digits.data() + decimal.digits.size();
  if (!decimal.digits.empty() && std::from_chars(decimal.digits.data(), end, value.magnitude).ec != std::errc{}) {
    return out_of_range(number, type, range);
  }
  return {};
}

Failure read_integer(JsonCursor& cursor, ElementType type, IntegerRange range, Integer& value) {
  constexpr std::ptrdiff_t safe_digits = 19;  // any so many fit 64 bits
  const char* const first = cursor.at;
  value = {.negative = cursor.take('-'), .magnitude = 0};
  const char* const digits = cursor.at;
  while (is_json_digit(cursor.peek())) {
    value.magnitude = value.magnitude * 10 + static_cast<std::uint64_t>(*cursor.at - '0');
    ++cursor.at;
  }
  const std::ptrdiff_t length = cursor.at - digits;
  const bool plain = length > 0 && length <= safe_digits && (*digits != '0' || length == 1) &&
                     (cursor.done() || ends_json_word(*cursor.at));
  if (!plain) {
    cursor.at = first;
    const std::string_view word = word_at(cursor);
    if (word.empty() || !(is_json_digit(word.front()) || word.front() == '-')) return not_a(with_article(type), cursor);
    if (Failure failure = read_written_out(word, type, range, value); !failure.empty()) return failure;
    cursor.at += word.size();
  }
  if (range.holds(value)) [[likely]]
    return {};
  return out_of_range({first, static_cast<std::size_t>(cursor.at - first)}, type, range);
}

template <typename Int>
struct IntegerCodec {
  using Stored = Int;
  ElementType type;
  IntegerRange range = *integer_range(type);

  Failure read(JsonCursor& cursor, Stored& stored) const {
    Integer value;
    Failure failure = read_integer(cursor, type, range, value);
    stored = static_cast<Int>(value.two_complement());
    return failure;
  }
};

struct BoolCodec {
  using Stored = std::uint8_t;

  Failure read(JsonCursor& cursor, Stored& stored) const {
    const std::string_view word = word_at(cursor);
    if (word != "true" && word != "false" && word != "1" && word != "0") {
      return not_a("a bool (true or false, 1 or 0)", cursor);
    }
    stored = word == "true" || word == "1" ? 1 : 0;
    cursor.at += word.size();
    return {};
  }
};

struct StringCodec {
  using Stored = std::string;

  Failure read(JsonCursor& cursor, Stored& stored) const {
    if (cursor.peek() != '"') return not_a("a string", cursor);
    const JsonCursor start = cursor;
    const char* const failure = read_json_string(cursor, stored);
    if (failure == nullptr) return {};
    return fmt::format("{}: {}", json_excerpt(start.rest()), failure);
  }
};

// The lists around the place, and the shape as far as it is known.
class Nesting {
 public:
  Nesting(const Reader& reader, const ValueType& type) : reader_(reader), type_(type) {
    sizes_.fill(unknown);
    if (!type.dimensions) return;
    if (type.dimensions->size() > json_depth_limit) {
      reader_.refuse(fmt::format("tensors of more than {} dimensions have no JSON form", json_depth_limit));
    }
    rank_ = type.dimensions->size();
    for (std::size_t i = 0; i < *rank_; ++i) sizes_[i] = (*type.dimensions)[i].size.value_or(unknown);
  }

  void open() {
    if (rank_ && depth_ == *rank_) {
      refuse_here(fmt::format("a list stands where one element was expected{}", of_what()));
    }
    if (depth_ == json_depth_limit) refuse_here(fmt::format("lists nest deeper than {}", json_depth_limit));
    counts_[depth_++] = 0;
  }

  void element() {
    if (!rank_) rank_ = depth_;
    if (depth_ != *rank_) {
      refuse_here(fmt::format("{} stands where a list was expected{}", reader_.excerpt(), of_what()));
    }
  }

  /// An element or list has been read whole.
  void count() noexcept {
    if (depth_ != 0) ++counts_[depth_ - 1];
  }

  /// How many elements there are in all, where the type says it and the text is long enough for them: each takes a
  /// character, and another one before the next.
  [[nodiscard]] std::optional<std::size_t> element_count_within(std::size_t text_bytes) const {
    if (!rank_) return std::nullopt;
    std::size_t count = 1;
    for (std::size_t i = 0; i < *rank_; ++i) {
      if (sizes_[i] == unknown) return std::nullopt;
      const auto size = static_cast<std::size_t>(sizes_[i]);
      if (size != 0 && count > text_bytes / size) return std::nullopt;
      count *= size;
    }
    if (count > text_bytes / 2 + 1) return std::nullopt;
    return count;
  }

  void close() {
    if (!rank_) rank_ = depth_;
    const std::int64_t count = counts_[--depth_];
    std::int64_t& size = sizes_[depth_];
    if (size == unknown) size = count;
    if (size == count) return;
    const bool declared = type_.dimensions && (*type_.dimensions)[depth_].size;
    refuse_here(declared
                    ? fmt::format("{} elements, not {}{}", count, size, of_what())
                    : fmt::format("{} elements where the list before has {}: all must be equally long", count, size));
  }

  [[nodiscard]] bool outermost() const noexcept { return depth_ == 0; }

  [[nodiscard]] Shape shape() const {
    Shape shape(sizes_.begin(), sizes_.begin() + static_cast<std::ptrdiff_t>(rank_.value_or(0)));
    std::replace(shape.begin(), shape.end(), unknown, std::int64_t{0});
    return shape;
  }

  [[noreturn]] void refuse_here(std::string_view message) const { reader_.refuse(message, {counts_.data(), depth_}); }

 private:
  static constexpr std::int64_t unknown = -1;

  [[nodiscard]] std::string of_what() const { return fmt::format(" (the type is {})", to_string(type_)); }

  const Reader& reader_;
  const ValueType& type_;
  std::optional<std::size_t> rank_;
  std::size_t depth_ = 0;
  std::array<std::int64_t, json_depth_limit> counts_{};
  std::array<std::int64_t, json_depth_limit> sizes_{};
};

// Where elements go as they are read: a list that grows, or memory for as many as the type says there are. What comes
// beyond that is not kept: it is refused where its list ends.

template <typename Stored>
class Growing {
 public:
  void add(Stored&& element) { elements_.push_back(std::move(element)); }

  void reserve(std::size_t count) { elements_.reserve(count); }

  [[nodiscard]] std::vector<Stored>& elements() noexcept { return elements_; }

 private:
  std::vector<Stored> elements_;
};

template <typename Stored>
class Placed {
 public:
  explicit Placed(std::span<Stored> memory) : next_(memory.data()), end_(memory.data() + memory.size()) {}

  void add(Stored element) noexcept {
    if (next_ != end_) *next_++ = element;
  }

 private:
  Stored* next_;
  Stored* end_;
};

template <typename Codec, typename Target>
void read_one(Reader& reader, const Nesting& nesting, const Codec& codec, Target& target) {
  typename Codec::Stored element{};
  if constexpr (requires { codec.read_plain(reader.cursor, element); }) {
    if (codec.read_plain(reader.cursor, element)) [[likely]] {
      target.add(std::move(element));
      return;
    }
  }
  const Failure failure = codec.read(reader.cursor, element);
  if (!failure.empty()) [[unlikely]]
    nesting.refuse_here(failure);
  target.add(std::move(element));
}

// The elements that follow in an innermost list, up to what is neither a comma nor an element.
template <typename Codec, typename Target>
void read_row(Reader& reader, Nesting& nesting, const Codec& codec, Target& target) {
  JsonCursor& cursor = reader.cursor;
  nesting.element();
  read_one(reader, nesting, codec, target);
  if (nesting.outermost()) return;
  for (;;) {
    const JsonCursor before = cursor;
    cursor.skip_blanks();
    if (cursor.peek() != ',') return;
    ++cursor.at;
    cursor.skip_blanks();
    if (cursor.peek() == '[') {
      cursor = before;
      return;
    }
    nesting.count();
    read_one(reader, nesting, codec, target);
  }
}

template <typename Codec, typename Target>
void read_lists(Reader& reader, Nesting& nesting, const Codec& codec, Target& target) {
  JsonCursor& cursor = reader.cursor;
  for (;;) {
    cursor.skip_blanks();
    bool complete = true;
    if (cursor.peek() == '[') {
      nesting.open();
      ++cursor.at;
      cursor.skip_blanks();
      complete = cursor.take(']');
      if (!complete) continue;
      nesting.close();
    } else {
      read_row(reader, nesting, codec, target);
    }
    while (complete) {
      nesting.count();
      if (nesting.outermost()) return;
      cursor.skip_blanks();
      if (cursor.take(',')) {
        complete = false;
      } else if (cursor.take(']')) {
        nesting.close();
      } else {
        nesting.refuse_here(fmt::format("{} stands where ',' or ']' was expected", reader.excerpt()));
      }
    }
  }
}

template <typename Stored>
Tensor tensor_of(ElementType type, Shape shape, std::vector<Stored>&& elements) {
  if constexpr (std::is_same_v<Stored, std::string>) {
    return Tensor::of_strings(std::move(shape), std::move(elements));
  } else {
    Tensor tensor = Tensor::allocate(type, std::move(shape));
    const std::span<std::byte> bytes = tensor.mutable_bytes();
    if (const std::size_t bits = bits_of(type); bits < 8) {
      for (std::size_t i = 0; i < elements.size(); ++i) {
        set_packed_element(bytes, i, bits, static_cast<std::uint8_t>(elements[i]));
      }
    } else if (!bytes.empty()) {
      std::memcpy(bytes.data(), elements.data(), bytes.size());
    }
    return tensor;
  }
}

// Straight into the memory of a tensor of so many elements, without its shape.
template <typename Codec>
Tensor read_placed(Reader& reader, Nesting& nesting, ElementType type, const Codec& codec, std::size_t count) {
  using Stored = typename Codec::Stored;
  Tensor tensor = Tensor::allocate(type, {static_cast<std::int64_t>(count)});
  const std::span<std::byte> bytes = tensor.mutable_bytes();
  Placed<Stored> target({reinterpret_cast<Stored*>(bytes.data()), count});
  read_lists(reader, nesting, codec, target);
  return tensor;
}

template <typename Codec>
Tensor read_elements(Reader& reader, const ValueType& type, const Codec& codec, bool whole_text) {
  using Stored = typename Codec::Stored;
  Nesting nesting(reader, type);
  const std::string_view rest = reader.cursor.rest();
  std::optional<std::size_t> count = nesting.element_count_within(rest.size());
  if (!count && whole_text) count = static_cast<std::size_t>(std::count(rest.begin(), rest.end(), ',')) + 1;
  if constexpr (!std::is_same_v<Stored, std::string>) {
    if (count && bits_of(type.element) >= 8) {
      const Tensor flat = read_placed(reader, nesting, type.element, codec, *count);
      const Shape shape = nesting.shape();
      const auto read = static_cast<std::size_t>(element_count(shape));
      if (read == *count) return flat.reshaped(shape);
      // Lists without elements have commas too.
      return flat.rows(0, static_cast<std::int64_t>(read)).reshaped(shape);
    }
  }
  Growing<Stored> elements;
  if (count) elements.reserve(*count);
  read_lists(reader, nesting, codec, elements);
  return tensor_of(type.element, nesting.shape(), std::move(elements.elements()));
}

Tensor read_tensor(Reader& reader, const ValueType& type, bool whole_text) {
  const auto read = [&](const auto& codec) { return read_elements(reader, type, codec, whole_text); };
  const ElementType element = type.element;
  switch (element) {
    case ElementType::float32:
      return read(FloatCodec<float>{element});
    case ElementType::float64:
      return read(FloatCodec<double>{element});
    case ElementType::float16:
    case ElementType::bfloat16:
      return read(SmallFloatCodec<std::uint16_t>{element});
    case ElementType::float8e4m3fn:
    case ElementType::float8e4m3fnuz:
    case ElementType::float8e5m2:
    case ElementType::float8e5m2fnuz:
    case ElementType::float8e8m0:
    case ElementType::float4e2m1:
      return read(SmallFloatCodec<std::uint8_t>{element});
    case ElementType::int64:
      return read(IntegerCodec<std::int64_t>{element});
    case ElementType::uint64:
      return read(IntegerCodec<std::uint64_t>{element});
    case ElementType::int32:
      return read(IntegerCodec<std::int32_t>{element});
    case ElementType::uint32:
      return read(IntegerCodec<std::uint32_t>{element});
    case ElementType::int16:
      return read(IntegerCodec<std::int16_t>{element});
    case ElementType::uint16:
      return read(IntegerCodec<std::uint16_t>{element});
    case ElementType::int8:
    case ElementType::int4:
    case ElementType::int2:
      return read(IntegerCodec<std::int8_t>{element});
    case ElementType::uint8:
    case ElementType::uint4:
    case ElementType::uint2:
      return read(IntegerCodec<std::uint8_t>{element});
    case ElementType::boolean:
      return read(BoolCodec{});
    case ElementType::string:
      return read(StringCodec{});
    case ElementType::complex64:
    case ElementType::complex128:
    case ElementType::undefined:
      break;
  }
  reader.refuse(fmt::format("{} tensors have no JSON form", to_string(element)));
}

// Adds to the place while it lives.
class PlaceStep {
 public:
  PlaceStep(Reader& reader, std::string_view step) : reader_(reader), length_(reader.outer_place.size()) {
    reader_.outer_place += step;
  }

  ~PlaceStep() { reader_.outer_place.resize(length_); }

  PlaceStep(const PlaceStep&) = delete;
  PlaceStep& operator=(const PlaceStep&) = delete;

 private:
  Reader& reader_;
  std::size_t length_;
};

// Whether another element follows in the list or object.
bool goes_on(Reader& reader, char closing) {
  reader.cursor.skip_blanks();
  if (reader.cursor.take(',')) return true;
  if (!reader.cursor.take(closing)) {
    reader.refuse(fmt::format("{} stands where ',' or '{}' was expected", reader.excerpt(), closing));
  }
  return false;
}

bool opens_filled(Reader& reader, char opening, char closing, const ValueType& type) {
  if (!reader.cursor.take(opening)) {
    reader.refuse(
        fmt::format("{} stands where '{}' was expected (the type is {})", reader.excerpt(), opening, to_string(type)));
  }
  reader.cursor.skip_blanks();
  return !reader.cursor.take(closing);
}

const ValueType& inner_type(const Reader& reader, const ValueType& type) {
  if (type.inner.empty()) reader.refuse(to_string(type) + " does not say what it holds");
  return type.inner.front();
}

Value read_value(Reader& reader, const ValueType& type, std::size_t depth);

Sequence read_sequence(Reader& reader, const ValueType& type, std::size_t depth) {
  const ValueType& inner = inner_type(reader, type);
  Sequence sequence;
  if (!opens_filled(reader, '[', ']', type)) return sequence;
  do {
    const PlaceStep step(reader, fmt::format("[{}]", sequence.values.size()));
    sequence.values.push_back(read_value(reader, inner, depth + 1));
  } while (goes_on(reader, ']'));
  return sequence;
}

std::string read_key(Reader& reader) {
  std::string key;
  reader.cursor.skip_blanks();
  if (reader.cursor.peek() != '"') {
    reader.refuse(fmt::format("{} stands where a key in quotes was expected", reader.excerpt()));
  }
  if (const char* failure = read_json_string(reader.cursor, key)) reader.refuse(failure);
  reader.cursor.skip_blanks();
  if (!reader.cursor.take(':')) {
    reader.refuse(fmt::format("{} stands where ':' was expected behind a key", reader.excerpt()));
  }
  return key;
}

Tensor keys_from(const Reader& reader, ElementType type, std::vector<std::string> keys) {
  const Shape shape{static_cast<std::int64_t>(keys.size())};
  if (type == ElementType::string) return Tensor::of_strings(shape, std::move(keys));
  if (type != ElementType::int64) {
    reader.refuse(fmt::format("maps with keys of {} have no JSON form", to_string(type)));
  }
  const IntegerCodec<std::int64_t> codec{type};
  std::vector<std::int64_t> numbers;
  numbers.reserve(keys.size());
  for (const std::string& key : keys) {
    JsonCursor cursor(key);
    std::int64_t number = 0;
    Failure failure = codec.read(cursor, number);
    if (failure.empty() && !cursor.done()) failure = fmt::format("{} is not an int64", json_excerpt(key));
    if (!failure.empty()) reader.refuse("key " + failure);
    numbers.push_back(number);
  }
  const std::set<std::int64_t> distinct(numbers.begin(), numbers.end());
  if (distinct.size() != numbers.size()) reader.refuse("two keys are the same number");
  return Tensor::of<std::int64_t>(shape, numbers);
}

// One tensor whose rows are these, which are of one type; `inner` tells the shape where there are none.
Tensor stacked(const Reader& reader, const ValueType& inner, const std::vector<Tensor>& rows) {
  Shape shape{static_cast<std::int64_t>(rows.size())};
  if (!rows.empty()) {
    shape.insert(shape.end(), rows.front().shape().begin(), rows.front().shape().end());
  } else if (inner.dimensions) {
    for (const Dimension& dimension : *inner.dimensions) shape.push_back(dimension.size.value_or(0));
  }
  Tensor tensor = Tensor::allocate(inner.element, shape);
  const std::size_t bits = bits_of(inner.element);
  std::size_t position = 0;
  for (const Tensor& row : rows) {
    if (row.shape() != rows.front().shape()) {
      reader.refuse(fmt::format("values of shapes {} and {} stand in one map: all must have the same",
                                to_string(rows.front().shape()), to_string(row.shape())));
    }
    const auto count = static_cast<std::size_t>(row.element_count());
    if (inner.element == ElementType::string) {
      std::copy(row.strings().begin(), row.strings().end(),
                tensor.mutable_strings().begin() + static_cast<std::ptrdiff_t>(position));
    } else if (bits < 8) {
      for (std::size_t i = 0; i < count; ++i) {
        set_packed_element(tensor.mutable_bytes(), position + i, bits, packed_element(row.bytes(), i, bits));
      }
    } else if (count != 0) {
      std::memcpy(tensor.mutable_bytes().data() + position * bits / 8, row.bytes().data(), row.byte_size());
    }
    position += count;
  }
  return tensor;
}

Map read_map(Reader& reader, const ValueType& type) {
  const ValueType& inner = inner_type(reader, type);
  if (inner.kind != ValueKind::tensor) reader.refuse(to_string(type) + " has no JSON form: its values are no tensors");
  std::vector<std::string> keys;
  std::vector<Tensor> rows;
  std::set<std::string, std::less<>> distinct;
  if (opens_filled(reader, '{', '}', type)) {
    do {
      keys.push_back(read_key(reader));
      const PlaceStep step(reader, fmt::format("[{}]", json_excerpt('"' + keys.back() + '"')));
      if (!distinct.insert(keys.back()).second) reader.refuse("the key stands in the map twice");
      rows.push_back(read_tensor(reader, inner, false));
    } while (goes_on(reader, '}'));
  }
  return {keys_from(reader, type.element, std::move(keys)), stacked(reader, inner, rows)};
}

Value read_value(Reader& reader, const ValueType& type, std::size_t depth) {
  if (depth > json_depth_limit) reader.refuse("the type nests too deep for JSON");
  reader.cursor.skip_blanks();
  switch (type.kind) {
    case ValueKind::tensor:
      if (word_at(reader.cursor) == "null") {
        reader.refuse(fmt::format("null is not {}: only an optional can be left empty", to_string(type)));
      }
      return read_tensor(reader, type, depth == 0);
    case ValueKind::sequence:
      return read_sequence(reader, type, depth);
    case ValueKind::map:
      return read_map(reader, type);
    case ValueKind::optional:
      if (const std::string_view word = word_at(reader.cursor); word == "null") {
        reader.cursor.at += word.size();
        return std::monostate{};
      }
      return read_value(reader, inner_type(reader, type), depth + 1);
    case ValueKind::sparse_tensor:
    case ValueKind::opaque:
      break;
  }
  reader.refuse(to_string(type) + " has no JSON form");
}

}  // namespace

Value read_json_value(std::string_view json_text, const ValueType& type, std::string_view name) {
  Reader reader(json_text, name);
  Value value = read_value(reader, type, 0);
  reader.cursor.skip_blanks();
  if (!reader.cursor.done()) reader.refuse(fmt::format("{} stands behind the value", reader.excerpt()));
  return value;
}

}  // namespace gpux

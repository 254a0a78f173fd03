#include "tensor/json_reader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "gpux/error.h"
#include "tensor/json_element.h"
#include "tensor/json_text.h"
#include "tensor/packed.h"

namespace gpux {
namespace {

using namespace json;  // the elements that are nested here

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
      refuse_here(fmt::format("a list found where one element was expected{}", of_what()));
    }
    if (depth_ == json_depth_limit) refuse_here(fmt::format("lists nest deeper than {}", json_depth_limit));
    counts_[depth_++] = 0;
  }

  void element() {
    if (!rank_) rank_ = depth_;
    if (depth_ != *rank_) {
      refuse_here(fmt::format("{} found where a list was expected{}", reader_.excerpt(), of_what()));
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
        nesting.refuse_here(fmt::format("{} found where ',' or ']' was expected", reader.excerpt()));
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
    reader.refuse(fmt::format("{} found where ',' or '{}' was expected", reader.excerpt(), closing));
  }
  return false;
}

bool opens_filled(Reader& reader, char opening, char closing, const ValueType& type) {
  if (!reader.cursor.take(opening)) {
    reader.refuse(
        fmt::format("{} found where '{}' was expected (the type is {})", reader.excerpt(), opening, to_string(type)));
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
    reader.refuse(fmt::format("{} found where a key in quotes was expected", reader.excerpt()));
  }
  if (const char* failure = read_json_string(reader.cursor, key)) reader.refuse(failure);
  reader.cursor.skip_blanks();
  if (!reader.cursor.take(':')) {
    reader.refuse(fmt::format("{} found where ':' was expected behind a key", reader.excerpt()));
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

bool has_sizes_of_one(const ValueType& type) {
  return type.dimensions &&
         std::ranges::all_of(*type.dimensions, [](const Dimension& dimension) { return dimension.size == 1; });
}

// One tensor whose rows are these, which are of one type; `inner` tells the shape where there are none.
Tensor stacked(const Reader& reader, const ValueType& inner, const std::vector<Tensor>& rows) {
  Shape shape{static_cast<std::int64_t>(rows.size())};
  if (!rows.empty()) {
    shape.insert(shape.end(), rows.front().shape().begin(), rows.front().shape().end());
  } else if (inner.dimensions && !has_sizes_of_one(inner)) {
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

// ONNX Runtime keeps one element per key; many converters declare it as a tensor of one element. So the element alone
// is taken as well as a list with it.
Tensor read_map_value(Reader& reader, const ValueType& inner) {
  reader.cursor.skip_blanks();
  const bool may_be_bare =
      has_sizes_of_one(inner) || (inner.dimensions && inner.dimensions->size() == 1 && !inner.dimensions->front().size);
  if (!may_be_bare || reader.cursor.peek() == '[') {
    const Tensor row = read_tensor(reader, inner, false);
    return has_sizes_of_one(inner) ? row.reshaped({}) : row;
  }
  ValueType bare = inner;
  bare.dimensions->clear();
  const Tensor element = read_tensor(reader, bare, false);
  return has_sizes_of_one(inner) ? element : element.reshaped({1});
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
      if (!distinct.insert(keys.back()).second) reader.refuse("the map has the key twice");
      rows.push_back(read_map_value(reader, inner));
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

#include "isolation/value_encoding.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "gpux/error.h"
#include "tensor/deep_copy.h"

namespace gpux::isolation {
namespace {

constexpr std::size_t alignment = 64;
constexpr unsigned max_depth = 8;  // of sequences in sequences
constexpr unsigned max_rank = 1024;
constexpr std::size_t max_head_bytes = std::size_t{256} << 20;
// Of the head, for what takes as many bytes when it is decoded.
constexpr std::size_t min_value_bytes = sizeof(Value);
constexpr std::size_t min_text_bytes = sizeof(std::string);

enum class Kind : std::uint8_t { none, tensor, sequence, map };

std::size_t aligned(std::size_t position) noexcept {
  return (position + alignment - 1) / alignment * alignment;
}

class Encoder {
 public:
  Encoder(std::span<const std::byte> memory, std::size_t begin) : memory_(memory), end_(begin) {
    constexpr std::size_t usual_head = 256;
    encoded_.head.reserve(usual_head);
  }

  void all(const NamedValues& values, std::span<const std::size_t> outputs) {
    number(static_cast<std::uint32_t>(outputs.size()));
    for (const std::size_t output : outputs) number(static_cast<std::uint32_t>(output));
    number(static_cast<std::uint32_t>(values.size()));
    for (const auto& [name, one] : values) {
      text(name);
      value(one);
    }
  }

  EncodedValues finish() && {
    const std::size_t head = aligned(end_);
    encoded_.place = {.bytes = head + encoded_.head.size(), .head = head, .head_bytes = encoded_.head.size()};
    return std::move(encoded_);
  }

 private:
  void bytes(const void* data, std::size_t size) {
    const auto* begin = static_cast<const std::byte*>(data);
    encoded_.head.insert(encoded_.head.end(), begin, begin + size);
  }

  template <typename Number>
  void number(Number value) {
    bytes(&value, sizeof value);
  }

  // So many bytes at least since `begin`, a position in the head.
  void fill(std::size_t begin, std::size_t least) {
    if (encoded_.head.size() - begin < least) encoded_.head.resize(begin + least);
  }

  void text(std::string_view text) {
    const std::size_t begin = encoded_.head.size();
    number<std::uint64_t>(text.size());
    bytes(text.data(), text.size());
    fill(begin, min_text_bytes);
  }

  // Where the elements are, or will be.
  std::size_t place(std::span<const std::byte> elements) {
    const std::less_equal<const std::byte*> is_not_behind;
    const bool is_in_memory = !memory_.empty() && is_not_behind(memory_.data(), elements.data()) &&
                              is_not_behind(elements.data() + elements.size(), memory_.data() + memory_.size());
    if (is_in_memory) return static_cast<std::size_t>(elements.data() - memory_.data());
    const std::size_t offset = aligned(end_);
    end_ = offset + elements.size();
    encoded_.elements.push_back({.data = elements.data(), .offset = offset, .size = elements.size()});
    return offset;
  }

  void tensor(const Tensor& tensor) {
    number(tensor.type());
    number(static_cast<std::uint32_t>(tensor.shape().size()));
    for (const std::int64_t size : tensor.shape()) number(size);
    if (tensor.type() == ElementType::string) {
      for (const std::string& element : tensor.strings()) text(element);
      return;
    }
    const std::span<const std::byte> elements = tensor.bytes().first(tensor.byte_size());
    number<std::uint64_t>(elements.empty() ? 0 : place(elements));
    number<std::uint64_t>(elements.size());
  }

  void value(const Value& value) {
    const std::size_t begin = encoded_.head.size();
    content(value);
    fill(begin, min_value_bytes);
  }

  void content(const Value& value) {
    if (const Tensor* one = value.tensor()) {
      number(Kind::tensor);
      tensor(*one);
    } else if (const Sequence* sequence = value.sequence()) {
      number(Kind::sequence);
      number(static_cast<std::uint32_t>(sequence->values.size()));
      for (const Value& element : sequence->values) this->value(element);
    } else if (const Map* map = value.map()) {
      number(Kind::map);
      tensor(map->keys);
      tensor(map->values);
    } else {
      number(Kind::none);
    }
  }

  std::span<const std::byte> memory_;
  std::size_t end_;
  EncodedValues encoded_;
};

[[noreturn]] void fail() {
  throw Error(ErrorCode::internal, "the memory that is shared with a worker process holds no values");
}

[[noreturn]] void fail_as_unexpected() {
  throw Error(ErrorCode::internal, "a worker process answered with other outputs than the model has");
}

std::span<const std::byte> part_of(std::span<const std::byte> memory, std::uint64_t offset, std::uint64_t size) {
  if (offset > memory.size() || size > memory.size() - offset) fail();
  return memory.subspan(offset, size);
}

class Decoder {
 public:
  Decoder(std::span<const std::byte> memory, std::span<const std::byte> head, const std::shared_ptr<const void>& owner,
          const ExpectedValues* expected)
      : memory_(memory),
        head_(head.begin(), head.end()),
        owner_(owner),
        expected_(expected),
        elements_left_(memory.size()) {}

  RunInputs all() {
    RunInputs read;
    for (auto left = count(sizeof(std::uint32_t)); left != 0; --left) read.outputs.push_back(number<std::uint32_t>());
    const auto values = count(min_text_bytes + min_value_bytes);
    if (expected_ != nullptr && values != expected_->size()) fail_as_unexpected();
    read.values.reserve(values);
    for (std::size_t i = 0; i < values; ++i) {
      std::string name = text();
      const SignatureEntry* entry = expected_ == nullptr ? nullptr : expected_->at(i);
      if (entry != nullptr && name != entry->name) fail_as_unexpected();
      Value one = value(entry == nullptr ? nullptr : &entry->type, 0);
      read.values.emplace_back(std::move(name), std::move(one));
    }
    return read;
  }

 private:
  std::span<const std::byte> take(std::uint64_t size) {
    const auto taken = part_of(head_, position_, size);
    position_ += size;
    return taken;
  }

  template <typename Number>
  Number number() {
    Number value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }

  // A count of things that take at least so many bytes each.
  std::uint32_t count(std::size_t least) {
    const auto count = number<std::uint32_t>();
    if (count > (head_.size() - position_) / least) fail();
    return count;
  }

  // The rest of what takes so many bytes at least.
  void skip_to(std::size_t begin, std::size_t least) {
    if (position_ - begin < least) (void)take(begin + least - position_);
  }

  std::string text() {
    const std::size_t begin = position_;
    const auto size = number<std::uint64_t>();
    const auto taken = take(size);
    skip_to(begin, min_text_bytes);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }

  // `expected`: undefined where any type will do.
  Tensor tensor(ElementType expected) {
    const auto type = static_cast<std::uint8_t>(number<ElementType>());
    if (type == 0 || type > static_cast<std::uint8_t>(ElementType::int2)) fail();
    if (expected != ElementType::undefined && static_cast<ElementType>(type) != expected) fail_as_unexpected();
    const auto rank = count(sizeof(std::int64_t));
    if (rank > max_rank) fail();
    Shape shape(rank);
    for (std::int64_t& size : shape) size = number<std::int64_t>();
    if (static_cast<ElementType>(type) == ElementType::string) return strings(std::move(shape));
    const auto offset = number<std::uint64_t>();
    const auto size = number<std::uint64_t>();
    // No two tensors have the same elements: each may be copied.
    if (offset % alignment != 0 || size > elements_left_) fail();
    elements_left_ -= size;
    const Tensor borrowed =
        Tensor::borrow(static_cast<ElementType>(type), std::move(shape), part_of(memory_, offset, size), owner_);
    if (borrowed.type() == ElementType::boolean) return corrected(borrowed);
    return owner_ == nullptr ? deep_copy(borrowed) : borrowed;
  }

  // A bool of another value than 0 and 1 is undefined behavior.
  static Tensor corrected(const Tensor& booleans) {
    Tensor copy = deep_copy(booleans);
    for (std::byte& element : copy.mutable_bytes()) element = element == std::byte{0} ? std::byte{0} : std::byte{1};
    return copy;
  }

  Tensor strings(Shape shape) {
    const auto count = static_cast<std::uint64_t>(element_count(shape));
    if (count > (head_.size() - position_) / min_text_bytes) fail();
    std::vector<std::string> values;
    values.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) values.push_back(text());
    return Tensor::of_strings(std::move(shape), std::move(values));
  }

  // `expected`: null where anything will do.
  Value value(const ValueType* expected, unsigned depth) {
    const std::size_t begin = position_;
    Value read = content(is_known(expected) ? expected : nullptr, depth);
    skip_to(begin, min_value_bytes);
    return read;
  }

  // A model may leave the types of its outputs to inference.
  static bool is_known(const ValueType* type) {
    return type != nullptr && (type->element != ElementType::undefined || !type->inner.empty());
  }

  static const ValueType* inner_of(const ValueType* type) {
    return type == nullptr || type->inner.empty() ? nullptr : &type->inner.front();
  }

  Value content(const ValueType* expected, unsigned depth) {
    const auto kind = number<Kind>();
    const auto require = [&](std::initializer_list<ValueKind> kinds) {
      if (expected != nullptr && std::ranges::find(kinds, expected->kind) == kinds.end()) fail_as_unexpected();
    };
    if (kind != Kind::none && expected != nullptr && expected->kind == ValueKind::optional) {
      expected = inner_of(expected);
    }
    switch (kind) {
      case Kind::none:
        require({ValueKind::optional});
        return std::monostate{};
      case Kind::tensor:
        require({ValueKind::tensor, ValueKind::sparse_tensor});
        return tensor(expected == nullptr ? ElementType::undefined : expected->element);
      case Kind::sequence: {
        require({ValueKind::sequence});
        if (depth == max_depth) fail();
        Sequence sequence;
        const auto size = count(min_value_bytes);
        sequence.values.reserve(size);
        for (std::size_t i = 0; i < size; ++i) sequence.values.push_back(value(inner_of(expected), depth + 1));
        return sequence;
      }
      case Kind::map: {
        require({ValueKind::map});
        Tensor keys = tensor(expected == nullptr ? ElementType::undefined : expected->element);
        const ValueType* values = inner_of(expected);
        return Map{std::move(keys), tensor(values == nullptr ? ElementType::undefined : values->element)};
      }
    }
    fail();
  }

  std::span<const std::byte> memory_;
  const std::vector<std::byte> head_;  // a copy
  const std::shared_ptr<const void>& owner_;
  const ExpectedValues* expected_;
  std::uint64_t elements_left_;
  std::size_t position_ = 0;
};

}  // namespace

EncodedValues encode_values(const NamedValues& values, std::span<const std::size_t> outputs,
                            std::span<const std::byte> memory, std::size_t begin) {
  Encoder encoder(memory, begin);
  encoder.all(values, outputs);
  return std::move(encoder).finish();
}

void write_values(const EncodedValues& values, std::byte* memory) {
  for (const EncodedValues::Elements& elements : values.elements) {
    std::memcpy(memory + elements.offset, elements.data, elements.size);
  }
  std::memcpy(memory + values.place.head, values.head.data(), values.head.size());
}

RunInputs read_values(std::span<const std::byte> memory, const ValuesPlace& place,
                      const std::shared_ptr<const void>& owner, const ExpectedValues* expected) {
  if (place.head_bytes > max_head_bytes) fail();
  const std::span<const std::byte> values = part_of(memory, 0, place.bytes);
  return Decoder(values, part_of(values, place.head, place.head_bytes), owner, expected).all();
}

}  // namespace gpux::isolation

#include "runtime/isolation/value_encoding.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "gpux/error.h"
#include "tensor/deep_copy.h"

namespace gpux::runtime::isolation {
namespace {

constexpr std::size_t alignment = 64;
constexpr unsigned max_depth = 8;  // of sequences in sequences
constexpr unsigned max_rank = 1024;
constexpr std::size_t max_head_bytes = std::size_t{256} << 20;
constexpr std::size_t min_value_bytes = sizeof(std::uint8_t) + sizeof(std::uint32_t);  // of an empty sequence

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

  void text(std::string_view text) {
    number<std::uint64_t>(text.size());
    bytes(text.data(), text.size());
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

std::span<const std::byte> part_of(std::span<const std::byte> memory, std::uint64_t offset, std::uint64_t size) {
  if (offset > memory.size() || size > memory.size() - offset) fail();
  return memory.subspan(offset, size);
}

class Decoder {
 public:
  Decoder(std::span<const std::byte> memory, std::span<const std::byte> head, const std::shared_ptr<const void>& owner)
      : memory_(memory), head_(head.begin(), head.end()), owner_(owner) {}

  RunInputs all() {
    RunInputs read;
    for (auto left = count(sizeof(std::uint32_t)); left != 0; --left) read.outputs.push_back(number<std::uint32_t>());
    for (auto left = count(sizeof(std::uint64_t)); left != 0; --left) {
      std::string name = text();
      Value one = value(0);
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

  std::string text() {
    const auto size = number<std::uint64_t>();
    const auto taken = take(size);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }

  Tensor tensor() {
    const auto type = static_cast<std::uint8_t>(number<ElementType>());
    if (type == 0 || type > static_cast<std::uint8_t>(ElementType::int2)) fail();
    const auto rank = count(sizeof(std::int64_t));
    if (rank > max_rank) fail();
    Shape shape(rank);
    for (std::int64_t& size : shape) size = number<std::int64_t>();
    if (static_cast<ElementType>(type) == ElementType::string) return strings(std::move(shape));
    const auto offset = number<std::uint64_t>();
    const auto size = number<std::uint64_t>();
    if (offset % alignment != 0) fail();
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
    if (count > (head_.size() - position_) / sizeof(std::uint64_t)) fail();
    std::vector<std::string> values;
    values.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) values.push_back(text());
    return Tensor::of_strings(std::move(shape), std::move(values));
  }

  Value value(unsigned depth) {
    switch (number<Kind>()) {
      case Kind::none:
        return std::monostate{};
      case Kind::tensor:
        return tensor();
      case Kind::sequence: {
        if (depth == max_depth) fail();
        Sequence sequence;
        for (auto left = count(min_value_bytes); left != 0; --left) sequence.values.push_back(value(depth + 1));
        return sequence;
      }
      case Kind::map: {
        Tensor keys = tensor();
        return Map{std::move(keys), tensor()};
      }
    }
    fail();
  }

  std::span<const std::byte> memory_;
  const std::vector<std::byte> head_;  // a copy
  const std::shared_ptr<const void>& owner_;
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
                      const std::shared_ptr<const void>& owner) {
  if (place.head_bytes > max_head_bytes) fail();
  const std::span<const std::byte> values = part_of(memory, 0, place.bytes);
  return Decoder(values, part_of(values, place.head, place.head_bytes), owner).all();
}

}  // namespace gpux::runtime::isolation

#include "runtime/isolation/value_encoding.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "gpux/error.h"
#include "tensor/deep_copy.h"

namespace gpux::runtime::isolation {
namespace {

constexpr std::size_t alignment = 64;
constexpr unsigned max_depth = 8;  // of sequences in sequences
constexpr unsigned max_rank = 1024;

enum class Kind : std::uint8_t { none, tensor, sequence, map };

std::size_t aligned(std::size_t position) noexcept {
  return (position + alignment - 1) / alignment * alignment;
}

/// Counts bytes, and writes them if it has memory.
class Writer {
 public:
  explicit Writer(std::byte* memory) : memory_(memory) {}

  void bytes(const void* data, std::size_t size) {
    if (memory_ != nullptr && size != 0) std::memcpy(memory_ + position_, data, size);
    position_ += size;
  }

  template <typename Number>
  void number(Number value) {
    bytes(&value, sizeof value);
  }

  void text(std::string_view text) {
    number<std::uint64_t>(text.size());
    bytes(text.data(), text.size());
  }

  void tensor(const Tensor& tensor) {
    number(tensor.type());
    number(static_cast<std::uint32_t>(tensor.shape().size()));
    for (const std::int64_t size : tensor.shape()) number(size);
    if (tensor.type() == ElementType::string) {
      for (const std::string& element : tensor.strings()) text(element);
      return;
    }
    number<std::uint64_t>(tensor.byte_size());
    position_ = aligned(position_);
    bytes(tensor.bytes().data(), tensor.byte_size());
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

  void all(const NamedValues& values, std::span<const std::size_t> outputs) {
    number(static_cast<std::uint32_t>(outputs.size()));
    for (const std::size_t output : outputs) number(static_cast<std::uint32_t>(output));
    number(static_cast<std::uint32_t>(values.size()));
    for (const auto& [name, one] : values) {
      text(name);
      value(one);
    }
  }

  [[nodiscard]] std::size_t position() const noexcept { return position_; }

 private:
  std::byte* memory_;
  std::size_t position_ = 0;
};

class Reader {
 public:
  Reader(std::span<const std::byte> memory, const std::shared_ptr<const void>& owner)
      : memory_(memory), owner_(owner) {}

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
  [[noreturn]] static void fail() {
    throw Error(ErrorCode::internal, "the memory that is shared with a worker process holds no values");
  }

  std::span<const std::byte> take(std::size_t size) {
    if (size > memory_.size() - position_) fail();
    const auto taken = memory_.subspan(position_, size);
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
    if (count > (memory_.size() - position_) / least) fail();
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
    const auto size = number<std::uint64_t>();
    const std::size_t begin = aligned(position_);
    if (begin > memory_.size()) fail();
    position_ = begin;
    Tensor borrowed = Tensor::borrow(static_cast<ElementType>(type), std::move(shape), take(size), owner_);
    return owner_ == nullptr ? deep_copy(borrowed) : borrowed;
  }

  Tensor strings(Shape shape) {
    const auto count = static_cast<std::uint64_t>(element_count(shape));
    if (count > (memory_.size() - position_) / sizeof(std::uint64_t)) fail();
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
        for (auto left = count(1); left != 0; --left) sequence.values.push_back(value(depth + 1));
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
  const std::shared_ptr<const void>& owner_;
  std::size_t position_ = 0;
};

}  // namespace

std::size_t size_of_values(const NamedValues& values, std::span<const std::size_t> outputs) {
  Writer counter(nullptr);
  counter.all(values, outputs);
  return counter.position();
}

void write_values(const NamedValues& values, std::span<const std::size_t> outputs, std::byte* memory) {
  Writer(memory).all(values, outputs);
}

RunInputs read_values(std::span<const std::byte> memory, const std::shared_ptr<const void>& owner) {
  return Reader(memory, owner).all();
}

}  // namespace gpux::runtime::isolation

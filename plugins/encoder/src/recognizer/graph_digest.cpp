#include "recognizer/graph_digest.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <vector>

namespace gpux_cpu::encoder {
namespace {

/// 128 bits, against accidental collisions. Not cryptographic: who can load a model controls its results anyway.
class Hash {
 public:
  void add(const void* data, std::size_t bytes) noexcept {
    add_word(bytes);
    const auto* from = static_cast<const std::byte*>(data);
    std::uint64_t word = 0;
    for (; bytes >= sizeof word; bytes -= sizeof word, from += sizeof word) {
      std::memcpy(&word, from, sizeof word);
      add_word(word);
    }
    if (bytes == 0) return;
    word = 0;
    std::memcpy(&word, from, bytes);
    add_word(word);
  }

  void add(std::string_view text) noexcept { add(text.data(), text.size()); }

  template <typename Number>
    requires std::is_arithmetic_v<Number>
  void add(Number number) noexcept {
    add(&number, sizeof number);
  }

  template <typename Value>
  void add(const std::vector<Value>& list) noexcept {
    add(list.size());
    for (const Value& value : list) add(value);
  }

  [[nodiscard]] std::array<std::uint64_t, 2> digest() const noexcept { return {first_, second_}; }

 private:
  // Odd numbers without a pattern: of the golden ratio and of the square root of 2.
  void add_word(std::uint64_t word) noexcept {
    first_ = std::rotl(first_ ^ word, 29) * 0x9E3779B97F4A7C15U;
    second_ = std::rotl(second_ + word, 31) * 0xB504F333F9DE6485U;
  }

  std::uint64_t first_ = 1, second_ = 2;
};

std::size_t bytes_of(ElementType element_type) noexcept {
  switch (element_type) {
    case ElementType::float32:
    case ElementType::int32:
      return 4;
    case ElementType::int64:
      return 8;
    case ElementType::boolean:
    case ElementType::uint8:
    case ElementType::int8:
      return 1;
    case ElementType::float16:
    case ElementType::bfloat16:
      return 2;
    case ElementType::other:
      break;
  }
  return 0;
}

void add(Hash& hash, const Node& node) {
  hash.add(node.type);
  hash.add(node.domain);
  hash.add(node.version);
  hash.add(node.inputs);
  hash.add(node.outputs);
  for (const auto& [name, attribute] : node.attributes) {
    hash.add(name);
    hash.add(attribute.integers);
    hash.add(attribute.number);
    hash.add(attribute.text);
    hash.add(static_cast<int>(attribute.element_type));
  }
}

void add(Hash& hash, const Constant& constant) {
  hash.add(static_cast<int>(constant.element_type));
  hash.add(constant.shape);
  hash.add(constant.data, constant.count() * bytes_of(constant.element_type));
}

}  // namespace

SharedEncoders::Digest digest_of(const Graph& graph, Precision precision) {
  Hash hash;
  hash.add(static_cast<int>(precision));
  for (const Input& input : graph.inputs) {
    hash.add(input.name);
    hash.add(input.shape);
  }
  hash.add(graph.outputs);
  for (const Node& node : graph.nodes) add(hash, node);
  for (const auto& [name, constant] : graph.constants) {
    hash.add(name);
    add(hash, constant);
  }
  return hash.digest();
}

}  // namespace gpux_cpu::encoder

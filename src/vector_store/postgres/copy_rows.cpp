#include "vector_store/postgres/copy_rows.h"

#include <bit>
#include <cstdint>
#include <utility>

namespace gpux::vector_store {
namespace {

constexpr std::string_view signature("PGCOPY\n\377\r\n\0", 11);

// In the byte order of the network.
template <typename Integer>
void append_integer(std::string& out, Integer value) {
  for (int shift = static_cast<int>(sizeof(Integer) * 8) - 8; shift >= 0; shift -= 8) {
    out += static_cast<char>(static_cast<std::uint8_t>(value >> shift));
  }
}

void append_float(std::string& out, float value) {
  append_integer(out, std::bit_cast<std::uint32_t>(value));
}

}  // namespace

CopyRows::CopyRows() : bytes_(signature) {
  append_integer(bytes_, std::uint32_t{0});  // flags
  append_integer(bytes_, std::uint32_t{0});  // bytes of an extension of the header
}

void CopyRows::begin_row(std::size_t columns) {
  append_integer(bytes_, static_cast<std::uint16_t>(columns));
}

void CopyRows::add_text(std::string_view text) {
  append_integer(bytes_, static_cast<std::uint32_t>(text.size()));
  bytes_ += text;
}

void CopyRows::add_jsonb(std::string_view json) {
  append_integer(bytes_, static_cast<std::uint32_t>(json.size() + 1));
  bytes_ += '\1';  // the version of the format
  bytes_ += json;
}

void CopyRows::add_vector(std::span<const float> vector) {
  append_integer(bytes_, static_cast<std::uint32_t>(4 + 4 * vector.size()));
  append_integer(bytes_, static_cast<std::uint16_t>(vector.size()));
  append_integer(bytes_, std::uint16_t{0});
  for (const float value : vector) append_float(bytes_, value);
}

void CopyRows::add_sparse(const SparseVector& vector, std::size_t dimension) {
  append_integer(bytes_, static_cast<std::uint32_t>(12 + 8 * vector.indices.size()));
  append_integer(bytes_, static_cast<std::uint32_t>(dimension));
  append_integer(bytes_, static_cast<std::uint32_t>(vector.indices.size()));
  append_integer(bytes_, std::uint32_t{0});
  for (const std::uint32_t index : vector.indices) append_integer(bytes_, index);
  for (const float value : vector.values) append_float(bytes_, value);
}

std::string CopyRows::finish() {
  append_integer(bytes_, std::uint16_t{0xffff});
  return std::exchange(bytes_, {});
}

}  // namespace gpux::vector_store

#include "runtime/scheduling/copy_corner.h"

#include <algorithm>
#include <cstring>

#include "tensor/packed.h"

namespace gpux::runtime {
namespace {

Shape strides_of(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (std::size_t i = shape.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

// Neighbours in both.
void copy_elements(const Tensor& from, std::size_t from_index, Tensor& to, std::size_t to_index, std::size_t count) {
  const std::size_t bits = bits_of(from.type());
  if (from.type() == ElementType::string) {
    const auto strings = from.strings().subspan(from_index, count);
    std::copy(strings.begin(), strings.end(), to.mutable_strings().subspan(to_index).begin());
  } else if (bits % 8 == 0) {
    const std::size_t bytes = bits / 8;
    std::memcpy(to.mutable_bytes().data() + to_index * bytes, from.bytes().data() + from_index * bytes, count * bytes);
  } else {
    for (std::size_t i = 0; i < count; ++i) {
      set_packed_element(to.mutable_bytes(), to_index + i, bits, packed_element(from.bytes(), from_index + i, bits));
    }
  }
}

}  // namespace

void copy_corner(const Tensor& from, std::int64_t from_row, Tensor& to, std::int64_t to_row, const Shape& sizes) {
  const std::int64_t elements = element_count(sizes);
  if (elements == 0) return;
  const auto whole_rows = [&](const Shape& shape) {
    return std::equal(shape.begin() + 1, shape.end(), sizes.begin() + 1, sizes.end());
  };
  if (whole_rows(from.shape()) && whole_rows(to.shape())) {
    const std::int64_t row = elements / sizes[0];
    copy_elements(from, static_cast<std::size_t>(from_row * row), to, static_cast<std::size_t>(to_row * row),
                  static_cast<std::size_t>(elements));
    return;
  }
  const Shape from_strides = strides_of(from.shape()), to_strides = strides_of(to.shape());
  // From this dimension on all that is copied lies together in both.
  std::size_t together = sizes.size() - 1;
  while (together > 0 && sizes[together] == from.shape()[together] && sizes[together] == to.shape()[together]) {
    --together;
  }
  const std::int64_t count = sizes[together] * from_strides[together];
  Shape index(together, 0);
  for (;;) {
    std::int64_t from_index = from_row * from_strides[0], to_index = to_row * to_strides[0];
    for (std::size_t i = 0; i < together; ++i) {
      from_index += index[i] * from_strides[i];
      to_index += index[i] * to_strides[i];
    }
    copy_elements(from, static_cast<std::size_t>(from_index), to, static_cast<std::size_t>(to_index),
                  static_cast<std::size_t>(count));
    std::size_t next = together;
    while (next > 0 && ++index[next - 1] == sizes[next - 1]) index[--next] = 0;
    if (next == 0) return;
  }
}

}  // namespace gpux::runtime

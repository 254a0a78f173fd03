#include "tensor/deep_copy.h"

#include <algorithm>

namespace gpux {

Tensor deep_copy(const Tensor& tensor) {
  Tensor copy = Tensor::allocate(tensor.type(), tensor.shape());
  if (tensor.type() == ElementType::string) {
    std::ranges::copy(tensor.strings(), copy.mutable_strings().begin());
  } else {
    std::ranges::copy(tensor.bytes(), copy.mutable_bytes().begin());
  }
  return copy;
}

}  // namespace gpux

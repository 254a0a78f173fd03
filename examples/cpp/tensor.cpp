// Tensors: memory of their own, memory of yours, views without copies.
#include <gpux/tensor.h>

#include <array>
#include <iostream>

int main() {
  gpux::Tensor own = gpux::Tensor::allocate(gpux::ElementType::float32, {2, 3});
  own.mutable_as<float>()[4] = 1.5F;

  const std::array<std::int64_t, 4> numbers{1, 2, 3, 4};  // must outlive the tensor
  const gpux::Tensor borrowed =
      gpux::Tensor::borrow(gpux::ElementType::int64, {2, 2}, std::as_bytes(std::span(numbers)));
  const gpux::Tensor second_row = borrowed.rows(1, 1);  // shares the memory

  const gpux::Tensor words = gpux::Tensor::of_strings({2}, {"two", "words"});
  std::cout << to_string(own.type()) << gpux::to_string(own.shape()) << ' ' << own.as<float>()[4] << ' '
            << second_row.as<std::int64_t>()[0] << ' ' << words.strings()[1] << '\n';
  return own.as<float>()[4] == 1.5F && second_row.as<std::int64_t>()[0] == 3 ? 0 : 1;
}

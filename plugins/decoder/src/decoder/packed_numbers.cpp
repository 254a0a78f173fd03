#include "decoder/packed_numbers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "block_kernels/half.h"

namespace gpux_cpu::decoder {
namespace {

// Elements of llama.cpp's K types whose scales have a factor in common.
constexpr std::size_t elements_of_step = 256;

// The multiples that the largest of K types are, and then all others: most blocks need one attempt.
constexpr std::array<int, 255> multiples_of_largest = [] {
  std::array<int, 255> all{63, 127, -128, 15, 31};
  std::size_t count = 5;
  for (int i = 1; i <= 127; ++i) {
    if (std::find(all.begin(), all.begin() + 5, i) == all.begin() + 5) all[count++] = i;
    all[count++] = -i;
  }
  return all;
}();

std::optional<std::int8_t> multiple_of(float number, float step) noexcept {
  const float multiple = std::nearbyint(number / step);
  if (!(multiple >= -128 && multiple <= 127) || multiple * step != number) return std::nullopt;
  return static_cast<std::int8_t>(multiple);
}

bool are_multiples(std::span<const float> numbers, float step, std::span<std::int8_t> steps) noexcept {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto multiple = multiple_of(numbers[i], step);
    if (!multiple) return false;
    steps[i] = *multiple;
  }
  return true;
}

}  // namespace

std::optional<float> common_step(std::span<const float> numbers, std::span<std::int8_t> steps) noexcept {
  float largest = 0;
  for (const float number : numbers) {
    if (!std::isfinite(number)) return std::nullopt;
    if (std::abs(number) > std::abs(largest)) largest = number;
  }
  if (largest == 0) {
    std::ranges::fill(steps, std::int8_t{0});
    return 0.0F;
  }
  for (const int multiple : multiples_of_largest) {
    const float step = largest / static_cast<float>(multiple);
    if (are_multiples(numbers, step, steps)) return step;
  }
  return std::nullopt;
}

PackedNumbers::PackedNumbers(std::span<const float> numbers, std::size_t blocks, std::size_t block_size) {
  if (pack_halves(numbers) || pack_steps(numbers, blocks, block_size)) return;
  floats_ = SharedArray<float>::in_large_pages(numbers);
}

bool PackedNumbers::pack_halves(std::span<const float> numbers) {
  std::vector<std::uint16_t> halves;
  halves.reserve(numbers.size());
  for (const float number : numbers) {
    halves.push_back(half_of(number));
    if (float_of_half(halves.back()) != number) return false;
  }
  halves_ = SharedArray<std::uint16_t>::in_large_pages(halves);
  return true;
}

bool PackedNumbers::pack_steps(std::span<const float> numbers, std::size_t blocks, std::size_t block_size) {
  const std::size_t together = elements_of_step / block_size;
  if (together < 2 || blocks % together != 0) return false;
  std::vector<std::int8_t> steps(numbers.size()), of_column(together);
  std::vector<float> step_size(numbers.size() / together), column(together);
  for (std::size_t i = 0; i < step_size.size(); ++i) {
    const std::size_t first = i / panel_columns * together * panel_columns + i % panel_columns;
    for (std::size_t k = 0; k < together; ++k) column[k] = numbers[first + k * panel_columns];
    const auto step = common_step(column, of_column);
    if (!step) return false;
    step_size[i] = *step;
    for (std::size_t k = 0; k < together; ++k) steps[first + k * panel_columns] = of_column[k];
  }
  steps_ = SharedArray<std::int8_t>::in_large_pages(steps);
  step_size_ = SharedArray<float>::in_large_pages(step_size);
  while (std::size_t{1} << step_shift_ < together) ++step_shift_;
  return true;
}

BlockNumbers PackedNumbers::view() const noexcept {
  return {.floats = floats_.data(),
          .halves = halves_.data(),
          .steps = steps_.data(),
          .step_size = step_size_.data(),
          .step_shift = step_shift_};
}

float PackedNumbers::at(std::size_t block, std::size_t column) const noexcept {
  const std::size_t index = block * panel_columns + column;
  if (!floats_.empty()) return floats_.data()[index];
  if (!steps_.empty()) {
    return static_cast<float>(steps_.data()[index]) *
           step_size_.data()[(block >> step_shift_) * panel_columns + column];
  }
  return float_of_half(halves_.data()[index]);
}

std::size_t PackedNumbers::bytes() const noexcept {
  return (floats_.size() + step_size_.size()) * sizeof(float) + halves_.size() * sizeof(std::uint16_t) + steps_.size();
}

}  // namespace gpux_cpu::decoder

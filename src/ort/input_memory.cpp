#include "ort/input_memory.h"

#include <algorithm>
#include <functional>

#include "tensor/deep_copy.h"

namespace gpux::ort {
namespace {

constexpr std::less<const std::byte*> before{};  // a total order, which < on pointers is not

}  // namespace

InputMemory::InputMemory(const NamedValues& inputs, std::pmr::memory_resource* resource) : ranges_(resource) {
  ranges_.reserve(inputs.size());
  for (const auto& [name, value] : inputs) add(value);
  std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) { return before(a.begin, b.begin); });
  // One tensor may be given as several inputs.
  std::size_t kept = 0;
  for (const Range& range : ranges_) {
    if (kept != 0 && before(range.begin, ranges_[kept - 1].end)) {
      if (before(ranges_[kept - 1].end, range.end)) ranges_[kept - 1].end = range.end;
    } else {
      ranges_[kept++] = range;
    }
  }
  ranges_.resize(kept);
}

// Strings and maps are copied into ONNX Runtime's own types.
void InputMemory::add(const Value& input) {
  if (const Tensor* tensor = input.tensor()) {
    const auto bytes = tensor->bytes();
    if (!bytes.empty()) ranges_.push_back({bytes.data(), bytes.data() + bytes.size()});
  } else if (const Sequence* sequence = input.sequence()) {
    for (const Value& element : sequence->values) add(element);
  }
}

bool InputMemory::overlaps(std::span<const std::byte> bytes) const {
  if (bytes.empty()) return false;
  const auto behind = std::partition_point(ranges_.begin(), ranges_.end(),
                                           [&](const Range& range) { return !before(bytes.data(), range.end); });
  return behind != ranges_.end() && before(behind->begin, bytes.data() + bytes.size());
}

void InputMemory::replace_shared(Value& output) const {
  if (auto* tensor = std::get_if<Tensor>(&output)) {
    if (overlaps(tensor->bytes())) *tensor = deep_copy(*tensor);
  } else if (auto* sequence = std::get_if<Sequence>(&output)) {
    for (Value& element : sequence->values) replace_shared(element);
  }
}

}  // namespace gpux::ort

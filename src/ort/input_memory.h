#pragma once

#include <cstddef>
#include <memory_resource>
#include <span>
#include <vector>

#include "gpux/tensor.h"

namespace gpux::ort {

/// The host memory of one run's inputs. ONNX Runtime answers with an input's own memory where a graph input is also a
/// graph output, so such an output would change or dangle with the caller's memory.
class InputMemory {
 public:
  /// The inputs must outlive this. `resource` holds the list of memory ranges.
  InputMemory(const NamedValues& inputs, std::pmr::memory_resource* resource);

  /// Replaces every tensor in `output` that refers to an input's memory with a copy.
  void replace_shared(Value& output) const;

 private:
  struct Range {
    const std::byte* begin;
    const std::byte* end;
  };

  void add(const Value& input);
  [[nodiscard]] bool overlaps(std::span<const std::byte> bytes) const;

  std::pmr::vector<Range> ranges_;  // sorted, disjoint
};

}  // namespace gpux::ort

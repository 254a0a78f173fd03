#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "vector_store/local/vectors_file.h"

namespace gpux::vector_store {

/// Points of a file by their index, and which of them count: others were replaced later. Lives as long as the file.
class PointsInFile {
 public:
  PointsInFile() = default;

  explicit PointsInFile(const VectorsFile& file) : file_(&file), is_replaced_(file.points, false) {
    vectors_.reserve(file.points);
    for (const PointSegment& segment : file.segments) {
      for (std::size_t point = 0; point < segment.points; ++point) {
        vectors_.push_back(segment.vectors.data() + point * file.facts.dimension);
      }
      for (const std::uint32_t index : segment.replaced) {
        replaced_ += is_replaced_[index] ? 0U : 1U;
        is_replaced_[index] = true;
      }
    }
  }

  [[nodiscard]] bool is_current(std::uint32_t index) const { return !is_replaced_[index]; }

  /// Points that count.
  [[nodiscard]] std::size_t size() const noexcept { return is_replaced_.size() - replaced_; }

  [[nodiscard]] std::size_t replaced() const noexcept { return replaced_; }

  [[nodiscard]] const PointSegment& segment_of(std::uint32_t index) const {
    const auto after = std::ranges::upper_bound(file_->segments, std::size_t{index}, {}, &PointSegment::first);
    return *std::prev(after);
  }

  [[nodiscard]] const float* vector(std::uint32_t index) const { return vectors_[index]; }

  /// All of them, also those that were replaced.
  [[nodiscard]] std::span<const float* const> vectors() const noexcept { return vectors_; }

  [[nodiscard]] const PointId& id(std::uint32_t index) const {
    const PointSegment& segment = segment_of(index);
    return segment.ids[index - segment.first];
  }

 private:
  const VectorsFile* file_ = nullptr;
  std::vector<bool> is_replaced_;
  std::vector<const float*> vectors_;
  std::size_t replaced_ = 0;
};

}  // namespace gpux::vector_store

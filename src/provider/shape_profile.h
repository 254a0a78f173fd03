#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpux::provider {

/// The shapes of one input that an engine is compiled for: the smallest, the one that it is tuned for, the largest.
/// All have the same number of dimensions, and each dimension is 1 or more and does not fall from one to the next.
struct ShapeRange {
  std::string input;
  std::vector<std::int64_t> smallest, tuned, largest;
};

/// Reads "input_ids:1x1..8x128..32x512,attention_mask:…". Two shapes are the smallest and the largest, which it is then
/// tuned for; one is all three. Error usage that names what is wrong. Pure.
std::vector<ShapeRange> parse_shape_profile(std::string_view text);

/// "input_ids:1x1,attention_mask:1x1" of one of the three, as TensorRT takes it. Pure.
std::string shapes_text(const std::vector<ShapeRange>& ranges, std::vector<std::int64_t> ShapeRange::*which);

}  // namespace gpux::provider

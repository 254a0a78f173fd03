#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpux/model_info.h"
#include "gpux/options.h"
#include "gpux/tensor.h"
#include "gpux/verdict.h"

namespace gpux::provider {

/// The shapes of one input that an engine is compiled for: the smallest, the one that it is tuned for, the largest.
/// All have the same number of dimensions, and each dimension is 1 or more and does not fall from one to the next.
struct ShapeRange {
  std::string input;
  std::vector<std::int64_t> smallest, tuned, largest;

  bool operator==(const ShapeRange&) const = default;
};

/// The largest size of a dimension that has no upper bound.
inline constexpr std::int64_t unbounded_size = (std::int64_t{1} << 31) - 1;

/// Reads "input_ids:1x1..8x128..32x512,attention_mask:…". Two shapes are the smallest and the largest, which it is then
/// tuned for; one is all three. Error usage that names what is wrong. Pure.
std::vector<ShapeRange> parse_shape_profile(std::string_view text);

/// "input_ids:1x1,attention_mask:1x1" of one of the three, as TensorRT takes it. Pure.
std::string shapes_text(const std::vector<ShapeRange>& ranges, std::vector<std::int64_t> ShapeRange::*which);

/// "input_ids:1x1..8x128..32x512", as parse_shape_profile() reads it. Pure.
std::string profile_text(const std::vector<ShapeRange>& ranges);

/// "input_ids[1..32,1..512]" of OpenVINO, which tunes for no shape among them. Pure.
std::string reshape_text(const std::vector<ShapeRange>& ranges);

/// The shapes that a provider's own options name: trt_profile_*, nv_profile_*, reshape_input. Empty where they name
/// none, or are not understood: the provider says what is wrong with them. Pure.
std::vector<ShapeRange> ranges_of_options(std::span<const std::pair<std::string, std::string>> options);

/// Whether the option names shapes that engines are compiled for. Pure.
bool is_shape_option(std::string_view name);

/// A profile made of what is known of a model.
struct DerivedProfile {
  std::vector<ShapeRange> ranges;  ///< ranges of all required inputs with free dimensions; empty: there are none
  std::string from;                ///< where the sizes are from: "serving.batch_size, the model's 256 tokens"
  std::string unknown;             ///< why there is none, though the model has free dimensions; empty: it has none
};

/// TensorRT takes a profile of all inputs with free dimensions, or none: where one dimension is not known, there is no
/// profile. Pure.
DerivedProfile derive_shape_profile(const Signature& signature, std::span<const ExpectedSize> sizes);

/// Which input is outside of its range, with what would be accepted; empty where none is. Inputs without a range are
/// not looked at. Pure.
std::string outside_of_profile(std::span<const ShapeRange> ranges, std::string_view input, const Shape& shape);

/// The rows that a run may have in each input of the profile: the least of the largest first sizes; 0: not bounded.
/// Pure.
std::int64_t max_rows_of(std::span<const ShapeRange> ranges);

/// The first active provider that has compiled for a range of shapes.
struct ActiveProfile {
  std::string provider;  ///< id; empty: there is none
  std::vector<ShapeRange> ranges;
};

/// Pure.
ActiveProfile active_profile(const Verdict& verdict);

/// The id of the provider that holds the most nodes, where it compiles or records again for each number of rows that it
/// has not met, and has no profile for all of them; empty otherwise. Pure.
std::string compiles_each_size(const Verdict& verdict);

}  // namespace gpux::provider

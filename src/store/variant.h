#pragma once

#include <optional>
#include <span>
#include <string>

namespace gpux {

/// Provider, device and machine that an optimized graph was made for. The texts are compared, never parsed.
struct VariantTarget {
  std::string provider;            ///< gpux's ids of the providers it was made for, by commas
  std::string runtime_version;     ///< version of ONNX Runtime
  std::string device;              ///< the provider's device
  std::string optimization_level;  ///< "extended"
  std::string machine;             ///< machine_fingerprint() of where it was made
  std::string provider_options;    ///< "encoder.precision=int8"; empty: none

  bool operator==(const VariantTarget&) const = default;
};

/// Precision of a variant, and its agreement with the model.
struct VariantPrecision {
  std::string name;          ///< "int8"
  unsigned weight_bits = 8;  ///< that the weights use: 8, or 7 where processors without VNNI are to run it
  double mean_cosine = 0;    ///< between its answers and the model's own
  double least_cosine = 0;
  unsigned samples = 0;  ///< that were compared

  bool operator==(const VariantPrecision&) const = default;
};

/// A graph of the same model: optimized ahead for one target, or of another precision, which is for one provider and
/// whatever else.
struct Variant {
  std::string model_file;  ///< its ONNX file in the package
  VariantTarget target;    ///< what it was made for; a variant of another precision has only the provider
  std::optional<VariantPrecision> precision;

  bool operator==(const Variant&) const = default;
};

/// The variant of the model's own precision made for exactly `target`, or null: where anything differs the model's own
/// graph is to be used.
const Variant* choose_variant(std::span<const Variant> variants, const VariantTarget& target) noexcept;

/// The architecture and processor of this machine: graphs with layouts chosen for one need not run well on another.
std::string machine_fingerprint();

}  // namespace gpux

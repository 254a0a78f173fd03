#pragma once

#include <span>
#include <string>

namespace gpux {

/// What an optimized graph depends on. The texts are compared, never read.
struct VariantTarget {
  std::string provider;            ///< gpux's id of the provider it was optimized for
  std::string runtime_version;     ///< of ONNX Runtime
  std::string device;              ///< the provider's device
  std::string optimization_level;  ///< "extended"
  std::string machine;             ///< machine_fingerprint() of where it was made

  bool operator==(const VariantTarget&) const = default;
};

/// A graph of the same model, optimized ahead.
struct Variant {
  std::string model_file;  ///< its ONNX file in the package
  VariantTarget target;

  bool operator==(const Variant&) const = default;
};

/// The variant made for exactly `target`, or null: where anything differs the model's own graph is to be used.
const Variant* choose_variant(std::span<const Variant> variants, const VariantTarget& target) noexcept;

/// The architecture and processor of this machine: graphs with layouts chosen for one need not run well on another.
std::string machine_fingerprint();

}  // namespace gpux

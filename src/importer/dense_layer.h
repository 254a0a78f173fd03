#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "importer/activation.h"

namespace gpux::importer {

/// activation(W x + b), what sentence-transformers calls Dense.
struct DenseLayer {
  std::int64_t in = 0, out = 0;
  std::vector<float> weights;  ///< [out, in]
  std::vector<float> bias;     ///< [out]
  Activation activation = Activation::identity;
};

/// Reads config.json (in_features, out_features, bias, activation_function) and model.safetensors (linear.weight,
/// linear.bias) of a Dense module. Errors invalid_model, storage, not_found (no model.safetensors).
DenseLayer read_dense(const std::filesystem::path& folder);

}  // namespace gpux::importer

#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "checkpoint/activation.h"
#include "checkpoint/module_feature.h"

namespace gpux::checkpoint {

/// activation(W x + b), what sentence-transformers calls Dense.
struct DenseLayer {
  std::int64_t in = 0, out = 0;
  std::vector<float> weights;  ///< [out, in]
  std::vector<float> bias;     ///< [out]
  Activation activation = Activation::identity;
};

/// Reads config.json (in_features, out_features, bias, activation_function, module_input_name, module_output_name,
/// use_residual) and model.safetensors (linear.weight, linear.bias) of a Dense module of that feature. Errors
/// invalid_model, storage, not_found (no model.safetensors).
DenseLayer read_dense(const std::filesystem::path& folder, std::string_view feature = sentence_feature);

}  // namespace gpux::checkpoint

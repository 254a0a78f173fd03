#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "onnx/dense_layer.h"

namespace gpux::embedding {

/// Reads config.json (in_features, out_features, bias, activation_function) and model.safetensors (linear.weight,
/// linear.bias) of a Dense module. Errors invalid_model, storage, not_found (no model.safetensors).
onnx::DenseLayer read_dense(const std::filesystem::path& folder);

/// `vector` has layer.in elements; gives layer.out.
std::vector<float> apply_dense(const onnx::DenseLayer& layer, std::span<const float> vector);

}  // namespace gpux::embedding

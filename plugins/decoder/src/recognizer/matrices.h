#pragma once

#include <optional>
#include <string>

#include "recognizer/graph_index.h"
#include "recognizer/recognized_decoder.h"

namespace gpux_cpu::decoder {

/// value = input * weights + bias.
struct MatrixProduct {
  std::string input;
  RecognizedMatrix matrix;
};

/// MatMul, Gemm and MatMulNBits with constant weights, minimums of their blocks, and an Add of a bias; empty for
/// anything else. Throws NotRecognized for one of these that is not computed here.
std::optional<MatrixProduct> matrix_product(GraphIndex& index, const std::string& value);

/// Gather and GatherBlockQuantized of the rows of a constant table, with minimums of their blocks, times a number; the
/// input is that of the indices.
struct TokenLookup {
  std::string input_ids;
  RecognizedMatrix table;  ///< a column for each token
  float scale = 1;
};

std::optional<TokenLookup> token_lookup(GraphIndex& index, const std::string& value);

/// value = norm(input).
struct NormOf {
  std::string input;  ///< "": the sum that the node makes itself
  RecognizedNorm norm;
  /// SkipSimplifiedLayerNormalization and SkipLayerNormalization: the norm of the sum of two values.
  const Node* sum = nullptr;
};

std::optional<NormOf> norm_of(GraphIndex& index, const std::string& value);

/// value = activation(input).
struct ActivationOf {
  std::string input;
  Activation activation = Activation::silu;
};

std::optional<ActivationOf> activation_of(GraphIndex& index, const std::string& value);

}  // namespace gpux_cpu::decoder

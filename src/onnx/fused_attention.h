#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace gpux::onnx {

/// A model with fewer nodes that computes the same, but for rounding.
struct FusedModel {
  std::string content;
  std::map<std::string, std::size_t> operators;  ///< the fused ones that were added, and how many
};

/// The model with ONNX Runtime's fused operators (domain com.microsoft) in place of
/// - Reshape(Transpose(MatMul(Softmax(MatMul(query, key^T) [+ bias]), value))): MultiHeadAttention of a scale of 1. The
///   heads have to be known, and to be as many for keys and values, and the values in between to have no other use. The
///   bias is expanded to the sizes that the operator takes, once for all attentions that share it;
/// - LayerNormalization(Add(a, b)) and SimplifiedLayerNormalization(Add(a, b)), where both have the same sizes [batch,
///   sequence, hidden size]: SkipLayerNormalization and SkipSimplifiedLayerNormalization. These give the sum, too,
///   where it has other uses.
/// None: there is nothing to fuse, the opset is below 17, or the file is larger than 1.5 GB. Subgraphs, weights, and
/// references to external data stay as they are. Error MalformedMessage. Pure.
std::optional<FusedModel> with_fused_attention(std::string_view content);

}  // namespace gpux::onnx

#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace gpux::onnx {

/// The kinds of nodes that are fused.
struct FusedParts {
  bool attention = true;
  bool norms = true;
};

/// Everything that determines how a MultiHeadAttention node computes, but for the sizes of a run.
struct AttentionForm {
  std::int64_t heads = 1, head_size = 1;
  std::int64_t bias_heads = 0;   ///< 0: no bias, 1: one for all heads, or as many as heads
  bool are_keys_packed = false;  ///< [batch, sequence, hidden size], else [batch, heads, sequence, head size]

  auto operator<=>(const AttentionForm&) const = default;
};

/// The form of a norm.
struct NormForm {
  std::int64_t size = 1;
  bool is_simplified = false;
  bool has_bias = false;
  bool has_sum = false;  ///< it adds two values before, and gives the sum, too

  auto operator<=>(const NormForm&) const = default;
};

/// A model with fewer nodes that computes the same, but for rounding.
struct FusedModel {
  std::string content;
  std::map<std::string, std::size_t> operators;  ///< the fused ones that were added, and how many
  std::set<AttentionForm> attentions;            ///< attention nodes, by their operator
  std::set<NormForm> norms;
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
std::optional<FusedModel> with_fused_attention(std::string_view content, const FusedParts& parts = {});

/// A small model whose nodes are replaced by operators of these forms: to compare what a provider makes of both. Its
/// first outputs are those of the attentions, in order. Inputs and outputs are float32; where `is_float16`, it computes
/// in float16. Pure.
std::string fusion_example(const std::set<AttentionForm>& attentions, const std::set<NormForm>& norms, bool is_float16);

}  // namespace gpux::onnx

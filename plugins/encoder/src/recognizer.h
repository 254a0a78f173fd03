#pragma once

#include <optional>
#include <string>
#include <vector>

#include "encoder.h"
#include "graph.h"

namespace gpux_encoder {

struct FoundNorm {
  const Constant *gamma = nullptr, *beta = nullptr;
  float epsilon = 0;
};

struct FoundLinear {
  const Constant* weights = nullptr;  ///< [inner, columns]; transposed: [columns, inner]
  bool transposed = false;
  const Constant* bias = nullptr;
};

struct FoundLayer {
  FoundLinear query, key, value, attention_out, widen, narrow;
  FoundNorm attention_norm, output_norm;
  float score_scale = 1;
};

/// An encoder in a graph. Points into the graph.
struct Found {
  std::string ids, mask, types;  ///< inputs; mask and types may be empty
  std::string vectors, hidden;   ///< outputs, one of which may be empty
  const Constant *words = nullptr, *positions = nullptr, *type_table = nullptr;
  std::int64_t first_position = 0;
  std::optional<std::int64_t> padding;  ///< as Weights::padding
  const Constant* relative = nullptr;   ///< [1, heads, places, places]
  FoundNorm embedding_norm;
  std::size_t heads = 0;
  std::vector<FoundLayer> layers;
  Pooling pooling = Pooling::none;
  bool normalize = false;
  std::vector<std::size_t> nodes;  ///< that it is made of
};

/// Looks for an encoder by following what each value is, whatever the nodes are called and however they are ordered.
/// Empty where there is none, and `reason` says why in a sentence. Pure.
std::optional<Found> recognize(const Graph& graph, std::string& reason);

/// What the encoder computes with, copied out of the graph's constants.
Weights weights_of(const Found& found, Precision precision);

}  // namespace gpux_encoder

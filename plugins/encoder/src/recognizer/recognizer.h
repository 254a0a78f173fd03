#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "encoder/encoder.h"
#include "recognizer/expression.h"
#include "recognizer/graph.h"

namespace gpux_encoder {

struct FoundNorm {
  const Constant *gamma = nullptr, *beta = nullptr;
  float epsilon = 0;
};

struct FoundLinear {
  const Constant* weights = nullptr;  ///< [inner, columns]; transposed: [columns, inner]
  bool transposed = false;
  std::size_t first_column = 0, columns = 0;  ///< of them that are meant
  const Constant* bias = nullptr;             ///< [columns] from first_bias on
  std::size_t first_bias = 0;

  [[nodiscard]] std::size_t inner() const { return static_cast<std::size_t>(weights->shape[transposed ? 1 : 0]); }
};

/// Which tokens count.
struct MaskSource {
  std::string input;                      ///< 1 where a token counts, else 0; empty: all count
  std::optional<std::int64_t> masked_id;  ///< set where `input` is the ids: all count but this one

  bool operator==(const MaskSource&) const = default;
};

/// How a mask keeps keys out of the shares.
struct FoundMask {
  MaskSource source;
  HiddenKeys keys;
  bool from_front = false;  ///< as Weights::mask_from_front

  bool operator==(const FoundMask&) const = default;
};

/// Rows of a table: [rows, width], whatever axes of size 1 the constant has besides.
struct FoundTable {
  const Constant* rows = nullptr;
  std::size_t first = 0;  ///< row that is meant by 0

  [[nodiscard]] std::size_t width() const { return static_cast<std::size_t>(rows->shape.back()); }
};

struct FoundEmbeddings {
  std::string ids, types;  ///< inputs; types may be empty
  FoundTable words, positions;
  std::size_t longest = 0;              ///< how many rows of `positions` can be meant
  FoundTable type_rows;                 ///< without types: one row
  std::optional<std::int64_t> padding;  ///< as Weights::padding
};

struct FoundLayer {
  FoundLinear query, key, value, attention_out, up_projection, down_projection;
  FoundNorm attention_norm, output_norm;
  float score_scale = 1;
  Activation activation = Activation::gelu;
};

/// An encoder in a graph. Points into the graph.
struct Found {
  FoundEmbeddings embeddings;
  FoundMask mask;
  std::string vectors, hidden;  ///< outputs, one of which may be empty
  /// Added to the scores, over the places text, head, query and key; null where there is none.
  ExpressionPointer relative;
  FoundNorm embedding_norm;
  std::size_t heads = 0;
  std::vector<FoundLayer> layers;
  Pooling pooling = Pooling::none;
  bool normalize = false;
  std::vector<std::size_t> nodes;  ///< that it is made of
};

/// Looks for an encoder by following what each value is, whatever the nodes are called and however they are ordered.
/// Empty where there is none, and `reason` says why in a sentence that names the node at which understanding ended.
/// Pure.
std::optional<Found> recognize(const Graph& graph, std::string& reason);

/// What the encoder computes with, copied out of the graph's constants.
Weights weights_of(const Found& found, Precision precision);

}  // namespace gpux_encoder

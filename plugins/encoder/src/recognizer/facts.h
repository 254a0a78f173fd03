#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "recognizer/axis_order.h"
#include "recognizer/recognizer.h"
#include "recognizer/symbolic_tensor.h"

/// Facts about the values of a graph.
namespace gpux_encoder {

/// Nothing is known about the value. `why` is a sentence without its full stop that names the node that was not
/// understood.
struct Unknown {
  std::string why;
};

/// The output of a layer normalization. Index 0: of the embeddings; 1 + 2i: after the attention of layer i; 2 + 2i:
/// after its feed-forward layer.
struct HiddenStates {
  std::size_t index = 0;
  AxisOrder order = axis_order::batch_sequence_hidden;
};

struct Context;

/// A linear layer of hidden states, of attention's context or of the activated up projection.
struct Projection {
  enum class Of : std::uint8_t { hidden, context, intermediate } of = Of::hidden;
  std::size_t hidden_index = 0;  ///< of the hidden states that it depends on
  RecognizedLinear linear;
  RecognizedLinear up_projection;  ///< of intermediate: the linear layer before it
  Activation activation = Activation::gelu;
  std::shared_ptr<const Context> context;  ///< the input, if it is a context
  AxisOrder order = axis_order::batch_sequence_hidden;
};

/// An elementwise function of a projection, which is the function's input "".
struct Elementwise {
  std::string of;  ///< the projection's name
  Projection projection;
  ExpressionPointer function;
};

/// A projection that is split into heads. parts: 3 while query, key and value are one tensor.
struct Heads {
  Projection projection;
  std::size_t num_heads = 0, parts = 1;
  AxisOrder order;
  double scale = 1;
};

struct AttentionScores {
  Projection query, key;
  std::size_t num_heads = 0;
  double scale = 1;
  std::optional<RecognizedMask> mask;
  std::optional<SymbolicTensor> position_bias;
  enum class Stage : std::uint8_t { raw, probabilities } stage = Stage::raw;
  AxisOrder order = axis_order::batch_heads_query_key;
};

/// IsNaN of attention probabilities: true if all keys are masked.
struct ProbabilitiesAreNaN {
  std::string of;
};

struct Context {
  AttentionScores scores;
  Projection value;
  AxisOrder order;
};

/// A projection plus the hidden states of index `residual`.
struct ResidualSum {
  Projection projection;
  std::size_t residual = 0;
  AxisOrder order;
};

/// An intermediate value of a layer normalization that is written as single operators.
struct LayerNormStep {
  enum class Stage : std::uint8_t { mean, centered, squared, variance, guarded, deviation, inverse, normal, scaled };
  Stage stage = Stage::mean;
  std::string of;  ///< the name of what is normalised
  double epsilon = 0;
  std::string gamma;
};

/// Hidden states times the mask: 0 for masked tokens.
struct MaskedHiddenStates {
  std::size_t hidden_index = 0;
  MaskSource mask;
};

struct Pooled {
  enum class State : std::uint8_t { summed, vector, squares, length, normalized } state = State::summed;
  AxisOrder order = axis_order::batch_hidden;
  Pooling pooling = Pooling::mean;
  std::size_t hidden_index = 0;  ///< of the hidden states
  MaskSource mask;               ///< of a mean
  bool is_clamped = false;       ///< of a length: never 0
};

/// The number of unmasked tokens of each text.
struct TokenCount {
  MaskSource mask;
  AxisOrder order;
  bool is_guarded = false;   ///< never 0
  std::int64_t columns = 1;  ///< of the last axis
};

using Fact =
    std::variant<Unknown, SymbolicTensor, HiddenStates, Projection, Elementwise, Heads, AttentionScores,
                 ProbabilitiesAreNaN, Context, ResidualSum, LayerNormStep, MaskedHiddenStates, Pooled, TokenCount>;

}  // namespace gpux_encoder

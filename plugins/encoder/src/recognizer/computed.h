#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <variant>

#include "recognizer/recognizer.h"

/// Computed values: the results of operators that are no expressions of their inputs' elements, such as matrix
/// products, norms and sums. Expressions refer to their elements by the value's index (Expression::Kind::computed).
namespace gpux_cpu::encoder {

/// Values of the tokens, "rows": EmbeddedRows, NormalizedRows, Projection, Sum and MaskedRows. Their indices are [text,
/// token, column]. Members called `of`, `left` and `right` are indices of computed values.
struct EmbeddedRows {
  RecognizedEmbeddings embeddings;
  ExpressionPointer expression;
};

struct NormalizedRows {
  std::size_t of = 0;
  RecognizedNorm norm;
};

struct StreamInput {
  std::size_t of = 0;  ///< rows
};

struct ContextInput {
  std::size_t of = 0;  ///< a Context
};

/// Columns of a Projection.
struct ProjectionColumns {
  std::size_t of = 0, first = 0;

  bool operator==(const ProjectionColumns&) const = default;
};

/// activation(activated), or activation(activated) * multiplied.
struct IntermediateInput {
  ProjectionColumns activated;
  std::optional<ProjectionColumns> multiplied;
  std::size_t columns = 0;
  Activation activation = Activation::gelu;
};

struct Projection {
  std::variant<StreamInput, ContextInput, IntermediateInput> input;
  RecognizedLinear linear;
};

/// Activated columns of a projection that a norm follows, as in a masked language model's head.
struct ActivatedRows {
  IntermediateInput input;
};

struct Sum {
  std::size_t left = 0, right = 0;
};

/// Rows of masked tokens are 0.
struct MaskedRows {
  std::size_t of = 0;
  MaskSource mask;
};

/// A projection's columns as heads, each normalised. Indices: [text, token, head, column].
struct NormalizedHeads {
  ProjectionColumns projection;
  std::size_t num_heads = 0;
  RecognizedNorm norm;
};

/// The mean along the last axis of an expression, whose other axes are the indices.
struct Mean {
  ExpressionPointer of;
  Shape shape;  ///< shape of the expression
};

/// Columns of a projection as vectors of heads.
struct HeadVectors {
  ProjectionColumns projection;
  std::size_t num_heads = 0;  ///< that the projection has; heads that are repeated count once
  std::size_t head_size = 0;
  std::optional<RecognizedNorm> norm;
  std::optional<RecognizedRotary> rotary;
  double scale = 1;
};

/// Queries times keys. Indices: [text, head, query, key].
struct Scores {
  HeadVectors query, key;
  std::size_t num_heads = 0;
};

/// Queries or keys times a table of [head, bucket, column]. Indices: [text, head, token, bucket].
struct RelativeScores {
  HeadVectors vectors;
  std::size_t num_heads = 0, buckets = 0;
  ExpressionPointer table;
};

/// Attention scores: the input of softmax.
struct AttentionScores {
  HeadVectors query, key;
  std::size_t num_heads = 0;
  double scale = 1;
  std::optional<RecognizedMask> mask;
  std::optional<std::size_t> left, right;  ///< as in RecognizedLayer
  std::optional<RecognizedBias> bias;
  std::optional<RecognizedDisentangled> disentangled;
};

/// Indices: [text, head, query, key].
struct Probabilities {
  AttentionScores scores;
};

/// Probabilities times values. Indices: [text, head, token, column].
struct Context {
  AttentionScores scores;
  HeadVectors value;
};

/// The number of unmasked tokens of a text. Index: [text].
struct TokenCount {
  MaskSource mask;
};

/// The index of the last unmasked token of a text, as long as there is one. Index: [text].
struct LastToken {
  MaskSource mask;
};

/// The sum of the rows of unmasked tokens. Indices: [text, column].
struct RowSum {
  std::size_t of = 0;
  MaskSource mask;
};

/// The maximum over the unmasked tokens of log(1 + relu(rows)), or of log(1 + that). Indices: [text, column].
struct SpladeMaximum {
  std::size_t of = 0;
  MaskSource mask;
  bool has_second_log = false;
};

/// The maximum over the unmasked tokens of the columns of a Projection; `without` if there is no such token. Indices:
/// [text, column].
struct ColumnMaximum {
  std::size_t of = 0;
  MaskSource mask;
  double without = 0;
};

/// The L2 norm of an expression of the indices [text, column]. Index: [text].
struct Length {
  ExpressionPointer of;
};

/// The sum of squares of an expression of the indices [text, column]. Index: [text].
struct SquaredLength {
  ExpressionPointer of;
};

using Computed = std::variant<EmbeddedRows, NormalizedRows, Projection, ActivatedRows, Sum, MaskedRows, NormalizedHeads,
                              Mean, Scores, RelativeScores, Probabilities, Context, TokenCount, LastToken, RowSum,
                              SpladeMaximum, ColumnMaximum, Length, SquaredLength>;

}  // namespace gpux_cpu::encoder

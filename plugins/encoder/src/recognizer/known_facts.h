#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "recognizer/computed.h"
#include "recognizer/symbolic_tensor.h"

namespace gpux_cpu::encoder {

/// Nothing is known about a value. `why` is a sentence without its full stop that names the node that was not
/// understood.
struct Unknown {
  std::string why;
};

using Fact = std::variant<Unknown, SymbolicTensor>;

/// A symbolic tensor that is a mask over keys: its source, and its values for unmasked and masked tokens.
struct EvaluatedMask {
  MaskSource source;  ///< its input is empty if the values depend on nothing
  double unmasked = 0, masked = 0;
};

/// The facts about the values of a graph that are known so far, while its nodes are read in order.
class KnownFacts {
 public:
  explicit KnownFacts(const Graph& graph);

  [[nodiscard]] const Graph& graph() const noexcept { return graph_; }

  /// The value that it is an alias of, or itself.
  [[nodiscard]] const std::string& origin(const std::string& value) const;

  /// The symbolic tensor of a value; null if nothing is known about it.
  [[nodiscard]] const SymbolicTensor* tensor(const std::string& value) const;
  [[nodiscard]] const SymbolicTensor* input(const Node& node, std::size_t index) const;

  /// Why nothing is known about a value; null if something is.
  [[nodiscard]] const Unknown* unknown(const std::string& value) const;

  /// A float32 constant of this rank; null if it is none.
  [[nodiscard]] const Constant* weights(const std::string& value, std::size_t rank) const;

  /// A constant of [count] float32 elements that the tensor is, whatever axes of size 1 are before its last one; null
  /// if it is none.
  [[nodiscard]] const Constant* vector(const SymbolicTensor& tensor, std::size_t count);

  /// The value of all elements, of a tensor of at most `rank` axes.
  [[nodiscard]] std::optional<double> scalar(const std::string& value, std::size_t rank = 4) const;
  [[nodiscard]] std::optional<Shape> dimensions(const std::string& value) const;

  /// Axes of a node, from its second input or its attribute.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> axes(const Node& node) const;

  void set(const std::string& value, Fact fact) { facts_.insert_or_assign(value, std::move(fact)); }

  void set_alias(const std::string& value, const std::string& other) { origins_[other] = origin(value); }

  /// Adds a computed value; returns its index.
  std::size_t add(Computed computed);

  [[nodiscard]] const Computed& computed(std::size_t index) const { return computed_[index]; }

  [[nodiscard]] std::size_t computed_count() const noexcept { return computed_.size(); }

  template <typename Kind>
  [[nodiscard]] const Kind* as(std::size_t index) const {
    return std::get_if<Kind>(&computed_[index]);
  }

  /// Whether an index is that of the own text or token along an axis: that of the only one is 0.
  [[nodiscard]] bool is_text(const ExpressionPointer& index, std::size_t axis) const;
  [[nodiscard]] bool is_token(const ExpressionPointer& index, std::size_t axis) const;

  /// The shape [batch, sequence, columns].
  [[nodiscard]] Shape rows_shape(std::size_t columns) const;

  /// Columns of rows.
  [[nodiscard]] std::size_t columns_of(std::size_t rows) const;

  /// All elements of rows, as a tensor of [batch, sequence, columns].
  [[nodiscard]] SymbolicTensor whole_rows(std::size_t rows) const;

  /// The rows that a tensor is; a new computed value for sums of embeddings and masked rows. Empty, with the reason in
  /// `why`, if it is something else.
  std::optional<std::size_t> rows_of(const SymbolicTensor& tensor, std::string& why);

  /// The values of an expression of the head 0 at the differences -max to max; NaN where it is not known. Each
  /// expression is evaluated once: layers have the same ones.
  [[nodiscard]] const std::vector<double>& values_by_difference(const ExpressionPointer& expression,
                                                                std::size_t max) const;

  /// The dimensions of the inputs.
  Dimension batch{Dimension::Kind::batch, 0}, sequence{Dimension::Kind::sequence, 0};
  std::string input_ids;  ///< empty until the embeddings are recognised
  std::size_t vocabulary_size = 0;

  /// Inputs that masks depend on which were evaluated before input_ids were known.
  mutable std::set<std::string, std::less<>> masks_before_input_ids;

  /// Masks that depend on input_ids alone, so that each is evaluated once for the whole vocabulary.
  mutable std::vector<std::pair<ExpressionPointer, std::optional<EvaluatedMask>>> masks_of_input_ids;

  /// Constants that were calculated.
  std::shared_ptr<std::deque<std::vector<float>>> owned_data = std::make_shared<std::deque<std::vector<float>>>();
  std::shared_ptr<std::deque<Constant>> owned_constants = std::make_shared<std::deque<Constant>>();

 private:
  const Graph& graph_;
  std::map<std::string, Fact, std::less<>> facts_;
  std::map<std::string, std::string, std::less<>> origins_;
  std::deque<Computed> computed_;
  mutable std::deque<std::pair<ExpressionPointer, std::vector<double>>> values_by_difference_;
};

/// The fact about a node's first output. Each function knows the nodes of one part of an encoder, and returns
/// Unknown{""} for all others. Facts about further outputs are set.
Fact derive_norm(const Node& node, KnownFacts& facts);
Fact derive_product(const Node& node, KnownFacts& facts);
Fact derive_attention(const Node& node, KnownFacts& facts);
Fact derive_attention_node(const Node& node, KnownFacts& facts);
Fact derive_activation(const Node& node, KnownFacts& facts);
Fact derive_pooling(const Node& node, KnownFacts& facts);

/// The result of an elementwise node as what it is: a bias of a projection, a residual sum, a norm with its scale and
/// shift; otherwise the result itself.
Fact settled(const Node& node, SymbolicTensor result, KnownFacts& facts);

/// The sum of two tensors, settled.
std::optional<SymbolicTensor> sum_of(const SymbolicTensor& left, const SymbolicTensor& right, KnownFacts& facts);

/// The norm that an elementwise expression over means is; empty if it is none.
std::optional<SymbolicTensor> norm_of(const SymbolicTensor& tensor, KnownFacts& facts);

/// A norm with its scale or shift; empty if the tensor is no such norm.
std::optional<SymbolicTensor> scaled_norm(const SymbolicTensor& tensor, const Constant& gamma, KnownFacts& facts);
std::optional<SymbolicTensor> shifted_norm(const SymbolicTensor& tensor, const Constant& beta, KnownFacts& facts);

/// Rows that a projection with weights computes from a tensor; empty, with the reason in `why`, if it is none.
std::optional<SymbolicTensor> projected(const SymbolicTensor& rows, const RecognizedLinear& linear, KnownFacts& facts,
                                        std::string& why);

/// Rows that a projection without a bias is, with it; empty if it has one or is none.
std::optional<SymbolicTensor> with_bias(const SymbolicTensor& tensor, const Constant& bias, KnownFacts& facts);

/// Recognizes rows as a linear layer followed by an activation; empty if they are something else.
std::optional<IntermediateInput> intermediate_of(const ExpressionPointer& rows, std::size_t columns,
                                                 const KnownFacts& facts);

/// The activation as an expression of `x`.
ExpressionPointer activation_of(Activation activation, const ExpressionPointer& x);

/// The embeddings that a sum of rows of tables is; empty, with the reason in `why`, if it is none.
std::optional<RecognizedEmbeddings> embeddings_of(const SymbolicTensor& tensor, const KnownFacts& facts,
                                                  std::string& why);

/// The mask over keys that the tensor is, broadcast to `rank` axes; empty if it is none.
std::optional<EvaluatedMask> mask_of(const SymbolicTensor& tensor, std::size_t rank, std::size_t text_axis,
                                     std::size_t key_axis, const KnownFacts& facts);

/// The mask of 0 and 1 over [batch, sequence], equal along other axes; empty if it is none.
std::optional<MaskSource> bits_of(const SymbolicTensor& tensor, const KnownFacts& facts);

/// Vectors of heads, an expression of the indices [text, head, token, column]; empty, with the reason in `why`, if it
/// is something else.
std::optional<HeadVectors> head_vectors_of(const ExpressionPointer& expression, std::size_t num_heads,
                                           std::size_t head_size, const KnownFacts& facts, std::string& why);

/// The attention scores that an expression of the indices [text, head, query, key] is; empty, with the reason in `why`,
/// if it is something else.
std::optional<AttentionScores> scores_of(const ExpressionPointer& expression, const KnownFacts& facts,
                                         std::string& why);

/// The scores plus a mask, a bias or both; an error message for anything else.
std::string add_to_scores(AttentionScores& scores, const ExpressionPointer& term, const KnownFacts& facts);

/// The scores where `condition` is true for keys that are attended, and `otherwise` elsewhere.
std::string replace_scores(AttentionScores& scores, const ExpressionPointer& condition, bool attended_if_true,
                           double otherwise, const KnownFacts& facts);

/// The vectors that an expression of the indices [text, column] is.
struct PooledVectors {
  std::size_t rows = 0;
  Pooling pooling = Pooling::none;
  MaskSource mask;  ///< mask for mean, last-token and SPLADE pooling
  bool normalize = false;
  bool has_second_log = false;           ///< SPLADE pooling with a second logarithm
  const Constant* logit_bias = nullptr;  ///< bias of SPLADE's logits: added after the maximum, which changes nothing
};

std::optional<PooledVectors> pooled_vectors_of(const ExpressionPointer& expression, const KnownFacts& facts);

/// The encoder whose last hidden states are these rows; empty, with the reason in `why`, if there is none. Without its
/// outputs and pooling.
std::optional<RecognizedEncoder> assembled(std::size_t rows, const KnownFacts& facts, std::string& why);

/// The only computed value that an expression refers to, and one of its elements; null if there are several or none.
const Expression* single_computed(const Expression& expression);

[[nodiscard]] std::string named(const Node& node);

/// Value of a FLOAT attribute; `otherwise` if it is missing.
[[nodiscard]] float number(const Node& node, const char* name, float otherwise);

inline Unknown unknown(const Node& node, const std::string& why) {
  return {named(node) + " " + why};
}

}  // namespace gpux_cpu::encoder

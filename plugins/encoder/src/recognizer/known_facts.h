#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "recognizer/facts.h"

namespace gpux_encoder {

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

  /// The fact about a value, or about the value it is an alias of; null if it is not of this kind.
  template <typename Kind>
  [[nodiscard]] const Kind* as(const std::string& value) const {
    const Fact* fact = find(value);
    return fact == nullptr ? nullptr : std::get_if<Kind>(fact);
  }

  [[nodiscard]] const Fact* find(const std::string& value) const;

  /// The value that it is an alias of, or itself.
  [[nodiscard]] const std::string& origin(const std::string& value) const;

  [[nodiscard]] const Constant* constant(const std::string& value) const;

  /// A float32 constant of this rank; null if it is none.
  [[nodiscard]] const Constant* weights(const std::string& value, std::size_t rank) const;

  /// The value of all elements, of a tensor of at most `rank` axes.
  [[nodiscard]] std::optional<double> scalar(const std::string& value, std::size_t rank = 2) const;
  [[nodiscard]] std::optional<Shape> dimensions(const std::string& value) const;

  /// Axes of a node, from its second input or its attribute.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> axes(const Node& node) const;

  /// Empty if it is not known.
  [[nodiscard]] std::optional<Shape> shape(const std::string& value) const;

  void set(const std::string& value, Fact fact) { facts_.insert_or_assign(value, std::move(fact)); }

  void set_alias(const std::string& value, const std::string& other) { origins_[other] = origin(value); }

  [[nodiscard]] const std::map<std::string, Fact, std::less<>>& all() const noexcept { return facts_; }

  /// The dimensions of the inputs.
  Dimension batch{Dimension::Kind::batch, 0}, sequence{Dimension::Kind::sequence, 0};
  std::size_t hidden_size = 0;  ///< 0 until the embeddings are recognised, as are the next two
  std::string input_ids;
  std::size_t vocabulary_size = 0;

  /// Inputs that masks depend on which were evaluated before input_ids were known.
  mutable std::set<std::string, std::less<>> masks_before_input_ids;

  /// Masks that depend on input_ids alone, so that each is evaluated once for the whole vocabulary.
  mutable std::vector<std::pair<ExpressionPointer, std::optional<EvaluatedMask>>> masks_of_input_ids;

 private:
  const Graph& graph_;
  std::map<std::string, Fact, std::less<>> facts_;
  std::map<std::string, std::string, std::less<>> origins_;
};

/// The fact about a node's first output. Each function knows the nodes of one part of an encoder, and returns
/// Unknown{""} for all others.
Fact derive_layer_norm(const Node& node, KnownFacts& facts, RecognizedEncoder& found);
Fact derive_projection(const Node& node, const KnownFacts& facts);
Fact derive_layout(const Node& node, const KnownFacts& facts);
Fact derive_attention(const Node& node, const KnownFacts& facts);
Fact derive_attention_node(const Node& node, const KnownFacts& facts);
Fact derive_pooling(const Node& node, const KnownFacts& facts);

/// The embeddings that a sum of rows of tables is; empty, with the reason in `why`, if it is none.
std::optional<RecognizedEmbeddings> embeddings_of(const SymbolicTensor& tensor, const KnownFacts& facts,
                                                  std::string& why);

/// The mask over keys that the tensor is, broadcast to `rank` axes; empty if it is none.
std::optional<EvaluatedMask> mask_of(const SymbolicTensor& tensor, std::size_t rank, std::size_t text_axis,
                                     std::size_t key_axis, const KnownFacts& facts);

/// The facts about all outputs of a Split of projections or heads; empty for other nodes.
std::vector<Fact> derive_split(const Node& node, const KnownFacts& facts);

/// Some columns of a projection.
Projection columns_of(const Projection& projection, std::size_t first, std::size_t count);

/// The projection with a bias added; empty if it has one, or the bias has another size.
std::optional<Projection> with_bias(const Projection& projection, const Constant& bias);
std::optional<Projection> projection_of(const KnownFacts& facts, const std::string& rows,
                                        const RecognizedLinear& linear);

/// The activation as an expression of `x`.
ExpressionPointer gelu_of(Activation activation, const ExpressionPointer& x);

[[nodiscard]] std::string named(const Node& node);

inline Unknown unknown(const Node& node, const std::string& why) {
  return {named(node) + " " + why};
}

}  // namespace gpux_encoder

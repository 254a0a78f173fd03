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

/// What is added to scores, or said of them, as a mask over keys: its source, and what comes of tokens that count and
/// of others.
struct ReadMask {
  MaskSource source;  ///< its input is empty where it depends on nothing
  double counted = 0, hidden = 0;
};

/// What is known of a graph so far, while its nodes are read one after the other.
class Reading {
 public:
  explicit Reading(const Graph& graph);

  [[nodiscard]] const Graph& graph() const noexcept { return graph_; }

  /// What a value is, through nodes that only hand it on; null where that is not this kind.
  template <typename Kind>
  [[nodiscard]] const Kind* as(const std::string& value) const {
    const Meaning* meaning = find(value);
    return meaning == nullptr ? nullptr : std::get_if<Kind>(meaning);
  }

  [[nodiscard]] const Meaning* find(const std::string& value) const;

  /// The value that it is another name for, or itself.
  [[nodiscard]] const std::string& origin(const std::string& value) const;

  [[nodiscard]] const Constant* constant(const std::string& value) const;

  /// Of float32 and with as many axes; null where it is not.
  [[nodiscard]] const Constant* weights(const std::string& value, std::size_t rank) const;

  /// A number for all places of what has `rank` axes.
  [[nodiscard]] std::optional<double> scalar(const std::string& value, std::size_t rank = 2) const;
  [[nodiscard]] std::optional<Shape> sizes(const std::string& value) const;

  /// Axes of a node, from its second input or its attribute.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> axes(const Node& node) const;

  /// The shape of what is known; empty where it is not.
  [[nodiscard]] std::optional<Shape> shape(const std::string& value) const;

  void is(const std::string& value, Meaning meaning) { meanings_.insert_or_assign(value, std::move(meaning)); }

  void is_called(const std::string& value, const std::string& other) { origins_[other] = origin(value); }

  [[nodiscard]] const std::map<std::string, Meaning, std::less<>>& meanings() const noexcept { return meanings_; }

  /// Sizes of the batch, as the inputs have them.
  Size texts{Size::Kind::batch, 0}, tokens{Size::Kind::sequence, 0};
  std::size_t width = 0;  ///< of the encoder, once it is known, as are the next two
  std::string ids;
  std::size_t vocabulary = 0;

  /// Inputs that masks were made of before the ids were known.
  mutable std::set<std::string, std::less<>> masks_before_ids;

  /// What masks that depend on the ids alone come to, so that each is calculated for all ids once.
  mutable std::vector<std::pair<ExpressionPointer, std::optional<ReadMask>>> masks_of_ids;

 private:
  const Graph& graph_;
  std::map<std::string, Meaning, std::less<>> meanings_;
  std::map<std::string, std::string, std::less<>> origins_;
};

/// What a node's first output is: each reads the nodes of one idea. Unknown{""} where the node is none of them.
Meaning read_norm(const Node& node, Reading& reading, Found& found);
Meaning read_rows(const Node& node, const Reading& reading);
Meaning read_layout(const Node& node, const Reading& reading);
Meaning read_attention(const Node& node, const Reading& reading);
Meaning read_attention_node(const Node& node, const Reading& reading);
Meaning read_pooling(const Node& node, const Reading& reading);

/// A sum of rows of tables as embeddings; `why` says what it is not.
std::optional<FoundEmbeddings> embeddings_of(const Field& field, const Reading& reading, std::string& why);

/// `key_axis`: of the field seen from `rank` axes; `text_axis` is where the texts are.
std::optional<ReadMask> mask_of(const Field& field, std::size_t rank, std::size_t text_axis, std::size_t key_axis,
                                const Reading& reading);

/// A node that cuts rows or heads into parts: what each output is; empty where that is not what the node does.
std::vector<Meaning> read_split(const Node& node, const Reading& reading);

/// Some columns of a product.
Product columns_of(const Product& product, std::size_t first, std::size_t count);

/// The product with a bias that is added to it; empty where it has one or that has another width.
std::optional<Product> with_bias(const Product& product, const Constant& bias);
std::optional<Product> product_of(const Reading& reading, const std::string& rows, const FoundLinear& linear);

/// A quotient, a clipping and the like, element by element; `x` is input "".
ExpressionPointer gelu_of(Activation activation, const ExpressionPointer& x);

[[nodiscard]] std::string named(const Node& node);

inline Unknown unknown(const Node& node, const std::string& why) {
  return {named(node) + " " + why};
}

}  // namespace gpux_encoder

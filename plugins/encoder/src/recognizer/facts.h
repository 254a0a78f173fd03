#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "recognizer/recognizer.h"
#include "recognizer/symbolic_tensor.h"

/// What the values of a graph are. `order` tells the axes of a value, a letter each: b texts, s tokens (of queries), k
/// tokens (of keys), r the tokens of all texts, h heads, d the width of a head, p query, key and value beside each
/// other, w the whole width, x texts and heads together, 1 an axis of one place.
namespace gpux_encoder {

/// Nothing that is known: `why` is a sentence without its end that names the node at which knowledge ended.
struct Unknown {
  std::string why;
};

/// What comes out of a norm: rows. 0: of the embeddings; 1 + 2i, 2 + 2i: of layer i.
struct Hidden {
  std::size_t index = 0;
  std::string order = "bsw";
};

struct Context;

/// Rows that were multiplied.
struct Product {
  enum class Of : std::uint8_t { hidden, context, wide } of = Of::hidden;
  std::size_t hidden = 0;  ///< that it began with
  FoundLinear linear;
  FoundLinear widened;  ///< before it, of what was wide
  Activation activation = Activation::gelu;
  std::shared_ptr<const Context> context;  ///< that was multiplied
  std::string order = "bsw";
};

/// A product, element by element through a function of input "".
struct Elementwise {
  std::string of;  ///< the product's name
  Product product;
  ExpressionPointer function;
};

/// A product as heads.
struct Heads {
  Product product;
  std::size_t heads = 0, parts = 1;
  std::string order;
  double scale = 1;
};

struct Scores {
  Product query, key;
  std::size_t heads = 0;
  double scale = 1;
  std::optional<FoundMask> mask;
  std::optional<Field> relative;
  enum class Stage : std::uint8_t { raw, shares } stage = Stage::raw;
  std::string order = "bhsk";
};

/// Whether each share is not a number: it is so where no key counts.
struct SharesAreNaN {
  std::string of;
};

struct Context {
  Scores scores;
  Product value;
  std::string order;
};

/// A product added to what it began with.
struct Sum {
  Product product;
  std::size_t residual = 0;
  std::string order;
};

/// On the way through a norm that is written out.
struct NormStep {
  enum class Stage : std::uint8_t { mean, centered, squared, variance, guarded, deviation, inverse, normal, scaled };
  Stage stage = Stage::mean;
  std::string of;  ///< the name of what is normalised
  double epsilon = 0;
  std::string gamma;
};

/// Hidden states of which those that the mask leaves out are 0.
struct Masked {
  std::size_t hidden = 0;
  MaskSource mask;
};

struct Pooled {
  enum class State : std::uint8_t { summed, vector, squares, length, normalized } state = State::summed;
  std::string order = "bw";  ///< 1: an axis of size 1
  Pooling pooling = Pooling::mean;
  std::size_t hidden = 0;  ///< whose rows they are
  MaskSource mask;         ///< of a mean
};

/// How many tokens of each text the mask lets count.
struct TokenCount {
  MaskSource mask;
  std::string order;        ///< "b", "b1", "bw", …
  bool is_guarded = false;  ///< never 0
  std::int64_t width = 1;   ///< of w
};

using Meaning = std::variant<Unknown, Field, Hidden, Product, Elementwise, Heads, Scores, SharesAreNaN, Context, Sum,
                             NormStep, Masked, Pooled, TokenCount>;

}  // namespace gpux_encoder

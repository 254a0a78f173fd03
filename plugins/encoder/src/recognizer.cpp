#include "recognizer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <variant>

namespace gpux_encoder {
namespace {

/// A size that is known, or one of the two that are not.
struct Size {
  enum class Kind : std::uint8_t { number, batch, sequence } kind = Kind::number;
  std::int64_t number = 0;
};

struct Unknown {};

struct Input {
  std::string name;
};

/// Whole numbers: a list of sizes, or one of them.
struct Sizes {
  std::vector<Size> sizes;
};

/// factor * mask + offset, the mask being 0 or 1. `axes` are those of [batch, 1, 1, sequence] that are there: "bs",
/// "b1s", "b11s", "bs1".
struct Mask {
  double factor = 1, offset = 0;
  std::string axes = "bs";
};

/// On the way to RoBERTa's positions: how many tokens there are up to each, that are not padding, plus `offset`; for
/// padding `offset` alone.
struct Counting {
  enum class Stage : std::uint8_t { is_padding, is_token, counted, position } stage = Stage::is_padding;
  std::string ids;
  std::int64_t padding = 0, offset = 0;
};

/// MPNet's numbers for each head and pair of places, [1, heads, sequence, sequence] of a larger table.
struct Relative {
  const Constant* table = nullptr;
  bool masked = false;  ///< together with a mask that hides
};

/// A sum of rows of tables, [batch, sequence, width].
struct Embedding {
  std::string ids, types;
  const Constant *words = nullptr, *positions = nullptr, *type_table = nullptr;
  std::int64_t first_position = 0;
  std::string counted_ids;              ///< that the padding is looked for in
  std::optional<std::int64_t> padding;  ///< positions count the tokens that are not this one
};

/// What comes out of a norm: rows [batch, sequence, width]. 0: of the embeddings; 1 + 2i, 2 + 2i: of layer i.
struct Hidden {
  std::size_t index = 0;
};

struct Context;

/// Rows that were multiplied.
struct Product {
  enum class Of : std::uint8_t { hidden, context, wide } of = Of::hidden;
  std::size_t hidden = 0;  ///< that it began with
  FoundLinear linear;
  FoundLinear widened;                     ///< before it, of what was wide
  std::shared_ptr<const Context> context;  ///< that was multiplied
};

struct Gelu {
  Product product;
};

/// A product as heads; `order` tells the axes, of batch, sequence, head and width: "bshw".
struct Heads {
  Product product;
  std::size_t heads = 0;
  std::string order;
  double scale = 1;
};

struct Scores {
  Product query, key;
  std::size_t heads = 0;
  double scale = 1;
  bool masked = false;
  bool is_softmax = false;
  const Constant* relative = nullptr;
};

struct Context {
  Scores scores;
  Product value;
  std::string order;  ///< "bhsw", "bshw", "bs*"
};

/// A product added to what it began with.
struct Sum {
  Product product;
  std::size_t residual = 0;
};

struct Pooled {
  enum class State : std::uint8_t { summed, mean, cls, length, normalized } state = State::summed;
  std::string axes = "b1w";
  Pooling pooling = Pooling::mean;
  std::size_t hidden = 0;  ///< whose rows they are
};

struct Count {};  ///< of the tokens that the mask lets count, or at least a little

using Meaning = std::variant<Unknown, Input, Sizes, Mask, Counting, Relative, Embedding, Hidden, Product, Gelu, Heads,
                             Scores, Context, Sum, Pooled, Count>;

double number_of(const Constant& constant, std::size_t index) {
  switch (constant.element) {
    case Element::float32:
      return static_cast<const float*>(constant.data)[index];
    case Element::int64:
      return static_cast<double>(static_cast<const std::int64_t*>(constant.data)[index]);
    case Element::int32:
      return static_cast<const std::int32_t*>(constant.data)[index];
    case Element::other:
      break;
  }
  return std::nan("");
}

class Recognizer {
 public:
  Recognizer(const Graph& graph, std::string& reason) : graph_(graph), reason_(reason) {}

  std::optional<Found> run() {
    for (const std::string& input : graph_.inputs) meanings_[input] = Input{input};
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      for (const std::string& output : node.outputs) maker_[output] = i;
      if (node.outputs.empty()) continue;
      Meaning meaning = meaning_of(node);
      if (std::holds_alternative<Unknown>(meaning) && first_unknown_.empty() && touches_rows(node)) {
        first_unknown_ = node.type + (node.name.empty() ? "" : " '" + node.name + "'");
      }
      meanings_[node.outputs.front()] = std::move(meaning);
    }
    return conclude();
  }

 private:
  template <typename Kind>
  const Kind* as(const std::string& value) const {
    const auto found = meanings_.find(value);
    return found == meanings_.end() ? nullptr : std::get_if<Kind>(&found->second);
  }

  const Constant* constant(const std::string& value) const {
    const auto found = graph_.constants.find(value);
    return found == graph_.constants.end() ? nullptr : &found->second;
  }

  std::optional<double> scalar(const std::string& value) const {
    const Constant* found = constant(value);
    if (found == nullptr || found->count() != 1) return std::nullopt;
    return number_of(*found, 0);
  }

  // Whole numbers, of a constant or of what was calculated with shapes.
  std::optional<std::vector<Size>> sizes(const std::string& value) const {
    if (const auto* known = as<Sizes>(value)) return known->sizes;
    const Constant* found = constant(value);
    if (found == nullptr || found->element == Element::float32 || found->element == Element::other ||
        found->shape.size() > 1) {
      return std::nullopt;
    }
    std::vector<Size> list;
    for (std::size_t i = 0; i < found->count(); ++i) {
      list.push_back({Size::Kind::number, static_cast<std::int64_t>(number_of(*found, i))});
    }
    return list;
  }

  // Axes of a node, from its second input or its attribute.
  std::optional<std::vector<std::int64_t>> axes(const Node& node) const {
    if (node.inputs.size() > 1 && !node.inputs[1].empty()) {
      const auto list = sizes(node.inputs[1]);
      if (!list) return std::nullopt;
      std::vector<std::int64_t> numbers;
      for (const Size& size : *list) {
        if (size.kind != Size::Kind::number) return std::nullopt;
        numbers.push_back(size.number);
      }
      return numbers;
    }
    const auto attribute = node.attributes.find("axes");
    if (attribute == node.attributes.end()) return std::nullopt;
    return attribute->second.integers;
  }

  static std::int64_t integer(const Node& node, const char* name, std::int64_t otherwise) {
    const auto found = node.attributes.find(name);
    return found == node.attributes.end() || found->second.integers.empty() ? otherwise
                                                                            : found->second.integers.front();
  }

  bool touches_rows(const Node& node) const {
    return std::ranges::any_of(node.inputs, [&](const std::string& input) {
      const auto found = meanings_.find(input);
      return found != meanings_.end() && found->second.index() >= Meaning(Embedding{}).index();
    });
  }

  Meaning meaning_of(const Node& node) {
    if (!node.domain.empty() && node.domain != "ai.onnx") return Unknown{};
    const std::string& type = node.type;
    if (type == "Gather") return gather(node);
    if (type == "Shape") return shape(node);
    if (type == "Slice") return slice(node);
    if (type == "Concat") return concat(node);
    if (type == "Add") return add(node);
    if (type == "Sub" || type == "Mul" || type == "Div") return scaled(node);
    if (type == "Cast") return cast(node);
    if (type == "Equal") return equal(node);
    if (type == "Not") return negate(node);
    if (type == "CumSum") return count_up(node);
    if (type == "Unsqueeze") return unsqueeze(node);
    if (type == "Squeeze") return squeeze(node);
    if (type == "LayerNormalization") return norm(node);
    if (type == "MatMul") return matmul(node);
    if (type == "Reshape") return reshape(node);
    if (type == "Transpose") return transpose(node);
    if (type == "Softmax") return softmax(node);
    if (type == "Gelu") return gelu(node);
    if (type == "ReduceSum") return reduce_sum(node);
    if (type == "ReduceL2") return reduce_length(node);
    if (type == "Max") return at_least(node);
    return Unknown{};
  }

  Meaning gather(const Node& node) const {
    const Constant* table = constant(node.inputs[0]);
    if (table != nullptr && table->element == Element::float32 && table->shape.size() == 2 &&
        integer(node, "axis", 0) == 0) {
      if (const auto* input = as<Input>(node.inputs[1])) {
        // Which of them are words is seen when both are there: types have few rows.
        Embedding embedding;
        (table->shape[0] > 16 ? embedding.ids : embedding.types) = input->name;
        (table->shape[0] > 16 ? embedding.words : embedding.type_table) = table;
        return embedding;
      }
      if (const auto* counting = as<Counting>(node.inputs[1]);
          counting != nullptr && counting->stage == Counting::Stage::position) {
        Embedding embedding;
        embedding.positions = table;
        embedding.first_position = counting->offset;
        embedding.padding = counting->padding;
        embedding.counted_ids = counting->ids;
        return embedding;
      }
    }
    if (const auto* hidden = as<Hidden>(node.inputs[0]); hidden != nullptr && integer(node, "axis", 0) == 1) {
      if (scalar(node.inputs[1]) == 0.0) return Pooled{Pooled::State::cls, "bw", Pooling::cls, hidden->index};
    }
    return Unknown{};
  }

  Meaning shape(const Node& node) const {
    if (as<Input>(node.inputs[0]) == nullptr) return Unknown{};
    const std::vector<Size> both{{Size::Kind::batch, 0}, {Size::Kind::sequence, 0}};
    const std::int64_t start = integer(node, "start", 0), end = std::min<std::int64_t>(integer(node, "end", 2), 2);
    if (start < 0 || end < start) return Unknown{};
    return Sizes{{both.begin() + start, both.begin() + end}};
  }

  Meaning concat(const Node& node) const {
    Sizes all;
    for (const std::string& input : node.inputs) {
      const auto list = sizes(input);
      if (!list) return Unknown{};
      all.sizes.insert(all.sizes.end(), list->begin(), list->end());
    }
    return all;
  }

  // hidden[:, 0:1]
  Meaning first_token(const Node& node, const Hidden& hidden) const {
    const bool is_plain = node.inputs.size() == 4 || (node.inputs.size() == 5 && scalar(node.inputs[4]) == 1.0);
    if (!is_plain || scalar(node.inputs[1]) != 0.0 || scalar(node.inputs[2]) != 1.0 || scalar(node.inputs[3]) != 1.0) {
      return Unknown{};
    }
    return Pooled{Pooled::State::cls, "b1w", Pooling::cls, hidden.index};
  }

  // The front of a table: as many positions as there are tokens, along one axis or two.
  Meaning slice(const Node& node) const {
    if (const auto* hidden = as<Hidden>(node.inputs[0])) return first_token(node, *hidden);
    const Constant* table = constant(node.inputs[0]);
    if (table == nullptr || table->element != Element::float32 || node.inputs.size() != 4) return Unknown{};
    const auto starts = sizes(node.inputs[1]), ends = sizes(node.inputs[2]), along = sizes(node.inputs[3]);
    if (!starts || !ends || !along || starts->size() != along->size() || ends->size() != along->size()) {
      return Unknown{};
    }
    const auto are = [](const std::vector<Size>& list, std::vector<std::int64_t> numbers) {
      return std::ranges::equal(list, numbers, [](const Size& size, std::int64_t number) {
        return size.kind == Size::Kind::number && size.number == number;
      });
    };
    const bool is_front =
        are(*starts, std::vector<std::int64_t>(starts->size(), 0)) &&
        std::ranges::all_of(*ends, [](const Size& size) { return size.kind == Size::Kind::sequence; });
    if (is_front && table->shape.size() == 2 && are(*along, {0})) {
      Embedding embedding;
      embedding.positions = table;
      return embedding;
    }
    if (is_front && table->shape.size() == 4 && table->shape[0] == 1 && are(*along, {2, 3})) return Relative{table};
    return Unknown{};
  }

  static std::optional<Embedding> joined(const Embedding& a, const Embedding& b) {
    if ((a.words && b.words) || (a.positions && b.positions) || (a.type_table && b.type_table)) return std::nullopt;
    Embedding both = a;
    if (b.words != nullptr) both.words = b.words, both.ids = b.ids;
    if (b.positions != nullptr) {
      both.positions = b.positions;
      both.first_position = b.first_position;
      both.padding = b.padding;
      both.counted_ids = b.counted_ids;
    }
    if (b.type_table != nullptr) both.type_table = b.type_table, both.types = b.types;
    return both;
  }

  // Nothing for tokens that count, and for the others so little that nothing is left of them.
  static bool hides(const Mask& mask) {
    return mask.axes == "b11s" && mask.factor + mask.offset == 0 && mask.offset < -9999;
  }

  Meaning add(const Node& node) {
    for (const auto& [first, second] : {std::pair{0, 1}, {1, 0}}) {
      const std::string &left = node.inputs[static_cast<std::size_t>(first)],
                        &right = node.inputs[static_cast<std::size_t>(second)];
      if (const auto* a = as<Embedding>(left)) {
        const auto* b = as<Embedding>(right);
        const auto both = b == nullptr ? std::nullopt : joined(*a, *b);
        if (both) return *both;
        // One type of token, the same for all.
        const Constant* row = constant(right);
        const bool is_row =
            row != nullptr && row->element == Element::float32 && row->shape.size() == 2 && row->shape[0] == 1;
        if (is_row && a->type_table == nullptr) {
          Embedding with = *a;
          with.type_table = row;
          return with;
        }
      }
      if (const auto* relative = as<Relative>(left); relative != nullptr && !relative->masked) {
        const auto* mask = as<Mask>(right);
        if (mask != nullptr && hides(*mask)) return Relative{relative->table, true};
      }
      if (const auto* counting = as<Counting>(left);
          counting != nullptr && counting->stage == Counting::Stage::position) {
        if (const auto number = scalar(right); number && counting->offset == 0 && *number >= 0) {
          Counting with = *counting;
          with.offset = static_cast<std::int64_t>(*number);
          return with;
        }
      }
      if (const auto* product = as<Product>(left)) {
        if (const Constant* bias = constant(right)) {
          if (product->linear.bias != nullptr || bias->element != Element::float32 || bias->shape.size() != 1) {
            return Unknown{};
          }
          Product with = *product;
          with.linear.bias = bias;
          return with;
        }
        if (const auto* residual = as<Hidden>(right)) return Sum{*product, residual->index};
      }
      if (const auto* scores = as<Scores>(left)) {
        const auto* mask = as<Mask>(right);
        const auto* relative = as<Relative>(right);
        if (scores->masked || scores->is_softmax) return Unknown{};
        Scores with = *scores;
        with.masked = true;
        if (mask != nullptr && hides(*mask)) return with;
        if (relative != nullptr && relative->masked) {
          with.relative = relative->table;
          return with;
        }
      }
      if (const auto* mask = as<Mask>(left)) {
        if (const auto number = scalar(right)) return Mask{mask->factor, mask->offset + *number, mask->axes};
      }
    }
    return Unknown{};
  }

  Meaning scaled(const Node& node) const {
    const std::string &left = node.inputs[0], &right = node.inputs[1];
    if (node.type == "Sub") {
      const auto* mask = as<Mask>(right);
      const auto number = scalar(left);
      if (mask != nullptr && number) return Mask{-mask->factor, *number - mask->offset, mask->axes};
      return Unknown{};
    }
    if (node.type == "Div") {
      if (const auto* pooled = as<Pooled>(left)) {
        if (pooled->state == Pooled::State::summed && pooled->axes == "bw" && as<Count>(right) != nullptr) {
          return Pooled{Pooled::State::mean, "bw", Pooling::mean, pooled->hidden};
        }
        const auto* length = as<Pooled>(right);
        const bool is_vector = pooled->state == Pooled::State::mean || pooled->state == Pooled::State::cls;
        if (is_vector && length != nullptr && length->state == Pooled::State::length &&
            length->pooling == pooled->pooling && length->hidden == pooled->hidden) {
          return Pooled{Pooled::State::normalized, "bw", pooled->pooling, pooled->hidden};
        }
        return Unknown{};
      }
    }
    if (const auto *a = as<Counting>(left), *b = as<Counting>(right);
        node.type == "Mul" && a != nullptr && b != nullptr) {
      const bool either_way = (a->stage == Counting::Stage::counted && b->stage == Counting::Stage::is_token) ||
                              (a->stage == Counting::Stage::is_token && b->stage == Counting::Stage::counted);
      if (!either_way || a->ids != b->ids || a->padding != b->padding) return Unknown{};
      return Counting{Counting::Stage::position, a->ids, a->padding, 0};
    }
    for (const auto& [value, other] : {std::pair{&left, &right}, {&right, &left}}) {
      if (node.type == "Div" && value == &right) break;
      const auto number = scalar(*other);
      if (!number || *number == 0) continue;
      const double factor = node.type == "Div" ? 1 / *number : *number;
      if (const auto* mask = as<Mask>(*value)) return Mask{mask->factor * factor, mask->offset * factor, mask->axes};
      if (const auto* heads = as<Heads>(*value)) {
        Heads with = *heads;
        with.scale *= factor;
        return with;
      }
      if (const auto* scores = as<Scores>(*value); scores != nullptr && !scores->masked && !scores->is_softmax) {
        Scores with = *scores;
        with.scale *= factor;
        return with;
      }
    }
    return Unknown{};
  }

  Meaning equal(const Node& node) const {
    for (const auto& [value, other] : {std::pair{0, 1}, {1, 0}}) {
      const auto* input = as<Input>(node.inputs[static_cast<std::size_t>(value)]);
      const auto number = scalar(node.inputs[static_cast<std::size_t>(other)]);
      if (input != nullptr && number) {
        return Counting{Counting::Stage::is_padding, input->name, static_cast<std::int64_t>(*number), 0};
      }
    }
    return Unknown{};
  }

  Meaning negate(const Node& node) const {
    const auto* counting = as<Counting>(node.inputs[0]);
    if (counting == nullptr || counting->stage != Counting::Stage::is_padding) return Unknown{};
    return Counting{Counting::Stage::is_token, counting->ids, counting->padding, 0};
  }

  Meaning count_up(const Node& node) const {
    const auto* counting = as<Counting>(node.inputs[0]);
    const bool is_plain = integer(node, "exclusive", 0) == 0 && integer(node, "reverse", 0) == 0;
    const double along = node.inputs.size() == 2 ? scalar(node.inputs[1]).value_or(0) : 0;
    if (counting == nullptr || counting->stage != Counting::Stage::is_token || !is_plain ||
        (along != 1 && along != -1)) {
      return Unknown{};
    }
    return Counting{Counting::Stage::counted, counting->ids, counting->padding, 0};
  }

  Meaning cast(const Node& node) const {
    constexpr std::int64_t float32 = 1, int64 = 7;
    if (const auto* counting = as<Counting>(node.inputs[0])) {
      const bool is_number = counting->stage == Counting::Stage::is_token && integer(node, "to", 0) == int64;
      return is_number ? Meaning(*counting) : Meaning(Unknown{});
    }
    if (const auto* input = as<Input>(node.inputs[0])) {
      if (integer(node, "to", 0) != float32) return Unknown{};
      if (!mask_.empty() && mask_ != input->name) return Unknown{};
      mask_ = input->name;
      return Mask{};
    }
    return Unknown{};
  }

  Meaning unsqueeze(const Node& node) const {
    const auto at = axes(node);
    const auto* mask = as<Mask>(node.inputs[0]);
    if (mask == nullptr || !at || mask->axes != "bs") return Unknown{};
    Mask with = *mask;
    if (*at == std::vector<std::int64_t>{1, 2}) with.axes = "b11s";
    if (*at == std::vector<std::int64_t>{1}) with.axes = "b1s";
    if (*at == std::vector<std::int64_t>{2} || *at == std::vector<std::int64_t>{-1}) with.axes = "bs1";
    return with.axes == "bs" ? Meaning(Unknown{}) : Meaning(with);
  }

  Meaning squeeze(const Node& node) const {
    const auto at = axes(node);
    const auto* pooled = as<Pooled>(node.inputs[0]);
    if (pooled == nullptr || pooled->axes != "b1w" || !at || *at != std::vector<std::int64_t>{1}) return Unknown{};
    Pooled with = *pooled;
    with.axes = "bw";
    return with;
  }

  static FoundNorm norm_of(const Constant& gamma, const Constant& beta, const Node& node) {
    const auto epsilon = node.attributes.find("epsilon");
    return {&gamma, &beta, epsilon == node.attributes.end() ? 1e-5F : epsilon->second.number};
  }

  Meaning norm(const Node& node) {
    if (node.inputs.size() != 3 || (integer(node, "axis", -1) != -1 && integer(node, "axis", -1) != 2))
      return Unknown{};
    const Constant *gamma = constant(node.inputs[1]), *beta = constant(node.inputs[2]);
    if (gamma == nullptr || beta == nullptr) return Unknown{};
    if (const auto* embedding = as<Embedding>(node.inputs[0])) {
      if (embedding->words == nullptr || embedding->positions == nullptr || found_.words != nullptr) return Unknown{};
      if (embedding->padding && embedding->counted_ids != embedding->ids) return Unknown{};
      found_.padding = embedding->padding;
      found_.ids = embedding->ids;
      found_.types = embedding->types;
      found_.words = embedding->words;
      found_.positions = embedding->positions;
      found_.type_table = embedding->type_table;
      found_.first_position = embedding->first_position;
      found_.embedding_norm = norm_of(*gamma, *beta, node);
      return Hidden{0};
    }
    const auto* sum = as<Sum>(node.inputs[0]);
    if (sum == nullptr || sum->product.hidden != sum->residual) return Unknown{};
    const std::size_t layer = sum->residual / 2;
    const bool is_attention = sum->residual % 2 == 0;
    if (is_attention) {
      if (sum->product.of != Product::Of::context) return Unknown{};
      const Scores& scores = sum->product.context->scores;
      if (found_.layers.size() != layer || !scores.masked) return Unknown{};
      if (found_.heads != 0 && found_.heads != scores.heads) return Unknown{};
      if (layer != 0 && found_.relative != scores.relative) return Unknown{};
      found_.heads = scores.heads;
      found_.relative = scores.relative;
      found_.layers.push_back({.query = scores.query.linear,
                               .key = scores.key.linear,
                               .value = sum->product.context->value.linear,
                               .attention_out = sum->product.linear,
                               .widen = {},
                               .narrow = {},
                               .attention_norm = norm_of(*gamma, *beta, node),
                               .output_norm = {},
                               .score_scale = static_cast<float>(scores.scale)});
      return Hidden{sum->residual + 1};
    }
    if (sum->product.of != Product::Of::wide || found_.layers.size() != layer + 1) return Unknown{};
    FoundLayer& current = found_.layers.back();
    if (current.narrow.weights != nullptr) return Unknown{};
    current.widen = sum->product.widened;
    current.narrow = sum->product.linear;
    current.output_norm = norm_of(*gamma, *beta, node);
    return Hidden{sum->residual + 1};
  }

  Meaning matmul(const Node& node) {
    const std::string &left = node.inputs[0], &right = node.inputs[1];
    if (const Constant* weights = constant(right)) {
      if (weights->element != Element::float32 || weights->shape.size() != 2) return Unknown{};
      const FoundLinear linear{weights, false, nullptr};
      if (const auto* hidden = as<Hidden>(left))
        return Product{Product::Of::hidden, hidden->index, linear, {}, nullptr};
      if (const auto* context = as<Context>(left); context != nullptr && context->order == "bs*") {
        return Product{
            Product::Of::context, context->scores.query.hidden, linear, {}, std::make_shared<const Context>(*context)};
      }
      if (const auto* wide = as<Gelu>(left)) {
        return Product{Product::Of::wide, wide->product.hidden, linear, wide->product.linear, nullptr};
      }
      return Unknown{};
    }
    if (const auto* query = as<Heads>(left)) {
      const auto* key = as<Heads>(right);
      if (key == nullptr || query->order != "bhsw" || key->order != "bhws" || query->heads != key->heads ||
          query->product.hidden != key->product.hidden) {
        return Unknown{};
      }
      return Scores{query->product, key->product, query->heads, query->scale * key->scale, false, false};
    }
    if (const auto* scores = as<Scores>(left); scores != nullptr && scores->is_softmax) {
      const auto* value = as<Heads>(right);
      if (value == nullptr || value->order != "bhsw" || value->heads != scores->heads || value->scale != 1 ||
          value->product.hidden != scores->query.hidden) {
        return Unknown{};
      }
      return Context{*scores, value->product, "bhsw"};
    }
    if (const auto* mask = as<Mask>(left)) {
      const bool sums = mask->axes == "b1s" && mask->factor == 1 && mask->offset == 0;
      const auto* hidden = as<Hidden>(right);
      if (sums && hidden != nullptr) return Pooled{Pooled::State::summed, "b1w", Pooling::mean, hidden->index};
    }
    return Unknown{};
  }

  Meaning reshape(const Node& node) const {
    const auto target = sizes(node.inputs[1]);
    if (!target) return Unknown{};
    const auto is = [&](std::size_t index, Size::Kind kind, std::int64_t copied) {
      const Size& size = (*target)[index];
      return size.kind == kind || (size.kind == Size::Kind::number && size.number == copied);
    };
    const auto number = [&](std::size_t index) {
      return (*target)[index].kind == Size::Kind::number ? (*target)[index].number : 0;
    };
    if (const auto* product = as<Product>(node.inputs[0]); product != nullptr && target->size() == 4) {
      const std::int64_t columns = product->linear.weights->shape[1];
      // 0 is the size that was there; -1 what is left.
      if (product->of != Product::Of::hidden || !is(0, Size::Kind::batch, 0) || !is(1, Size::Kind::sequence, 0)) {
        return Unknown{};
      }
      const std::int64_t heads = number(2) > 0 ? number(2) : number(3) > 0 ? columns / number(3) : 0;
      if (heads <= 0 || columns % heads != 0 || (number(3) > 0 && heads * number(3) != columns)) return Unknown{};
      return Heads{*product, static_cast<std::size_t>(heads), "bshw", 1};
    }
    if (const auto* context = as<Context>(node.inputs[0]); context != nullptr && target->size() == 3) {
      const std::int64_t columns = context->value.linear.weights->shape[1];
      if (context->order != "bshw" || !is(0, Size::Kind::batch, 0) || !is(1, Size::Kind::sequence, 0)) return Unknown{};
      if ((*target)[2].kind != Size::Kind::number || (number(2) != -1 && number(2) != columns)) return Unknown{};
      Context with = *context;
      with.order = "bs*";
      return with;
    }
    return Unknown{};
  }

  Meaning transpose(const Node& node) const {
    const auto given = node.attributes.find("perm");
    if (given == node.attributes.end() || given->second.integers.size() != 4) return Unknown{};
    const auto turned = [&](const std::string& order) {
      std::string out;
      for (const std::int64_t axis : given->second.integers) {
        if (axis >= 0 && axis < 4) out += order[static_cast<std::size_t>(axis)];
      }
      return out;
    };
    if (const auto* heads = as<Heads>(node.inputs[0])) {
      Heads with = *heads;
      with.order = turned(with.order);
      return with;
    }
    if (const auto* context = as<Context>(node.inputs[0]); context != nullptr && context->order.size() == 4) {
      Context with = *context;
      with.order = turned(with.order);
      return with;
    }
    return Unknown{};
  }

  Meaning softmax(const Node& node) const {
    const auto* scores = as<Scores>(node.inputs[0]);
    // Before version 13 it was over all axes from the second on where nothing else was said.
    const std::int64_t axis = integer(node, "axis", node.version < 13 ? 1 : -1);
    if (scores == nullptr || scores->is_softmax || (axis != -1 && axis != 3)) return Unknown{};
    Scores with = *scores;
    with.is_softmax = true;
    return with;
  }

  Meaning gelu(const Node& node) const {
    const auto* product = as<Product>(node.inputs[0]);
    const auto approximate = node.attributes.find("approximate");
    if (product == nullptr || product->of != Product::Of::hidden) return Unknown{};
    if (approximate != node.attributes.end() && approximate->second.text == "tanh") return Unknown{};
    return Gelu{*product};
  }

  Meaning reduce_sum(const Node& node) const {
    const auto* mask = as<Mask>(node.inputs[0]);
    const auto at = axes(node);
    const bool counts = mask != nullptr && mask->axes == "bs" && mask->factor == 1 && mask->offset == 0 && at &&
                        (*at == std::vector<std::int64_t>{1} || *at == std::vector<std::int64_t>{-1});
    return counts && integer(node, "keepdims", 1) == 1 ? Meaning(Count{}) : Meaning(Unknown{});
  }

  Meaning reduce_length(const Node& node) const {
    const auto* pooled = as<Pooled>(node.inputs[0]);
    const auto at = axes(node);
    const bool is_vector = pooled != nullptr && pooled->axes == "bw" &&
                           (pooled->state == Pooled::State::mean || pooled->state == Pooled::State::cls);
    const bool is_last = at && (*at == std::vector<std::int64_t>{1} || *at == std::vector<std::int64_t>{-1});
    if (!is_vector || !is_last || integer(node, "keepdims", 1) != 1) return Unknown{};
    return Pooled{Pooled::State::length, "b1", pooled->pooling, pooled->hidden};
  }

  // A number so small that it only keeps a division from being one by 0.
  Meaning at_least(const Node& node) const {
    if (node.inputs.size() != 2) return Unknown{};
    for (const auto& [value, least] : {std::pair{0, 1}, {1, 0}}) {
      const auto number = scalar(node.inputs[static_cast<std::size_t>(least)]);
      if (!number || *number <= 0 || *number > 1) continue;
      const std::string& of = node.inputs[static_cast<std::size_t>(value)];
      if (as<Count>(of) != nullptr) return Count{};
      if (const auto* pooled = as<Pooled>(of); pooled != nullptr && pooled->state == Pooled::State::length)
        return *pooled;
    }
    return Unknown{};
  }

  std::optional<Found> fail(std::string why) const {
    reason_ = std::move(why);
    return std::nullopt;
  }

  std::optional<Found> conclude() {
    const bool is_whole = !found_.layers.empty() && found_.layers.back().narrow.weights != nullptr;
    if (found_.words == nullptr) return fail("there are no embeddings of words and positions with a norm behind them");
    if (!is_whole) {
      return fail("behind layer " + std::to_string(found_.layers.size()) +
                  " no further step is known: " + (first_unknown_.empty() ? "the graph ends" : first_unknown_));
    }
    if (std::string wrong = wrong_sizes(); !wrong.empty()) return fail(std::move(wrong));
    const std::size_t last = 2 * found_.layers.size();
    // The latest of what can be given: vectors, normalised or not.
    Pooled::State best = Pooled::State::summed;
    for (const auto& [value, meaning] : meanings_) {
      if (const auto* hidden = std::get_if<Hidden>(&meaning); hidden != nullptr && hidden->index == last)
        found_.hidden = value;
      const auto* pooled = std::get_if<Pooled>(&meaning);
      if (pooled == nullptr || pooled->axes != "bw" || pooled->hidden != last) continue;
      const bool is_vector = pooled->state == Pooled::State::mean || pooled->state == Pooled::State::cls ||
                             pooled->state == Pooled::State::normalized;
      if (!is_vector || (best == Pooled::State::normalized)) continue;
      best = pooled->state;
      found_.vectors = value;
      found_.pooling = pooled->pooling;
      found_.normalize = pooled->state == Pooled::State::normalized;
    }
    found_.mask = mask_;
    claim(found_.vectors.empty() ? found_.hidden : found_.vectors);
    return check_uses();
  }

  // What is computed relies on these.
  [[nodiscard]] std::string wrong_sizes() const {
    const std::int64_t hidden = found_.words->shape[1];
    const auto heads = static_cast<std::int64_t>(found_.heads);
    if (heads == 0 || hidden % heads != 0) return "the heads do not share the width out evenly";
    const auto is_table = [&](const Constant* table) { return table == nullptr || table->shape[1] == hidden; };
    const auto is_norm = [&](const FoundNorm& norm) {
      const auto fits = [&](const Constant& one) {
        return one.element == Element::float32 && one.shape == std::vector<std::int64_t>{hidden};
      };
      return fits(*norm.gamma) && fits(*norm.beta);
    };
    const auto is_linear = [](const FoundLinear& linear, std::int64_t inner, std::int64_t columns) {
      return linear.weights->shape == std::vector<std::int64_t>{inner, columns} &&
             (linear.bias == nullptr || linear.bias->shape == std::vector<std::int64_t>{columns});
    };
    const Constant* relative = found_.relative;
    if (relative != nullptr && (relative->shape[1] != heads || relative->shape[2] != relative->shape[3])) {
      return "relative positions are not of as many heads";
    }
    bool fits = is_table(found_.positions) && is_table(found_.type_table) && is_norm(found_.embedding_norm);
    for (const FoundLayer& layer : found_.layers) {
      const std::int64_t wide = layer.widen.weights->shape[1];
      for (const FoundLinear* linear : {&layer.query, &layer.key, &layer.value, &layer.attention_out}) {
        fits = fits && is_linear(*linear, hidden, hidden);
      }
      fits = fits && is_linear(layer.widen, hidden, wide) && is_linear(layer.narrow, wide, hidden) &&
             is_norm(layer.attention_norm) && is_norm(layer.output_norm);
    }
    return fits ? std::string() : "weights, biases, norms and tables do not have the sizes of one encoder";
  }

  void claim(const std::string& value) {
    std::vector<std::string> open{value};
    std::set<std::size_t> claimed;
    while (!open.empty()) {
      const auto maker = maker_.find(open.back());
      open.pop_back();
      if (maker == maker_.end() || !claimed.insert(maker->second).second) continue;
      const Node& node = graph_.nodes[maker->second];
      open.insert(open.end(), node.inputs.begin(), node.inputs.end());
    }
    found_.nodes.assign(claimed.begin(), claimed.end());
  }

  // Nothing but the vectors and the hidden states may be used outside.
  std::optional<Found> check_uses() {
    const std::set<std::size_t> claimed(found_.nodes.begin(), found_.nodes.end());
    std::set<std::string> used(graph_.outputs.begin(), graph_.outputs.end());
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!claimed.contains(i)) used.insert(graph_.nodes[i].inputs.begin(), graph_.nodes[i].inputs.end());
    }
    for (const std::size_t index : claimed) {
      for (const std::string& output : graph_.nodes[index].outputs) {
        if (!used.contains(output) || output == found_.vectors || output == found_.hidden) continue;
        return fail("'" + output + "' in the midst of the encoder is used outside of it");
      }
    }
    if (!used.contains(found_.hidden)) found_.hidden.clear();
    return std::move(found_);
  }

  const Graph& graph_;
  std::string& reason_;
  std::map<std::string, Meaning, std::less<>> meanings_;
  std::map<std::string, std::size_t, std::less<>> maker_;
  mutable std::string mask_;
  std::string first_unknown_;
  Found found_;
};

std::vector<float> floats_of(const Constant& constant) {
  const auto* values = static_cast<const float*>(constant.data);
  return {values, values + constant.count()};
}

Norm norm_of(const FoundNorm& found) {
  return {floats_of(*found.gamma), floats_of(*found.beta), found.epsilon};
}

PlainWeights plain(const FoundLinear& found) {
  const auto rows = static_cast<std::size_t>(found.weights->shape[0]),
             columns = static_cast<std::size_t>(found.weights->shape[1]);
  return {static_cast<const float*>(found.weights->data), found.transposed ? columns : rows,
          found.transposed ? rows : columns, found.transposed};
}

Linear linear_of(std::initializer_list<const FoundLinear*> parts, Precision precision) {
  std::vector<PlainWeights> weights;
  std::vector<float> bias;
  for (const FoundLinear* part : parts) {
    weights.push_back(plain(*part));
    if (part->bias == nullptr) {
      bias.resize(bias.size() + weights.back().columns);
    } else {
      const std::vector<float> own = floats_of(*part->bias);
      bias.insert(bias.end(), own.begin(), own.end());
    }
  }
  return {precision, weights, bias};
}

}  // namespace

std::optional<Found> recognize(const Graph& graph, std::string& reason) {
  return Recognizer(graph, reason).run();
}

Weights weights_of(const Found& found, Precision precision) {
  Weights weights;
  weights.hidden = static_cast<std::size_t>(found.words->shape[1]);
  weights.heads = found.heads;
  weights.words = floats_of(*found.words);
  weights.positions = floats_of(*found.positions);
  if (found.type_table != nullptr) weights.types = floats_of(*found.type_table);
  weights.first_position = found.first_position;
  weights.padding = found.padding;
  if (found.relative != nullptr) {
    weights.relative = floats_of(*found.relative);
    weights.relative_places = static_cast<std::size_t>(found.relative->shape[2]);
  }
  weights.embedding_norm = norm_of(found.embedding_norm);
  for (const FoundLayer& layer : found.layers) {
    weights.layers.push_back({.query_key_value = linear_of({&layer.query, &layer.key, &layer.value}, precision),
                              .attention_out = linear_of({&layer.attention_out}, precision),
                              .attention_norm = norm_of(layer.attention_norm),
                              .widen = linear_of({&layer.widen}, precision),
                              .narrow = linear_of({&layer.narrow}, precision),
                              .output_norm = norm_of(layer.output_norm),
                              .score_scale = layer.score_scale});
  }
  weights.pooling = found.vectors.empty() ? Pooling::none : found.pooling;
  weights.normalize = found.normalize;
  return weights;
}

}  // namespace gpux_encoder

// Norms: as one node, with the sum in front of it, with the embeddings, or written out.
#include <algorithm>
#include <tuple>
#include <utility>

#include "recognizer/known_facts.h"

namespace gpux_encoder {
namespace {

using Stage = NormStep::Stage;

float epsilon_of(const Node& node, float otherwise) {
  const auto given = node.attributes.find("epsilon");
  return given == node.attributes.end() ? otherwise : given->second.number;
}

bool fits(const FoundLinear& linear, std::size_t inner, std::size_t columns) {
  return linear.weights != nullptr && linear.inner() == inner && linear.columns == columns;
}

// What a layer's arithmetic relies on; says what does not hold.
std::string wrong_with(const FoundLayer& layer, std::size_t width, std::size_t heads) {
  if (heads == 0 || width % heads != 0) return "has heads that do not share the width out evenly";
  for (const FoundLinear* linear : {&layer.query, &layer.key, &layer.value, &layer.attention_out}) {
    if (!fits(*linear, width, width)) return "follows attention of another width than the embeddings";
  }
  return {};
}

Meaning attended(const Node& node, const Sum& sum, const FoundNorm& norm, const Reading& reading, Found& found) {
  const Product& product = sum.product;
  const Scores& scores = product.context->scores;
  const std::size_t layer = sum.residual / 2;
  if (found.layers.size() != layer) return unknown(node, "is a second norm behind the same rows");
  const FoundMask mask = scores.mask.value_or(FoundMask{});
  const ExpressionPointer relative = scores.relative ? seen_from(*scores.relative, 4) : nullptr;
  if (layer == 0) {
    found.heads = scores.heads;
    found.mask = mask;
    found.relative = relative;
  }
  const bool has_same_relative =
      (relative == nullptr) == (found.relative == nullptr) && (relative == nullptr || same(*relative, *found.relative));
  if (found.heads != scores.heads || !(found.mask == mask) || !has_same_relative) {
    return unknown(node, "follows attention with other heads, another mask or other relative positions than before");
  }
  FoundLayer made{.query = scores.query.linear,
                  .key = scores.key.linear,
                  .value = product.context->value.linear,
                  .attention_out = product.linear,
                  .up_projection = {},
                  .down_projection = {},
                  .attention_norm = norm,
                  .output_norm = {},
                  .score_scale = static_cast<float>(scores.scale)};
  if (std::string wrong = wrong_with(made, reading.width, scores.heads); !wrong.empty()) return unknown(node, wrong);
  found.layers.push_back(made);
  return Hidden{sum.residual + 1, sum.order};
}

Meaning fed_forward(const Node& node, const Sum& sum, const FoundNorm& norm, const Reading& reading, Found& found) {
  const Product& product = sum.product;
  if (found.layers.size() != sum.residual / 2 + 1 || found.layers.back().down_projection.weights != nullptr) {
    return unknown(node, "is a second norm behind the same rows");
  }
  if (!fits(product.widened, reading.width, product.widened.columns) ||
      !fits(product.linear, product.widened.columns, reading.width)) {
    return unknown(node, "follows products of other widths than the embeddings");
  }
  FoundLayer& layer = found.layers.back();
  layer.up_projection = product.widened;
  layer.down_projection = product.linear;
  layer.activation = product.activation;
  layer.output_norm = norm;
  return Hidden{sum.residual + 1, sum.order};
}

// Rows behind a norm, whatever form it had.
Meaning normalized(const Node& node, const Meaning& before, const std::string& gamma, const std::string& beta,
                   float epsilon, Reading& reading, Found& found) {
  const Constant *scale = reading.weights(gamma, 1), *shift = reading.weights(beta, 1);
  if (scale == nullptr || shift == nullptr || scale->count() != shift->count()) {
    return unknown(node, "has no scale and shift of its own");
  }
  const FoundNorm norm{scale, shift, epsilon};
  const auto has_width = [&](std::size_t width) { return scale->count() == width; };
  if (const auto* field = std::get_if<Field>(&before)) {
    if (found.embeddings.words.rows != nullptr) return unknown(node, "is a second norm of embeddings");
    std::string why;
    const auto embeddings = embeddings_of(*field, reading, why);
    if (!embeddings) return unknown(node, why);
    if (!has_width(embeddings->words.width())) return unknown(node, "has another width than the embeddings");
    found.embeddings = *embeddings;
    found.embedding_norm = norm;
    reading.width = embeddings->words.width();
    reading.ids = embeddings->ids;
    reading.vocabulary = embeddings->words.rows->count() / reading.width;
    return Hidden{0, "bsw"};
  }
  const auto* sum = std::get_if<Sum>(&before);
  if (sum == nullptr) return unknown(node, "is not over embeddings or a sum of rows");
  if (!has_width(reading.width)) return unknown(node, "has another width than the embeddings");
  if (sum->product.hidden != sum->residual) return unknown(node, "is over a sum of rows of two places in the encoder");
  const bool is_attention = sum->residual % 2 == 0;
  if (is_attention && sum->product.of == Product::Of::context) return attended(node, *sum, norm, reading, found);
  if (!is_attention && sum->product.of == Product::Of::wide) return fed_forward(node, *sum, norm, reading, found);
  return unknown(node, "is not where a layer has a norm");
}

bool is_last_axis(const std::vector<std::int64_t>& axes) {
  return axes == std::vector<std::int64_t>{-1} || axes == std::vector<std::int64_t>{2};
}

bool is_normalisable(const Meaning* meaning) {
  const auto* field = meaning == nullptr ? nullptr : std::get_if<Field>(meaning);
  const bool is_rows = field != nullptr && field->shape.size() == 3 && field->element == Element::float32;
  return is_rows || (meaning != nullptr && std::holds_alternative<Sum>(*meaning));
}

Meaning whole(const Node& node, Reading& reading, Found& found) {
  const Meaning* before = reading.find(node.inputs[0]);
  if (before == nullptr || !is_normalisable(before)) return Unknown{};
  const std::int64_t axis = integer(node, "axis", -1);
  const auto* sum = std::get_if<Sum>(before);
  const std::int64_t last = sum != nullptr ? static_cast<std::int64_t>(sum->order.size()) - 1 : 2;
  if (axis != -1 && axis != last) return unknown(node, "is not along the last axis");
  if (node.inputs.size() != 3) return unknown(node, "has no shift");
  return normalized(node, *before, node.inputs[1], node.inputs[2], epsilon_of(node, 1e-5F), reading, found);
}

std::optional<Field> sum_of(const Field& a, const Field& b) {
  return field_of(Node{.name = {}, .type = "Add", .domain = {}, .inputs = {}, .outputs = {}, .attributes = {}},
                  {&a, &b});
}

// com.microsoft: input, skip, gamma, beta, bias.
Meaning with_skip(const Node& node, Reading& reading, Found& found) {
  if (node.inputs.size() < 4) return Unknown{};
  for (const auto& [rows, skip] : {std::pair{0, 1}, {1, 0}}) {
    const auto* product = reading.as<Product>(node.inputs[static_cast<std::size_t>(rows)]);
    const auto* residual = reading.as<Hidden>(node.inputs[static_cast<std::size_t>(skip)]);
    if (product == nullptr || residual == nullptr || product->order != residual->order) continue;
    std::optional<Product> biased = *product;
    if (node.inputs.size() > 4 && !node.inputs[4].empty()) {
      const Constant* bias = reading.weights(node.inputs[4], 1);
      biased = bias == nullptr ? std::nullopt : with_bias(*product, *bias);
      if (!biased) return unknown(node, "has a bias that does not fit");
    }
    return normalized(node, Sum{*biased, residual->index, residual->order}, node.inputs[2], node.inputs[3],
                      epsilon_of(node, 1e-12F), reading, found);
  }
  const auto *rows = reading.as<Field>(node.inputs[0]), *skip = reading.as<Field>(node.inputs[1]);
  const bool has_bias = node.inputs.size() > 4 && !node.inputs[4].empty();
  const auto sum = rows == nullptr || skip == nullptr || has_bias ? std::nullopt : sum_of(*rows, *skip);
  if (!sum || sum->shape != rows->shape) return Unknown{};
  return normalized(node, *sum, node.inputs[2], node.inputs[3], epsilon_of(node, 1e-12F), reading, found);
}

// com.microsoft: ids, types, words, positions, type rows, gamma, beta, mask, position ids.
Meaning with_embeddings(const Node& node, Reading& reading, Found& found) {
  const auto field = [&](std::size_t index) {
    return index < node.inputs.size() && !node.inputs[index].empty() ? reading.as<Field>(node.inputs[index]) : nullptr;
  };
  const auto is_given = [&](std::size_t index) { return index < node.inputs.size() && !node.inputs[index].empty(); };
  if (node.inputs.size() < 7) return Unknown{};
  const Node gather{.name = node.name, .type = "Gather", .domain = "", .inputs = {}, .outputs = {}, .attributes = {}};
  const Field places{{reading.tokens}, Element::int64, place(0)};
  const Field* positions = is_given(8) ? field(8) : &places;
  std::optional<Field> sum;
  for (const auto& [table, rows, may_lack] :
       {std::tuple{field(2), field(0), false}, {field(3), positions, false}, {field(4), field(1), true}}) {
    if (may_lack && !is_given(1) && !is_given(4)) continue;
    if (table == nullptr || rows == nullptr) return unknown(node, "takes rows of tables that are not known");
    const auto taken = field_of(gather, {table, rows});
    if (!taken) return unknown(node, "takes rows of tables that are not known");
    sum = sum ? sum_of(*sum, *taken) : taken;
    if (!sum) return unknown(node, "adds rows that do not fit");
  }
  if (!sum) return Unknown{};
  Meaning rows = normalized(node, *sum, node.inputs[5], node.inputs[6], epsilon_of(node, 1e-12F), reading, found);
  if (const Field* mask = field(7); mask != nullptr && node.outputs.size() > 1 && mask->shape.size() == 2) {
    const auto bits = mask_of(*mask, 2, 0, 1, reading);
    const bool fits = mask->shape == Shape{reading.texts, reading.tokens};
    if (fits && bits && bits->counted == 1 && bits->hidden == 0) {
      reading.is(node.outputs[1], TokenCount{bits->source, "b", false});
    }
  }
  return rows;
}

// (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) * gamma + beta, step by step.
Meaning mean(const Node& node, const Reading& reading) {
  const auto axes = reading.axes(node);
  if (!axes || integer(node, "keepdims", 1) != 1) return Unknown{};
  const std::string& of = reading.origin(node.inputs[0]);
  const auto* sum = reading.as<Sum>(of);
  const bool is_last = is_last_axis(*axes) || (sum != nullptr && axes->size() == 1 &&
                                               axes->front() == static_cast<std::int64_t>(sum->order.size()) - 1);
  if (!is_last) return Unknown{};
  if (const auto* step = reading.as<NormStep>(of); step != nullptr && step->stage == Stage::squared) {
    NormStep next = *step;
    next.stage = Stage::variance;
    return next;
  }
  return is_normalisable(reading.find(of)) ? Meaning(NormStep{Stage::mean, of, 0, {}}) : Meaning(Unknown{});
}

Meaning advanced(const NormStep& step, Stage stage) {
  NormStep next = step;
  next.stage = stage;
  return next;
}

Meaning step_by_one(const Node& node, const Reading& reading) {
  const auto* step = reading.as<NormStep>(node.inputs[0]);
  if (step == nullptr) return Unknown{};
  if (node.type == "Sqrt" && step->stage == Stage::guarded) return advanced(*step, Stage::deviation);
  if (node.type == "Reciprocal" && step->stage == Stage::deviation) return advanced(*step, Stage::inverse);
  return Unknown{};
}

Meaning step_by_two(const Node& node, Reading& reading, Found& found) {
  const std::string &left = node.inputs[0], &right = node.inputs[1];
  const auto *a = reading.as<NormStep>(left), *b = reading.as<NormStep>(right);
  const auto are = [&](Stage first, Stage second) {
    return a != nullptr && b != nullptr && a->stage == first && b->stage == second && a->of == b->of;
  };
  const auto is = [](const NormStep* step, Stage stage) { return step != nullptr && step->stage == stage; };
  if (node.type == "Sub" && is(b, Stage::mean) && reading.origin(left) == b->of) return advanced(*b, Stage::centered);
  if (node.type == "Pow" && is(a, Stage::centered) && reading.scalar(right) == 2.0) return advanced(*a, Stage::squared);
  if (node.type == "Mul" && are(Stage::centered, Stage::centered)) return advanced(*a, Stage::squared);
  if (node.type == "Div" && are(Stage::centered, Stage::deviation)) return advanced(*b, Stage::normal);
  if (node.type == "Div" && is(b, Stage::deviation) && reading.scalar(left) == 1.0) {
    return advanced(*b, Stage::inverse);
  }
  if (node.type == "Mul" && are(Stage::centered, Stage::inverse)) return advanced(*b, Stage::normal);
  if (node.type == "Mul" && are(Stage::inverse, Stage::centered)) return advanced(*a, Stage::normal);
  for (const auto& [step, other] : {std::pair{a, &right}, {b, &left}}) {
    if (node.type == "Add" && is(step, Stage::variance)) {
      const auto epsilon = reading.scalar(*other);
      if (!epsilon || !(*epsilon > 0)) return unknown(node, "adds no number to a variance");
      NormStep next = *step;
      next.stage = Stage::guarded;
      next.epsilon = *epsilon;
      return next;
    }
    if (node.type == "Mul" && is(step, Stage::normal)) {
      NormStep next = *step;
      next.stage = Stage::scaled;
      next.gamma = *other;
      return next;
    }
    if (node.type == "Add" && is(step, Stage::scaled)) {
      const Meaning* before = reading.find(step->of);
      return normalized(node, Meaning(*before), step->gamma, *other, static_cast<float>(step->epsilon), reading, found);
    }
  }
  return Unknown{};
}

}  // namespace

Meaning read_norm(const Node& node, Reading& reading, Found& found) {
  if (node.inputs.empty()) return Unknown{};
  const bool is_microsoft = node.domain == "com.microsoft";
  if (is_microsoft && node.type == "SkipLayerNormalization") return with_skip(node, reading, found);
  if (is_microsoft && node.type == "EmbedLayerNormalization") return with_embeddings(node, reading, found);
  if (is_microsoft) return Unknown{};
  if (node.type == "LayerNormalization") return whole(node, reading, found);
  if (node.type == "ReduceMean") return mean(node, reading);
  if (node.inputs.size() == 1) return step_by_one(node, reading);
  return node.inputs.size() == 2 ? step_by_two(node, reading, found) : Meaning(Unknown{});
}

}  // namespace gpux_encoder

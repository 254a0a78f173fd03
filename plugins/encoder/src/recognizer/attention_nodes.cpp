// Attention in one node: ONNX's own, and those of com.microsoft.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "recognizer/attention_scores.h"

namespace gpux_encoder {
namespace {

// com.microsoft: a mask of [texts, keys], or how many of each text's tokens count.
std::optional<Scores> with_padding(const Scores& scores, const std::string& name, const Node& node,
                                   const Reading& reading) {
  const auto value = node.attributes.find("mask_filter_value");
  const float hidden = value == node.attributes.end() ? -10000.0F : value->second.number;
  if (!(static_cast<double>(hidden) < largest_of_hidden) || scores.mask) return std::nullopt;
  Scores with = scores;
  if (const auto* tokens = reading.as<TokenCount>(name)) {
    if (tokens->order != "b" || tokens->is_guarded) return std::nullopt;
    with.mask = FoundMask{tokens->mask, {hidden, false, false}, true};
    return with;
  }
  const auto* field = reading.as<Field>(name);
  if (field == nullptr || field->shape != Shape{reading.texts, reading.tokens}) return std::nullopt;
  const auto mask = mask_of(*field, 2, 0, 1, reading);
  if (!mask || !(mask->counted > 0)) return std::nullopt;
  if (mask->hidden > 0) return scores;
  with.mask = FoundMask{mask->source, {hidden, false, false}, false};
  return with;
}

struct Three {
  Heads query, key, value;
};

// What nodes for a whole attention share: scores, what is added to them, shares, and the mixed values.
Meaning attended(const Node& node, const Reading& reading, const Three& heads, const std::string& padding,
                 const std::string& added, std::string order) {
  auto scores = scores_of(heads.query, heads.key, "bhsk");
  if (!scores) return unknown(node, "is not over queries and keys of the same rows");
  const double width = static_cast<double>(columns_of(heads.query)) / static_cast<double>(heads.query.heads);
  const auto given = node.attributes.find("scale");
  const bool has_scale = given != node.attributes.end() && given->second.number != 0;
  scores->scale *= has_scale ? static_cast<double>(given->second.number) : 1 / std::sqrt(width);
  if (!added.empty()) {
    const auto* field = reading.as<Field>(added);
    std::string why = "adds something unknown to scores";
    const auto with = field == nullptr ? std::nullopt : with_added(*scores, *field, reading, why);
    if (!with) return unknown(node, why);
    scores = with;
  }
  if (!padding.empty()) {
    scores = with_padding(*scores, padding, node, reading);
    if (!scores) return unknown(node, "has a mask that is not of texts and tokens");
  }
  scores->stage = Scores::Stage::shares;
  return mixed(node, *scores, heads.value, std::move(order));
}

std::string given(const Node& node, std::size_t index) {
  return index < node.inputs.size() ? node.inputs[index] : std::string();
}

bool is_given_from(const Node& node, std::size_t first) {
  for (std::size_t i = first; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].empty()) return true;
  }
  return false;
}

// com.microsoft: rows, weights of query, key and value beside each other, bias, mask, past, what is added.
Meaning whole_attention(const Node& node, const Reading& reading) {
  const auto* hidden = reading.as<Hidden>(given(node, 0));
  const Constant* weights = reading.weights(given(node, 1), 2);
  if (hidden == nullptr || weights == nullptr || hidden->order != "bsw") return Unknown{};
  const auto heads = static_cast<std::size_t>(std::max<std::int64_t>(integer(node, "num_heads", 0), 0));
  const auto sizes = node.attributes.find("qkv_hidden_sizes");
  const auto width = static_cast<std::int64_t>(reading.width);
  const bool is_even = sizes == node.attributes.end() || sizes->second.integers.empty() ||
                       sizes->second.integers == std::vector<std::int64_t>{width, width, width};
  const bool is_plain = integer(node, "unidirectional", 0) == 0 && integer(node, "do_rotary", 0) == 0 &&
                        integer(node, "past_present_share_buffer", 0) == 0 && given(node, 4).empty() &&
                        given(node, 6).empty();
  if (!is_even || !is_plain || heads == 0 || reading.width % heads != 0 ||
      weights->shape != std::vector<std::int64_t>{width, 3 * width}) {
    return unknown(node, "is of a kind that is not understood");
  }
  auto all = product_of(reading, given(node, 0), {weights, false, 0, 3 * reading.width, nullptr, 0});
  if (all && !given(node, 2).empty()) {
    const Constant* bias = reading.weights(given(node, 2), 1);
    all = bias == nullptr ? std::nullopt : with_bias(*all, *bias);
  }
  if (!all) return unknown(node, "has a bias that does not fit");
  std::vector<Heads> three;
  for (std::size_t part = 0; part < 3; ++part) {
    Product product = *all;
    product.linear.first_column = product.linear.first_bias = part * reading.width;
    product.linear.columns = reading.width;
    three.push_back({product, heads, 1, "bhsd", 1});
  }
  return attended(node, reading, {three[0], three[1], three[2]}, given(node, 3), given(node, 5), "bsw");
}

std::optional<Heads> heads_of(const Reading& reading, const std::string& rows, std::size_t heads) {
  const auto* product = reading.as<Product>(rows);
  const auto* scaled = reading.as<Elementwise>(rows);
  if ((product == nullptr && scaled == nullptr) || heads == 0) return std::nullopt;
  const Product& from = product != nullptr ? *product : scaled->product;
  const auto factor = product != nullptr ? std::optional(1.0) : factor_of(*scaled->function);
  if (!factor || from.of != Product::Of::hidden || from.order != "bsw" || from.linear.columns % heads != 0) {
    return std::nullopt;
  }
  return Heads{from, heads, 1, "bhsd", *factor};
}

// com.microsoft: query, key, value, bias, mask over keys, what is added.
Meaning several_heads(const Node& node, const Reading& reading) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(integer(node, "num_heads", 0), 0));
  std::vector<Heads> three;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto one = heads_of(reading, given(node, i), count);
    if (!one) return Unknown{};
    three.push_back(*one);
  }
  if (is_given_from(node, 6) || integer(node, "unidirectional", 0) != 0) {
    return unknown(node, "is of a kind that is not understood");
  }
  if (!given(node, 3).empty()) {
    const Constant* bias = reading.weights(given(node, 3), 1);
    const std::size_t columns = columns_of(three[0]);
    for (std::size_t i = 0; i < 3; ++i) {
      FoundLinear& linear = three[i].product.linear;
      if (bias == nullptr || bias->count() != 3 * columns || linear.columns != columns || linear.bias != nullptr ||
          three[i].scale != 1) {
        return unknown(node, "has a bias that does not fit");
      }
      linear.bias = bias;
      linear.first_bias = i * columns;
    }
  }
  return attended(node, reading, {three[0], three[1], three[2]}, given(node, 4), given(node, 5), "bsw");
}

// ONNX: query, key, value, mask.
Meaning onnx_attention(const Node& node, const Reading& reading) {
  const auto softcap = node.attributes.find("softcap");
  const bool is_plain = integer(node, "is_causal", 0) == 0 && !is_given_from(node, 4) &&
                        (softcap == node.attributes.end() || softcap->second.number == 0);
  std::vector<Heads> three;
  bool is_split = true;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string name = given(node, i);
    if (const auto* heads = reading.as<Heads>(name)) {
      if (heads->order != "bhsd") return unknown(node, "is over heads of another order");
      three.push_back(*heads);
      continue;
    }
    is_split = false;
    const std::int64_t count = integer(node, i == 0 ? "q_num_heads" : "kv_num_heads", 0);
    const auto one = heads_of(reading, name, static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
    if (!one) return Unknown{};
    three.push_back(*one);
  }
  if (!is_plain) return unknown(node, "is of a kind that is not understood");
  std::string added = given(node, 3);
  const Three heads{three[0], three[1], three[2]};
  const std::string order = is_split ? "bhsd" : "bsw";
  const auto* mask = added.empty() ? nullptr : reading.as<Field>(added);
  // Where no key counts ONNX Runtime's shares are 0.
  constexpr HiddenKeys none{-std::numeric_limits<float>::infinity(), false, true};
  if (mask == nullptr || mask->element != Element::boolean) {
    Meaning mixed = attended(node, reading, heads, {}, added, order);
    if (auto* context = std::get_if<Context>(&mixed); context != nullptr && context->scores.mask) {
      HiddenKeys& keys = context->scores.mask->keys;
      if (keys.score <= std::numeric_limits<float>::lowest()) keys = none;
    }
    return mixed;
  }
  // A truth for each key that counts.
  const auto bits = mask->shape.size() <= 4 ? mask_of(*mask, 4, 0, 3, reading) : std::nullopt;
  if (!bits || bits->counted != 1) return unknown(node, "has a mask that is not over keys");
  Meaning plain = attended(node, reading, heads, {}, {}, order);
  const auto* context = std::get_if<Context>(&plain);
  if (context == nullptr || bits->hidden == 1) return plain;
  Context with = *context;
  with.scores.mask = FoundMask{bits->source, none, false};
  return with;
}

}  // namespace

Meaning read_attention_node(const Node& node, const Reading& reading) {
  const bool is_microsoft = node.domain == "com.microsoft";
  if (is_microsoft && node.type == "Attention") return whole_attention(node, reading);
  if (is_microsoft && node.type == "MultiHeadAttention") return several_heads(node, reading);
  return !is_microsoft && node.type == "Attention" ? onnx_attention(node, reading) : Meaning(Unknown{});
}

}  // namespace gpux_encoder

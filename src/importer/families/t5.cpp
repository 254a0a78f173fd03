// The encoders of T5 and MT5: pre-norm with RMS norms, relative positions of the first layer for all, unscaled scores.
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "importer/families/family.h"
#include "importer/families/tensor_names.h"

namespace gpux::importer {
namespace {

struct InnerActivation {
  checkpoint::Activation activation;
  bool is_gated;
};

// "relu" is T5's, "gated-gelu" T5 1.1's and MT5's, whose gelu is the approximated one.
InnerActivation inner_activation(const checkpoint::ConfigReader& config, const char* otherwise) {
  const std::string name = config.text({"feed_forward_proj"}, otherwise);
  if (name == "relu") return {checkpoint::Activation::relu, false};
  if (name == "gated-gelu") return {checkpoint::Activation::gelu_tanh, true};
  if (name == "gated-silu") return {checkpoint::Activation::silu, true};
  config.refuse("feed_forward_proj", name, "relu, gated-gelu, gated-silu");
}

Architecture describe(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights,
                      const char* feed_forward) {
  // is_encoder_decoder is true of the whole model; the encoder alone is read.
  if (head_kind_of(config.architecture()) != HeadKind::vectors) {
    config.refuse("architectures", config.architecture(), "the encoder or the whole model, without a head");
  }
  const std::int64_t layers = config.number({"num_layers"}), heads = config.number({"num_heads"});
  const std::int64_t hidden = config.number({"d_model"}), inner = config.number({"d_ff"});
  const std::int64_t head_size = config.number({"d_kv"});
  const float epsilon = config.positive({"layer_norm_epsilon"}, 1e-6F);
  const auto [activation, is_gated] = inner_activation(config, feed_forward);
  require_encoder_sizes(layers, heads, heads);
  require_head_sizes(heads, heads, head_size);

  const TensorNames names(weights, {""}, "");
  Architecture architecture;
  const bool is_shared = weights.has("shared.weight");
  architecture.embeddings = {.words = is_shared ? "shared.weight" : "encoder.embed_tokens.weight",
                             .vocabulary = config.number({"vocab_size"}),
                             .size = hidden};
  Transformer& transformer = architecture.transformer;
  transformer = {.hidden_size = hidden, .heads = heads, .kv_heads = heads, .head_size = head_size};
  const std::int64_t buckets = config.number({"relative_attention_num_buckets"}, 32);
  const std::int64_t distance = config.number({"relative_attention_max_distance"}, 128);
  constexpr std::int64_t max_distance = 1 << 16;
  if (buckets < 4 || buckets % 2 != 0)
    config.refuse("relative_attention_num_buckets", buckets, "an even number from 4");
  if (distance <= buckets / 4 || distance > max_distance) {
    config.refuse("relative_attention_max_distance", distance, "more than a quarter of the buckets, up to 65536");
  }
  transformer.position_bias =
      RelativeBias{.table = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
                   .buckets = buckets,
                   .max_distance = distance};
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::string attention = fmt::format("encoder.block.{}.layer.0.", i);
    const std::string feed = fmt::format("encoder.block.{}.layer.1.", i);
    const std::int64_t size = heads * head_size;
    Layer layer;
    layer.attention = {.query = names.linear(attention + "SelfAttention.q", hidden, size, false),
                       .key = names.linear(attention + "SelfAttention.k", hidden, size, false),
                       .value = names.linear(attention + "SelfAttention.v", hidden, size, false),
                       .output = names.linear(attention + "SelfAttention.o", size, hidden, false)};
    layer.attention_residual = pre_norm(names.rms_norm(attention + "layer_norm", hidden, epsilon));
    layer.feed_forward = {.down = names.linear(feed + "DenseReluDense.wo", inner, hidden, false),
                          .activation = activation};
    if (is_gated) {
      layer.feed_forward.gate = names.linear(feed + "DenseReluDense.wi_0", hidden, inner, false);
      layer.feed_forward.up = names.linear(feed + "DenseReluDense.wi_1", hidden, inner, false);
    } else {
      layer.feed_forward.up = names.linear(feed + "DenseReluDense.wi", hidden, inner, false);
    }
    layer.feed_forward_residual = pre_norm(names.rms_norm(feed + "layer_norm", hidden, epsilon));
    transformer.layers.push_back(std::move(layer));
  }
  transformer.final_norm = names.rms_norm("encoder.final_layer_norm", hidden, epsilon);
  architecture.labels = config.labels();
  architecture.scope = {
      .prefixes = {"encoder."}, .layers = "encoder.block.", .ignored_suffixes = {"encoder.embed_tokens.weight"}};
  return architecture;
}

}  // namespace

Architecture describe_t5(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights) {
  return describe(config, weights, "relu");
}

Architecture describe_mt5(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights) {
  return describe(config, weights, "gated-gelu");
}

}  // namespace gpux::importer

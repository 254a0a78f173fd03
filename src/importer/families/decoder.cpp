// Models of Llama's layout: Llama, Mistral, Qwen2, Qwen3, EuroBERT, which attends in both directions, and decoders that
// are never encoders: Granite, OLMo 2, Phi-3 and SmolLM3.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "importer/families/family.h"
#include "importer/families/rotary_settings.h"
#include "importer/families/tensor_names.h"

namespace gpux::importer {
namespace {

constexpr std::int64_t max_layers = 1024;

enum class NormedHeads : std::uint8_t {
  none,
  each,  ///< queries and keys, each head by itself
  all,   ///< all heads of the queries together, and of the keys
};

/// In what the families of this layout differ.
struct Variant {
  bool query_key_value_bias = false, output_bias = false, feed_forward_bias = false;
  NormedHeads normed_heads = NormedHeads::none;
  bool norms_branches = false;  ///< norms are behind attention and feed-forward, and not before them (OLMo 2)
  bool is_fused = false;        ///< queries, keys and values are one tensor, gate and up projection another (Phi-3)
  bool is_causal = true;
  bool has_windows = false;  ///< sliding_window counts
  std::int64_t first_window_layer = 0;
  float epsilon = 1e-6F, theta = 10000;  ///< where config.json has none
  std::optional<Rotary> rotary{};        ///< in place of what config.json's scaling gives
  std::vector<bool> has_rotary{};        ///< by layer; empty: all
  float embedding_scale = 1, residual_factor = 1, logit_divisor = 1;
  std::optional<float> score_scale{};  ///< in place of 1 / sqrt(head size)
};

// The greatest distance of a key in the layers with windows; sliding_window counts the query's own position.
std::optional<std::int64_t> window_of(const checkpoint::ConfigReader& config, const Variant& variant) {
  if (!variant.has_windows || !config.flag({"use_sliding_window"}, true)) return std::nullopt;
  const std::int64_t window = config.number({"sliding_window"}, 0);
  return window > 0 ? std::optional(window - 1) : std::nullopt;
}

Head head_of(const checkpoint::ConfigReader& config, const TensorNames& outside, std::int64_t hidden) {
  Head head{.kind = head_kind_of(config.architecture())};
  if (head.kind == HeadKind::vectors) return head;
  if (head.kind == HeadKind::question_answering) {
    config.refuse("architectures", config.architecture(), "ForSequenceClassification, ForTokenClassification");
  }
  const bool is_text = head.kind == HeadKind::classification;
  head.pooling = is_text ? GraphPooling::last_token : GraphPooling::none;
  head.out = outside.linear("score", hidden, config.labels(), !is_text);
  return head;
}

class LayerReader {
 public:
  LayerReader(const checkpoint::ConfigReader& config, const TensorNames& names, const Variant& variant,
              const Transformer& transformer)
      : names_(names),
        variant_(variant),
        hidden_(transformer.hidden_size),
        inner_(config.number({"intermediate_size"})),
        head_size_(transformer.head_size),
        query_size_(transformer.heads * transformer.head_size),
        key_size_(transformer.kv_heads * transformer.head_size),
        epsilon_(config.positive({"rms_norm_eps"}, variant.epsilon)),
        activation_(read_activation(config, "hidden_act", "silu")) {}

  [[nodiscard]] Norm norm(const std::string& name) const { return names_.rms_norm(name, hidden_, epsilon_); }

  [[nodiscard]] Layer read(std::int64_t index, std::optional<std::int64_t> window) const {
    const std::string at = fmt::format("layers.{}.", index);
    Layer layer;
    layer.attention = projections(at + "self_attn.");
    read_head_norms(at + "self_attn.", layer.attention);
    const bool rotates = variant_.has_rotary.empty() || variant_.has_rotary[static_cast<std::size_t>(index)];
    layer.attention.rotary = rotates ? std::optional<std::size_t>(0) : std::nullopt;
    layer.attention.window = window;
    layer.attention.causal = variant_.is_causal;
    layer.attention.score_scale = variant_.score_scale.value_or(default_score_scale(head_size_));
    layer.feed_forward = feed_forward(at + "mlp.");
    if (variant_.norms_branches) {
      layer.attention_residual.branch_norm = norm(at + "post_attention_layernorm");
      layer.feed_forward_residual.branch_norm = norm(at + "post_feedforward_layernorm");
    } else {
      layer.attention_residual = pre_norm(norm(at + "input_layernorm"));
      layer.feed_forward_residual = pre_norm(norm(at + "post_attention_layernorm"));
    }
    layer.attention_residual.branch_factor = layer.feed_forward_residual.branch_factor = variant_.residual_factor;
    return layer;
  }

 private:
  [[nodiscard]] Attention projections(const std::string& at) const {
    const bool bias = variant_.query_key_value_bias;
    Attention attention{.output = names_.linear(at + "o_proj", query_size_, hidden_, variant_.output_bias)};
    if (!variant_.is_fused) {
      attention.query = names_.linear(at + "q_proj", hidden_, query_size_, bias);
      attention.key = names_.linear(at + "k_proj", hidden_, key_size_, bias);
      attention.value = names_.linear(at + "v_proj", hidden_, key_size_, bias);
      return attention;
    }
    const auto rows = [&](std::int64_t first, std::int64_t count) {
      return names_.rows(at + "qkv_proj", hidden_, count, first, query_size_ + 2 * key_size_, bias);
    };
    attention.query = rows(0, query_size_);
    attention.key = rows(query_size_, key_size_);
    attention.value = rows(query_size_ + key_size_, key_size_);
    return attention;
  }

  void read_head_norms(const std::string& at, Attention& attention) const {
    if (variant_.normed_heads == NormedHeads::none) return;
    const bool is_each = variant_.normed_heads == NormedHeads::each;
    attention.query_norm = names_.rms_norm(at + "q_norm", is_each ? head_size_ : query_size_, epsilon_);
    attention.key_norm = names_.rms_norm(at + "k_norm", is_each ? head_size_ : key_size_, epsilon_);
  }

  [[nodiscard]] FeedForward feed_forward(const std::string& at) const {
    const bool bias = variant_.feed_forward_bias;
    FeedForward read{.down = names_.linear(at + "down_proj", inner_, hidden_, bias), .activation = activation_};
    if (variant_.is_fused) {
      read.gate = names_.rows(at + "gate_up_proj", hidden_, inner_, 0, 2 * inner_, bias);
      read.up = names_.rows(at + "gate_up_proj", hidden_, inner_, inner_, 2 * inner_, bias);
    } else {
      read.gate = names_.linear(at + "gate_proj", hidden_, inner_, bias);
      read.up = names_.linear(at + "up_proj", hidden_, inner_, bias);
    }
    return read;
  }

  const TensorNames& names_;
  const Variant& variant_;
  std::int64_t hidden_, inner_, head_size_, query_size_, key_size_;
  float epsilon_;
  checkpoint::Activation activation_;
};

Transformer sizes_of(const checkpoint::ConfigReader& config) {
  const std::int64_t layers = config.number({"num_hidden_layers"}), heads = config.number({"num_attention_heads"});
  const std::int64_t kv_heads = config.number({"num_key_value_heads"}, heads), hidden = config.number({"hidden_size"});
  require_encoder_sizes(layers, hidden, heads);
  const std::int64_t head_size = config.number({"head_dim"}, hidden / heads);
  require_head_sizes(heads, kv_heads, head_size);
  return {.hidden_size = hidden, .heads = heads, .kv_heads = kv_heads, .head_size = head_size};
}

Rotary rotary_of(const checkpoint::ConfigReader& config, const Variant& variant, std::int64_t head_size,
                 std::int64_t positions) {
  if (variant.rotary) return *variant.rotary;
  const float theta = config.positive({"rope_theta"}, variant.theta);
  return read_rotary(config, {.theta = theta, .head_size = head_size, .max_positions = positions});
}

Architecture describe(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights,
                      const Variant& variant) {
  refuse_other_computations(config);
  Architecture architecture;
  Transformer& transformer = architecture.transformer;
  transformer = sizes_of(config);
  const std::int64_t hidden = transformer.hidden_size, layers = config.number({"num_hidden_layers"});
  const TensorNames names(weights, {"", "model."}, "embed_tokens.weight");
  const TensorNames outside(weights, {""}, "");
  architecture.embeddings = {.words = names.full("embed_tokens.weight"),
                             .vocabulary = config.number({"vocab_size"}),
                             .size = hidden,
                             .scale = variant.embedding_scale};
  architecture.max_tokens = config.number({"max_position_embeddings"});
  transformer.rotary = {rotary_of(config, variant, transformer.head_size, architecture.max_tokens)};
  const std::optional<std::int64_t> window = window_of(config, variant);
  const std::vector<bool> sliding =
      sliding_layers(config, layers, [&](std::int64_t i) { return window && i >= variant.first_window_layer; });
  const LayerReader reader(config, names, variant, transformer);
  for (std::int64_t i = 0; i < layers; ++i) {
    transformer.layers.push_back(reader.read(i, sliding[static_cast<std::size_t>(i)] ? window : std::nullopt));
  }
  transformer.final_norm = reader.norm("norm");
  architecture.head = head_of(config, outside, hidden);
  architecture.labels = config.labels();
  architecture.logits.divisor = variant.logit_divisor;
  architecture.scope = {.prefixes = {names.full("embed_tokens."), names.full("layers."), names.full("norm.")},
                        .layers = names.full("layers."),
                        .ignored_suffixes = {"inv_freq"}};
  return architecture;
}

// SmolLM3 has a list of ones, with zeros for the layers without rotary positions, or every so manieth has none.
std::vector<bool> rotary_layers(const checkpoint::ConfigReader& config) {
  const std::int64_t layers = config.number({"num_hidden_layers"});
  std::vector<bool> rotates;
  const checkpoint::ConfigReader::Json* listed = config.find({"no_rope_layers"});
  if (listed == nullptr) {
    const std::int64_t interval = config.number({"no_rope_layer_interval"}, 4);
    if (interval == 0) config.refuse("no_rope_layer_interval", 0, "a number above 0");
    for (std::int64_t i = 0; i < std::min(layers, max_layers); ++i) rotates.push_back((i + 1) % interval != 0);
    return rotates;
  }
  if (!listed->is_array() || static_cast<std::int64_t>(listed->size()) != layers) {
    config.refuse("no_rope_layers", *listed, "a list with one entry for each layer");
  }
  for (const checkpoint::ConfigReader::Json& one : *listed) {
    if (one != 0 && one != 1) config.refuse("no_rope_layers", one, "0, 1");
    rotates.push_back(one == 1);
  }
  return rotates;
}

// The repositories of GTE-Qwen2 bring code in which is_causal says whether tokens attend to later ones.
bool reads_causal(const checkpoint::ConfigReader& config) {
  if (config.find({"auto_map"}) != nullptr && config.find({"is_causal"}) == nullptr) {
    config.refuse("is_causal", nullptr, "true, false, where auto_map names code");
  }
  return config.flag({"is_causal"}, true);
}

// max_window_layers of Qwen where config.json has none.
constexpr std::int64_t full_layers_of_qwen = 28;

}  // namespace

Architecture describe_llama(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights) {
  const bool bias = config.flag({"attention_bias"}, false);
  return describe(config, weights,
                  {.query_key_value_bias = bias,
                   .output_bias = bias,
                   .feed_forward_bias = config.flag({"mlp_bias"}, false),
                   .is_causal = config.flag({"is_causal"}, true)});
}

Architecture describe_mistral(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights) {
  return describe(config, weights, {.is_causal = config.flag({"is_causal"}, true), .has_windows = true});
}

Architecture describe_qwen2(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights) {
  return describe(config, weights,
                  {.query_key_value_bias = true,
                   .is_causal = reads_causal(config),
                   .has_windows = config.flag({"use_sliding_window"}, false),
                   .first_window_layer = config.number({"max_window_layers"}, full_layers_of_qwen)});
}

Architecture describe_qwen3(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights) {
  const bool bias = config.flag({"attention_bias"}, false);
  return describe(config, weights,
                  {.query_key_value_bias = bias,
                   .output_bias = bias,
                   .normed_heads = NormedHeads::each,
                   .is_causal = config.flag({"is_causal"}, true),
                   .has_windows = config.flag({"use_sliding_window"}, false),
                   .first_window_layer = config.number({"max_window_layers"}, full_layers_of_qwen)});
}

Architecture describe_eurobert(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights) {
  if (head_kind_of(config.architecture()) != HeadKind::vectors) {
    config.refuse("architectures", config.architecture(), "EuroBertModel, EuroBertForMaskedLM");
  }
  const bool bias = config.flag({"attention_bias"}, false);
  return describe(config, weights,
                  {.query_key_value_bias = bias,
                   .output_bias = bias,
                   .feed_forward_bias = config.flag({"mlp_bias"}, false),
                   .is_causal = false});
}

Architecture describe_granite(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights) {
  const bool bias = config.flag({"attention_bias"}, false);
  return describe(config, weights,
                  {.query_key_value_bias = bias,
                   .output_bias = bias,
                   .feed_forward_bias = config.flag({"mlp_bias"}, false),
                   .embedding_scale = config.positive({"embedding_multiplier"}, 1.0F),
                   .residual_factor = config.positive({"residual_multiplier"}, 1.0F),
                   .logit_divisor = config.positive({"logits_scaling"}, 1.0F),
                   .score_scale = config.positive({"attention_multiplier"}, 1.0F)});
}

Architecture describe_olmo2(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights) {
  const bool bias = config.flag({"attention_bias"}, false);
  return describe(config, weights,
                  {.query_key_value_bias = bias,
                   .output_bias = bias,
                   .normed_heads = NormedHeads::all,
                   .norms_branches = true,
                   .epsilon = 1e-5F});
}

// With longrope, short texts and long ones have other rotary frequencies, for all their positions: what is stored of a
// short text does not fit to the long one that it becomes. A model has one context, therefore, and its table.
Architecture describe_phi3(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights) {
  Variant variant{.is_fused = true, .has_windows = true, .epsilon = 1e-5F};
  const Transformer sizes = sizes_of(config);
  const std::int64_t positions = config.number({"max_position_embeddings"});
  std::optional<LongRotary> rotary = read_long_rotary(config, {.theta = config.positive({"rope_theta"}, variant.theta),
                                                               .head_size = sizes.head_size,
                                                               .max_positions = positions});
  if (!rotary) return describe(config, weights, variant);
  variant.rotary = std::move(rotary->short_texts);
  Architecture architecture = describe(config, weights, variant);
  if (rotary->original_positions >= positions) return architecture;
  architecture.max_tokens = rotary->original_positions;
  architecture.long_context = {.rotary = {std::move(rotary->long_texts)}, .max_tokens = positions};
  return architecture;
}

Architecture describe_smollm3(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights) {
  const bool bias = config.flag({"attention_bias"}, false);
  constexpr float theta = 2000000;
  Variant variant{.query_key_value_bias = bias,
                  .output_bias = bias,
                  .feed_forward_bias = config.flag({"mlp_bias"}, false),
                  .has_windows = config.flag({"use_sliding_window"}, false),
                  .theta = theta,
                  .has_rotary = rotary_layers(config)};
  if (variant.has_windows && config.find({"layer_types"}) == nullptr) {
    config.refuse("layer_types", nullptr, "a list, where use_sliding_window is true");
  }
  return describe(config, weights, variant);
}

}  // namespace gpux::importer

// BERT's post-norm layers with rotary positions: NomicBERT, GTE's new encoders and Jina's embeddings v3. Each has the
// names of its own repository and those of transformers.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "importer/families/family.h"
#include "importer/families/rotary_settings.h"
#include "importer/families/tensor_names.h"

namespace gpux::importer {
namespace {

/// The settings that the three families share.
struct Settings {
  std::int64_t layers = 0, heads = 0, hidden = 0, inner = 0, positions = 0, vocabulary = 0, types = 0;
  float epsilon = 1e-12F;
  float theta = 10000;
  bool attention_bias = true;
};

Architecture begin(const Settings& settings, const TensorNames& names, const std::string& norm) {
  require_encoder_sizes(settings.layers, settings.hidden, settings.heads);
  Architecture architecture;
  Embeddings& embeddings = architecture.embeddings;
  embeddings = {.vocabulary = settings.vocabulary,
                .size = settings.hidden,
                .norm = names.layer_norm(norm, settings.hidden, settings.epsilon)};
  embeddings.words = names.table("embeddings.word_embeddings", embeddings.word_adapter);
  if (settings.types > 0) {
    embeddings.token_types = names.table("embeddings.token_type_embeddings", embeddings.token_type_adapter);
    embeddings.token_type_count = settings.types;
    embeddings.token_type_input = settings.types > 1;
  }
  architecture.max_tokens = settings.positions;
  architecture.transformer = {.hidden_size = settings.hidden,
                              .heads = settings.heads,
                              .kv_heads = settings.heads,
                              .head_size = settings.hidden / settings.heads};
  return architecture;
}

// Query, key and value of one fused tensor, or of three with transformers' names.
Attention attention_of(const TensorNames& names, const std::string& at, const std::string& fused,
                       const std::string& output, const Settings& settings) {
  const std::int64_t hidden = settings.hidden;
  const bool bias = settings.attention_bias;
  Attention attention;
  if (names.has_linear(at + fused)) {
    attention.query = names.rows(at + fused, hidden, hidden, 0, 3 * hidden, bias);
    attention.key = names.rows(at + fused, hidden, hidden, hidden, 3 * hidden, bias);
    attention.value = names.rows(at + fused, hidden, hidden, 2 * hidden, 3 * hidden, bias);
  } else {
    attention.query = names.linear(at + "self_attn.q_proj", hidden, hidden, bias);
    attention.key = names.linear(at + "self_attn.k_proj", hidden, hidden, bias);
    attention.value = names.linear(at + "self_attn.v_proj", hidden, hidden, bias);
  }
  const bool has_own_name = names.has_linear(at + output);
  attention.output = names.linear(at + (has_own_name ? output : "self_attn.o_proj"), hidden, hidden, bias);
  attention.rotary = 0;
  attention.score_scale = default_score_scale(hidden / settings.heads);
  return attention;
}

Residual norm_of(const TensorNames& names, const std::string& at, const std::string& own, const std::string& native,
                 const Settings& settings) {
  const bool has_own_name = names.has(at + own + ".weight");
  return post_norm(names.layer_norm(at + (has_own_name ? own : native), settings.hidden, settings.epsilon));
}

void require_no_head(const checkpoint::ConfigReader& config) {
  if (head_kind_of(config.architecture()) == HeadKind::vectors) return;
  config.refuse("architectures", config.architecture(), "the encoder without a head");
}

TensorScope scope_of(const TensorNames& names, const std::string& layers) {
  return {.prefixes = {names.full("embeddings."), names.full("emb_ln."), names.full("encoder."), names.full("layers.")},
          .layers = names.full(layers),
          .ignored_suffixes = {"position_ids", "token_type_ids", "inv_freq"}};
}

}  // namespace

Architecture describe_nomic_bert(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights) {
  refuse_other_computations(config);
  require_no_head(config);
  for (const char* name : {"prenorm", "use_rms_norm", "parallel_block", "causal", "rotary_emb_interleaved",
                           "scale_attn_by_inverse_layer_idx", "qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias"}) {
    config.require_flag(name, false, false);
  }
  for (const char* name : {"rotary_emb_scale_base", "num_experts"}) {
    const auto* value = config.find({name});
    if (value != nullptr && *value != checkpoint::ConfigReader::Json(0)) config.refuse(name, *value, "null");
  }
  if (const auto* fraction = config.find({"rotary_emb_fraction"}); fraction != nullptr && *fraction != 1.0) {
    config.refuse("rotary_emb_fraction", *fraction, "1");
  }
  Settings settings{.layers = config.number({"num_hidden_layers", "n_layer"}),
                    .heads = config.number({"num_attention_heads", "n_head"}),
                    .hidden = config.number({"hidden_size", "n_embd"}),
                    .inner = config.number({"intermediate_size", "n_inner"}),
                    .positions = config.number({"max_position_embeddings", "n_positions"}),
                    .vocabulary = config.number({"vocab_size"}),
                    .types = config.number({"type_vocab_size"}, 2),
                    .epsilon = config.positive({"layer_norm_eps", "layer_norm_epsilon"}, 1e-12F),
                    .theta = config.positive({"rotary_emb_base"}, 1000.0F),
                    .attention_bias = false};
  // Rotations beyond the trained positions depend on the length; up to there they do not.
  if (config.find({"rotary_scaling_factor"}) != nullptr) {
    settings.positions = std::min(settings.positions, config.number({"max_trained_positions"}, 2048));
  }
  const std::string activation = config.text({"hidden_act", "activation_function"}, "silu");
  if (activation != "silu" && activation != "swiglu") config.refuse("activation_function", activation, "swiglu, silu");

  const TensorNames names(weights, {"", "bert.", "nomic_bert.", "model."}, "embeddings.word_embeddings.weight");
  Architecture architecture = begin(settings, names, names.has("emb_ln.weight") ? "emb_ln" : "embeddings.LayerNorm");
  architecture.transformer.rotary = {read_rotary(
      config,
      {.theta = settings.theta, .head_size = architecture.transformer.head_size, .max_positions = settings.positions})};
  const bool is_own = names.has("encoder.layers.0.norm1.weight");
  const std::string layers = is_own ? "encoder.layers." : "layers.";
  for (std::int64_t i = 0; i < settings.layers; ++i) {
    const std::string at = fmt::format("{}{}.", layers, i);
    Layer layer;
    layer.attention = attention_of(names, at, "attn.Wqkv", "attn.out_proj", settings);
    layer.attention_residual = norm_of(names, at, "norm1", "post_attention_layernorm", settings);
    const auto inner = [&](const char* own, const char* native, std::int64_t from, std::int64_t to) {
      return names.linear(at + "mlp." + (is_own ? own : native), from, to, false);
    };
    layer.feed_forward = {.gate = inner("fc12", "gate_proj", settings.hidden, settings.inner),
                          .up = inner("fc11", "up_proj", settings.hidden, settings.inner),
                          .down = inner("fc2", "down_proj", settings.inner, settings.hidden),
                          .activation = checkpoint::Activation::silu};
    layer.feed_forward_residual = norm_of(names, at, "norm2", "post_mlp_layernorm", settings);
    architecture.transformer.layers.push_back(std::move(layer));
  }
  architecture.scope = scope_of(names, layers);
  return architecture;
}

Architecture describe_gte(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights) {
  refuse_other_computations(config);
  config.require_text("position_embedding_type", "rope", "rope");
  config.require_text("layer_norm_type", "layer_norm", "layer_norm");
  config.require_flag("logn_attention_scale", false, false);
  config.require_flag("logn_attention_clip1", false, false);
  const Settings settings{.layers = config.number({"num_hidden_layers"}),
                          .heads = config.number({"num_attention_heads"}),
                          .hidden = config.number({"hidden_size"}),
                          .inner = config.number({"intermediate_size"}),
                          .positions = config.number({"max_position_embeddings"}),
                          .vocabulary = config.number({"vocab_size"}),
                          .types = config.number({"type_vocab_size"}, 1),
                          .epsilon = config.positive({"layer_norm_eps"}, 1e-12F),
                          .theta = config.positive({"rope_theta"}, 10000.0F)};
  const TensorNames names(weights, {"", "new.", "gte.", "model."}, "embeddings.word_embeddings.weight");
  const TensorNames outside(weights, {""}, "");
  Architecture architecture = begin(settings, names, "embeddings.LayerNorm");
  architecture.transformer.rotary = {read_rotary(
      config,
      {.theta = settings.theta, .head_size = architecture.transformer.head_size, .max_positions = settings.positions})};
  const checkpoint::Activation activation = read_activation(config, "hidden_act", "gelu");
  const bool is_own = names.has("encoder.layer.0.attn_ln.weight");
  const std::string layers = is_own ? "encoder.layer." : "layers.";
  const std::int64_t hidden = settings.hidden, inner = settings.inner;
  for (std::int64_t i = 0; i < settings.layers; ++i) {
    const std::string at = fmt::format("{}{}.", layers, i);
    Layer layer;
    layer.attention = attention_of(names, at, "attention.qkv_proj", "attention.o_proj", settings);
    layer.attention_residual = norm_of(names, at, "attn_ln", "post_attention_layernorm", settings);
    layer.feed_forward = {.down = names.linear(at + "mlp.down_proj", inner, hidden), .activation = activation};
    if (names.has(at + "mlp.up_gate_proj.weight")) {
      layer.feed_forward.up = names.rows(at + "mlp.up_gate_proj", hidden, inner, 0, 2 * inner, false);
      layer.feed_forward.gate = names.rows(at + "mlp.up_gate_proj", hidden, inner, inner, 2 * inner, false);
    } else {
      layer.feed_forward.up = names.linear(at + "mlp.up_proj", hidden, inner, false);
      layer.feed_forward.gate = names.linear(at + "mlp.gate_proj", hidden, inner, false);
    }
    layer.feed_forward_residual = norm_of(names, at, "mlp_ln", "post_mlp_layernorm", settings);
    architecture.transformer.layers.push_back(std::move(layer));
  }
  Head& head = architecture.head;
  head.kind = head_kind_of(config.architecture());
  if (head.kind == HeadKind::classification) {
    head.pooling = GraphPooling::cls;
    head.dense = names.linear("pooler.dense", hidden, hidden);
    head.activation = checkpoint::Activation::tanh;
    head.out = outside.linear("classifier", hidden, config.labels());
  } else if (head.kind == HeadKind::token_classification) {
    head.out = outside.linear("classifier", hidden, config.labels());
  } else {
    require_no_head(config);
  }
  architecture.labels = config.labels();
  architecture.scope = scope_of(names, layers);
  return architecture;
}

namespace {

// One for each task that lora_adaptations names; empty where the weights are one model.
std::optional<Adapter> read_adapters(const checkpoint::ConfigReader& config) {
  const auto* names = config.find({"lora_adaptations"});
  if (names == nullptr) return std::nullopt;
  constexpr std::size_t max_tasks = 1000;
  if (!names->is_array() || names->empty() || names->size() > max_tasks) {
    config.refuse("lora_adaptations", *names, "a list of names");
  }
  const std::int64_t rank = config.number({"lora_rank"}, 4);
  constexpr std::int64_t max_rank = 65536;
  if (rank < 1 || rank > max_rank) config.refuse("lora_rank", rank, "1 to 65536");
  return Adapter{.tasks = static_cast<std::int64_t>(names->size()),
                 .rank = rank,
                 .scale = config.positive({"lora_alpha"}, 1.0F) / static_cast<float>(rank)};
}

}  // namespace

Architecture describe_jina_v3(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights) {
  refuse_other_computations(config);
  require_no_head(config);
  config.require_text("position_embedding_type", "rotary", "rotary");
  const Settings settings{.layers = config.number({"num_hidden_layers"}),
                          .heads = config.number({"num_attention_heads"}),
                          .hidden = config.number({"hidden_size"}),
                          .inner = config.number({"intermediate_size"}),
                          .positions = config.number({"max_position_embeddings"}),
                          .vocabulary = config.number({"vocab_size"}),
                          .types = config.number({"type_vocab_size"}, 1),
                          .epsilon = config.positive({"layer_norm_eps"}, 1e-5F),
                          .theta = config.positive({"rotary_emb_base", "rope_theta"}, 20000.0F)};
  const std::optional<Adapter> adapters = read_adapters(config);
  const char* const probe =
      adapters ? "embeddings.word_embeddings.parametrizations.weight.original" : "embeddings.word_embeddings.weight";
  TensorNames names(weights, {"", "roberta.", "model."}, probe);
  if (adapters) {
    if (!names.has(probe)) {
      config.refuse("lora_adaptations", *config.find({"lora_adaptations"}), "null: the weights have no adapters");
    }
    if (settings.types > 1) config.refuse("type_vocab_size", settings.types, "1, in a model with adapters");
    names.use_adapters(*adapters);
  }
  Architecture architecture = begin(settings, names, names.has("emb_ln.weight") ? "emb_ln" : "embeddings.LayerNorm");
  architecture.tasks = adapters ? adapters->tasks : 0;
  architecture.transformer.rotary = {read_rotary(
      config,
      {.theta = settings.theta, .head_size = architecture.transformer.head_size, .max_positions = settings.positions})};
  const checkpoint::Activation activation = read_activation(config, "hidden_act", "gelu");
  const bool is_own = names.has("encoder.layers.0.norm1.weight");
  const std::string layers = is_own ? "encoder.layers." : "layers.";
  for (std::int64_t i = 0; i < settings.layers; ++i) {
    const std::string at = fmt::format("{}{}.", layers, i);
    Layer layer;
    layer.attention = attention_of(names, at, "mixer.Wqkv", "mixer.out_proj", settings);
    layer.attention_residual = norm_of(names, at, "norm1", "post_attention_layernorm", settings);
    layer.feed_forward = {.up = names.linear(at + "mlp.fc1", settings.hidden, settings.inner),
                          .down = names.linear(at + "mlp.fc2", settings.inner, settings.hidden),
                          .activation = activation};
    layer.feed_forward_residual = norm_of(names, at, "norm2", "post_mlp_layernorm", settings);
    architecture.transformer.layers.push_back(std::move(layer));
  }
  architecture.scope = scope_of(names, layers);
  return architecture;
}

// The repository's config.json has xlm-roberta's model type.
bool is_jina_v3(const checkpoint::ConfigReader& config) {
  return config.text({"position_embedding_type"}, "absolute") == "rotary";
}

}  // namespace gpux::importer

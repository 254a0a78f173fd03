// ViT, DINOv2 (with registers), CLIP and SigLIP.
#include "importer/families/vision.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "gpux/error.h"
#include "importer/families/tensor_names.h"

namespace gpux::importer {
namespace {

constexpr std::array<std::string_view, 5> families{"vit", "dinov2", "dinov2_with_registers", "clip", "siglip"};

struct Sizes {
  std::int64_t layers, hidden, heads;
};

Sizes sizes_of(const checkpoint::ConfigReader& config, Sizes otherwise) {
  const Sizes sizes{config.number({"num_hidden_layers"}, otherwise.layers),
                    config.number({"hidden_size"}, otherwise.hidden),
                    config.number({"num_attention_heads"}, otherwise.heads)};
  require_encoder_sizes(sizes.layers, sizes.hidden, sizes.heads);
  return sizes;
}

Transformer transformer_of(const Sizes& sizes) {
  return {.hidden_size = sizes.hidden,
          .heads = sizes.heads,
          .kv_heads = sizes.heads,
          .head_size = sizes.hidden / sizes.heads,
          .is_masked = false};
}

PatchEmbeddings patches_of(const checkpoint::ConfigReader& config, std::int64_t hidden, std::int64_t image_size,
                           std::int64_t patch_size) {
  PatchEmbeddings patches{.channels = config.number({"num_channels"}, 3),
                          .size = hidden,
                          .image_size = config.number({"image_size"}, image_size),
                          .patch_size = config.number({"patch_size"}, patch_size)};
  constexpr std::int64_t max_side = 1 << 16;
  if (patches.channels != 3) {
    throw Error(ErrorCode::invalid_config,
                fmt::format("config.json: num_channels is {}; accepted: 3", patches.channels));
  }
  const bool fits =
      patches.patch_size >= 1 && patches.image_size >= patches.patch_size && patches.image_size <= max_side;
  if (fits) return patches;
  throw Error(ErrorCode::invalid_config, fmt::format("config.json: images of {} pixels do not have patches of {}",
                                                     patches.image_size, patches.patch_size));
}

// The layers of CLIP and SigLIP, of either tower.
void add_clip_layers(const checkpoint::ConfigReader& config, const TensorNames& names, const Sizes& sizes,
                     std::int64_t inner, float epsilon, const char* activation, bool is_causal,
                     Transformer& transformer) {
  const checkpoint::Activation activated = read_activation(config, "hidden_act", activation);
  const std::int64_t hidden = sizes.hidden;
  for (std::int64_t i = 0; i < sizes.layers; ++i) {
    const auto at = [&](std::string_view name) { return fmt::format("encoder.layers.{}.{}", i, name); };
    transformer.layers.push_back(
        {.attention = {.query = names.linear(at("self_attn.q_proj"), hidden, hidden),
                       .key = names.linear(at("self_attn.k_proj"), hidden, hidden),
                       .value = names.linear(at("self_attn.v_proj"), hidden, hidden),
                       .output = names.linear(at("self_attn.out_proj"), hidden, hidden),
                       .causal = is_causal,
                       .score_scale = default_score_scale(transformer.head_size)},
         .attention_residual = pre_norm(names.layer_norm(at("layer_norm1"), hidden, epsilon)),
         .feed_forward = {.up = names.linear(at("mlp.fc1"), hidden, inner),
                          .down = names.linear(at("mlp.fc2"), inner, hidden),
                          .activation = activated},
         .feed_forward_residual = pre_norm(names.layer_norm(at("layer_norm2"), hidden, epsilon))});
  }
}

// {"text_config": {…}, "text_config_dict": {…}}: the second, where it is not null, counts, as in transformers.
checkpoint::ConfigReader nested(const nlohmann::json& config, const std::string& key) {
  nlohmann::json merged = nlohmann::json::object();
  for (const std::string& name : {key, key + "_dict"}) {
    const auto found = config.find(name);
    if (found == config.end() || found->is_null()) continue;
    if (!found->is_object()) {
      throw Error(ErrorCode::invalid_config, fmt::format("config.json: {} is no object", name));
    }
    merged.update(*found);
  }
  return checkpoint::ConfigReader(merged.dump());
}

std::int64_t rows_of(const checkpoint::Weights& weights, const std::string& name) {
  const Shape& shape = weights.shape(name);
  return shape.empty() ? 0 : shape.front();
}

TextTowerArchitecture text_tower(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights,
                                 bool is_clip) {
  const TensorNames names(weights, {"text_model."}, "");
  const TensorNames outside(weights, {""}, "");
  const Sizes sizes = sizes_of(config, {12, is_clip ? 512 : 768, is_clip ? 8 : 12});
  const std::int64_t inner = config.number({"intermediate_size"}, is_clip ? 2048 : 3072);
  const float epsilon = config.positive({"layer_norm_eps"}, is_clip ? 1e-5F : 1e-6F);
  TextTowerArchitecture tower;
  tower.embeddings = {.words = names.full("embeddings.token_embedding.weight"),
                      .vocabulary = config.number({"vocab_size"}, is_clip ? 49408 : 32000),
                      .size = sizes.hidden,
                      .positions = names.full("embeddings.position_embedding.weight"),
                      .position_count = config.number({"max_position_embeddings"}, is_clip ? 77 : 64)};
  tower.transformer = transformer_of(sizes);
  tower.transformer.is_masked = is_clip;
  add_clip_layers(config, names, sizes, inner, epsilon, is_clip ? "quick_gelu" : "gelu_pytorch_tanh", is_clip,
                  tower.transformer);
  tower.transformer.final_norm = names.layer_norm("final_layer_norm", sizes.hidden, epsilon);
  if (is_clip) {
    constexpr std::int64_t former_eos_token = 2, clip_eos_token = 49407;
    const std::int64_t eos_token = config.number({"eos_token_id"}, clip_eos_token);
    tower.head = {
        .output = "text_embeds",
        .eos_token = eos_token,
        .is_highest_token = eos_token == former_eos_token,
        .dense = outside.linear("text_projection", sizes.hidden, rows_of(weights, "text_projection.weight"), false)};
  } else {
    tower.head = {.output = "pooler_output",
                  .dense = names.linear("head", sizes.hidden, rows_of(weights, "text_model.head.weight"))};
  }
  return tower;
}

ImageArchitecture image_tower(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights,
                              bool is_clip) {
  const TensorNames names(weights, {"vision_model."}, "");
  const TensorNames outside(weights, {""}, "");
  const Sizes sizes = sizes_of(config, {12, 768, 12});
  const std::int64_t inner = config.number({"intermediate_size"}, 3072), hidden = sizes.hidden;
  const float epsilon = config.positive({"layer_norm_eps"}, is_clip ? 1e-5F : 1e-6F);
  const char* activation = is_clip ? "quick_gelu" : "gelu_pytorch_tanh";
  ImageArchitecture tower;
  tower.embeddings = patches_of(config, hidden, 224, is_clip ? 32 : 16);
  tower.embeddings.weight = names.full("embeddings.patch_embedding.weight");
  tower.embeddings.positions = names.full("embeddings.position_embedding.weight");
  tower.transformer = transformer_of(sizes);
  add_clip_layers(config, names, sizes, inner, epsilon, activation, false, tower.transformer);
  if (is_clip) {
    tower.embeddings.class_token = names.full("embeddings.class_embedding");
    tower.embeddings.norm = names.layer_norm("pre_layrnorm", hidden, epsilon);
    tower.head = {
        .kind = ImageHeadKind::projection,
        .norm = names.layer_norm("post_layernorm", hidden, epsilon),
        .dense = outside.linear("visual_projection", hidden, rows_of(weights, "visual_projection.weight"), false)};
    return tower;
  }
  config.require_flag("vision_use_head", true, true);
  tower.embeddings.bias = names.full("embeddings.patch_embedding.bias");
  tower.transformer.final_norm = names.layer_norm("post_layernorm", hidden, epsilon);
  tower.head = {
      .kind = ImageHeadKind::attention_pooling,
      .attention = AttentionPooling{.probe = names.full("head.probe"),
                                    .in_weight = names.full("head.attention.in_proj_weight"),
                                    .in_bias = names.full("head.attention.in_proj_bias"),
                                    .out = names.linear("head.attention.out_proj", hidden, hidden),
                                    .norm = names.layer_norm("head.layernorm", hidden, epsilon),
                                    .feed_forward = {.up = names.linear("head.mlp.fc1", hidden, inner),
                                                     .down = names.linear("head.mlp.fc2", inner, hidden),
                                                     .activation = read_activation(config, "hidden_act", activation)}}};
  return tower;
}

// ViT and DINOv2 have the same names but for norms and feed-forward.
ImageArchitecture vit(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights,
                      std::string_view model_type) {
  const bool is_vit = model_type == "vit";
  const bool has_registers = model_type == "dinov2_with_registers";
  const TensorNames names(weights, {"", fmt::format("{}.", model_type)}, "embeddings.position_embeddings");
  const TensorNames outside(weights, {""}, "");
  const Sizes sizes = sizes_of(config, {12, 768, 12});
  const std::int64_t hidden = sizes.hidden;
  const float epsilon = config.positive({"layer_norm_eps"}, is_vit ? 1e-12F : 1e-6F);
  const bool has_bias = config.flag({"qkv_bias"}, true);
  const checkpoint::Activation activation = read_activation(config, "hidden_act", "gelu");
  const bool is_gated = !is_vit && config.flag({"use_swiglu_ffn"}, false);
  std::int64_t inner = is_vit ? config.number({"intermediate_size"}, 3072) : config.number({"mlp_ratio"}, 4) * hidden;
  if (is_gated) inner = (inner * 2 / 3 + 7) / 8 * 8;

  ImageArchitecture model;
  model.embeddings = patches_of(config, hidden, 224, is_vit || has_registers ? 16 : 14);
  model.embeddings.weight = names.full("embeddings.patch_embeddings.projection.weight");
  model.embeddings.bias = names.full("embeddings.patch_embeddings.projection.bias");
  model.embeddings.class_token = names.full("embeddings.cls_token");
  model.embeddings.positions = names.full("embeddings.position_embeddings");
  if (!is_vit) {
    model.embeddings.resize = has_registers ? PositionResize::bicubic_antialias : PositionResize::bicubic;
  }
  if (has_registers) {
    model.embeddings.register_count = config.number({"num_register_tokens"}, 4);
    if (model.embeddings.register_count != 0) model.embeddings.registers = names.full("embeddings.register_tokens");
  }
  model.transformer = transformer_of(sizes);
  for (std::int64_t i = 0; i < sizes.layers; ++i) {
    const auto at = [&](std::string_view name) { return fmt::format("encoder.layer.{}.{}", i, name); };
    Layer layer{.attention = {.query = names.linear(at("attention.attention.query"), hidden, hidden, has_bias),
                              .key = names.linear(at("attention.attention.key"), hidden, hidden, has_bias),
                              .value = names.linear(at("attention.attention.value"), hidden, hidden, has_bias),
                              .output = names.linear(at("attention.output.dense"), hidden, hidden),
                              .score_scale = default_score_scale(model.transformer.head_size)}};
    layer.attention_residual = pre_norm(names.layer_norm(at(is_vit ? "layernorm_before" : "norm1"), hidden, epsilon));
    layer.feed_forward_residual = pre_norm(names.layer_norm(at(is_vit ? "layernorm_after" : "norm2"), hidden, epsilon));
    if (is_vit) {
      layer.feed_forward = {.up = names.linear(at("intermediate.dense"), hidden, inner),
                            .down = names.linear(at("output.dense"), inner, hidden),
                            .activation = activation};
    } else {
      layer.attention_residual.branch_scale = names.full(at("layer_scale1.lambda1"));
      layer.feed_forward_residual.branch_scale = names.full(at("layer_scale2.lambda1"));
    }
    if (is_gated) {
      layer.feed_forward = {.gate = names.rows(at("mlp.weights_in"), hidden, inner, 0, 2 * inner),
                            .up = names.rows(at("mlp.weights_in"), hidden, inner, inner, 2 * inner),
                            .down = names.linear(at("mlp.weights_out"), inner, hidden),
                            .activation = checkpoint::Activation::silu};
    } else if (!is_vit) {
      layer.feed_forward = {.up = names.linear(at("mlp.fc1"), hidden, inner),
                            .down = names.linear(at("mlp.fc2"), inner, hidden),
                            .activation = activation};
    }
    model.transformer.layers.push_back(std::move(layer));
  }
  model.transformer.final_norm = names.layer_norm("layernorm", hidden, epsilon);
  if (config.architecture().ends_with("ForImageClassification")) {
    const std::int64_t width = is_vit ? hidden : 2 * hidden;
    model.head = {.kind = ImageHeadKind::classification,
                  .dense = outside.linear("classifier", width, config.labels()),
                  .with_mean_of_patches = !is_vit};
  } else if (is_vit && names.has("pooler.dense.weight")) {
    config.require_text("pooler_act", "tanh", "tanh");
    model.head = {.kind = ImageHeadKind::pooler,
                  .dense = names.linear("pooler.dense", hidden, rows_of(weights, names.full("pooler.dense.weight")))};
  }
  return model;
}

}  // namespace

bool is_vision_family(std::string_view model_type) noexcept {
  return std::find(families.begin(), families.end(), model_type) != families.end();
}

VisionModel describe_vision_model(std::string_view config_json, const checkpoint::Weights& weights) {
  const checkpoint::ConfigReader config(config_json);
  VisionModel model{.model_type = config.text({"model_type"}, "")};
  if (model.model_type != "clip" && model.model_type != "siglip") {
    const std::string architecture = config.architecture();
    const bool is_known =
        architecture.empty() || architecture.ends_with("Model") || architecture.ends_with("ForImageClassification");
    if (!is_known) config.refuse("architectures", architecture, "…Model, …ForImageClassification");
    model.image = vit(config, weights, model.model_type);
    model.ignored = {"embeddings.mask_token"};
    return model;
  }
  const bool is_clip = model.model_type == "clip";
  const auto json = parse_bounded_json<nlohmann::json>(config_json);
  model.image = image_tower(nested(json, "vision_config"), weights, is_clip);
  model.text = text_tower(nested(json, "text_config"), weights, is_clip);
  if (model.image.head.kind == ImageHeadKind::projection && model.image.head.dense.out != model.text->head.dense.out) {
    throw Error(ErrorCode::invalid_model,
                fmt::format("visual_projection has {} rows, and text_projection {}: texts and images would not be "
                            "comparable",
                            model.image.head.dense.out, model.text->head.dense.out));
  }
  model.ignored = {"logit_scale", "logit_bias", "position_ids"};
  return model;
}

}  // namespace gpux::importer

#include "importer/families/tensor_names.h"

#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "gpux/error.h"

namespace gpux::importer {

TensorNames::TensorNames(const checkpoint::Weights& weights, std::initializer_list<std::string_view> prefixes,
                         std::string_view probe)
    : weights_(weights), prefix_(*prefixes.begin()) {
  for (const std::string_view prefix : prefixes) {
    if (!weights.has(fmt::format("{}{}", prefix, probe))) continue;
    prefix_ = prefix;
    return;
  }
}

bool TensorNames::has_adapters(std::string_view name) const {
  return adapters_ && has(fmt::format("{}.parametrizations.weight.original", name));
}

bool TensorNames::has_linear(std::string_view name) const {
  return has_adapters(name) || has(fmt::format("{}.weight", name));
}

std::string TensorNames::table(std::string_view name, std::optional<Adapter>& adapter) const {
  if (!adapters_ || !has_adapters(name)) return fmt::format("{}{}.weight", prefix_, name);
  const std::string at = fmt::format("{}{}.parametrizations.weight.", prefix_, name);
  adapter = adapters_;
  adapter->down = at + "0.lora_A";
  adapter->up = at + "0.lora_B";
  return at + "original";
}

Linear TensorNames::linear(std::string_view name, std::int64_t in, std::int64_t out, bool has_bias) const {
  return rows(name, in, out, 0, 0, has_bias);
}

Linear TensorNames::rows(std::string_view name, std::int64_t in, std::int64_t out, std::int64_t first_row,
                         std::int64_t stored_rows, bool has_bias) const {
  Linear linear{.bias = has_bias ? fmt::format("{}{}.bias", prefix_, name) : std::string(),
                .in = in,
                .out = out,
                .first_row = first_row,
                .stored_rows = stored_rows};
  linear.weight = table(name, linear.adapter);
  return linear;
}

Norm TensorNames::layer_norm(std::string_view name, std::int64_t size, float epsilon, bool has_bias) const {
  const bool is_old = weights_.has(fmt::format("{}{}.gamma", prefix_, name));
  return {.kind = NormKind::layer,
          .weight = fmt::format("{}{}.{}", prefix_, name, is_old ? "gamma" : "weight"),
          .bias = has_bias ? fmt::format("{}{}.{}", prefix_, name, is_old ? "beta" : "bias") : std::string(),
          .size = size,
          .epsilon = epsilon};
}

Norm TensorNames::rms_norm(std::string_view name, std::int64_t size, float epsilon, float weight_offset) const {
  return {.kind = NormKind::rms,
          .weight = fmt::format("{}{}.weight", prefix_, name),
          .bias = {},
          .size = size,
          .epsilon = epsilon,
          .weight_offset = weight_offset};
}

float default_score_scale(std::int64_t head_size) {
  return 1 / std::sqrt(static_cast<float>(head_size));
}

checkpoint::Activation read_activation(const checkpoint::ConfigReader& config, const char* key, const char* otherwise) {
  static constexpr std::array<std::pair<std::string_view, checkpoint::Activation>, 8> known{
      {{"gelu", checkpoint::Activation::gelu},
       {"gelu_new", checkpoint::Activation::gelu_tanh},
       {"gelu_pytorch_tanh", checkpoint::Activation::gelu_tanh},
       {"gelu_fast", checkpoint::Activation::gelu_tanh},
       {"relu", checkpoint::Activation::relu},
       {"silu", checkpoint::Activation::silu},
       {"swish", checkpoint::Activation::silu},
       {"quick_gelu", checkpoint::Activation::quick_gelu}}};
  const std::string name = config.text({key}, otherwise);
  for (const auto& [each, activation] : known) {
    if (name == each) return activation;
  }
  config.refuse(key, name, "gelu, gelu_new, gelu_pytorch_tanh, gelu_fast, relu, silu, swish, quick_gelu");
}

HeadKind head_kind_of(std::string_view architecture) noexcept {
  if (architecture.ends_with("ForSequenceClassification")) return HeadKind::classification;
  if (architecture.ends_with("ForTokenClassification")) return HeadKind::token_classification;
  if (architecture.ends_with("ForQuestionAnswering")) return HeadKind::question_answering;
  return HeadKind::vectors;
}

void require_encoder_sizes(std::int64_t layers, std::int64_t hidden_size, std::int64_t heads) {
  constexpr std::int64_t max_layers = 1024;
  if (heads != 0 && hidden_size != 0 && hidden_size % heads == 0 && layers != 0 && layers <= max_layers) return;
  throw Error(ErrorCode::invalid_config,
              fmt::format("config.json: {} layers of width {} with {} heads do not make an encoder", layers,
                          hidden_size, heads));
}

void require_head_sizes(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_size) {
  if (kv_heads > 0 && heads % kv_heads == 0 && head_size > 0) return;
  throw Error(ErrorCode::invalid_config,
              fmt::format("config.json: {} heads with {} key and value heads of size {} do not make an encoder", heads,
                          kv_heads, head_size));
}

std::vector<bool> sliding_layers(const checkpoint::ConfigReader& config, std::int64_t layers,
                                 const std::function<bool(std::int64_t)>& otherwise) {
  std::vector<bool> sliding;
  const checkpoint::ConfigReader::Json* types = config.find({"layer_types"});
  if (types == nullptr) {
    for (std::int64_t i = 0; i < layers; ++i) sliding.push_back(otherwise(i));
    return sliding;
  }
  if (!types->is_array() || static_cast<std::int64_t>(types->size()) != layers) {
    config.refuse("layer_types", *types, "a list with one entry for each layer");
  }
  for (const checkpoint::ConfigReader::Json& type : *types) {
    if (type != "sliding_attention" && type != "full_attention") {
      config.refuse("layer_types", type, "sliding_attention, full_attention");
    }
    sliding.push_back(type == "sliding_attention");
  }
  return sliding;
}

void refuse_other_computations(const checkpoint::ConfigReader& config) {
  for (const char* name : {"is_decoder", "add_cross_attention", "is_encoder_decoder"}) {
    const checkpoint::ConfigReader::Json* found = config.find({name});
    if (found != nullptr && *found != checkpoint::ConfigReader::Json(false))
      config.refuse(name, *found, "false, an encoder");
  }
  const checkpoint::ConfigReader::Json* pruned = config.find({"pruned_heads"});
  if (pruned != nullptr && !pruned->empty()) config.refuse("pruned_heads", *pruned, "{}, all heads");
}

Head head_of(const checkpoint::ConfigReader& config, const TensorNames& outside, std::int64_t hidden_size,
             const std::function<void(Head& head)>& classifier) {
  Head head{.kind = head_kind_of(config.architecture())};
  switch (head.kind) {
    case HeadKind::classification:
      classifier(head);
      break;
    case HeadKind::token_classification:
      head.out = outside.linear("classifier", hidden_size, config.labels());
      break;
    case HeadKind::question_answering:
      head.out = outside.linear("qa_outputs", hidden_size, 2);
      break;
    case HeadKind::vectors:
      break;
  }
  return head;
}

}  // namespace gpux::importer

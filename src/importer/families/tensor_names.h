#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/config_reader.h"
#include "checkpoint/weights.h"
#include "importer/architecture.h"

namespace gpux::importer {

/// Makes descriptions of linear layers and norms from the names of a file's tensors. A file that holds a model with a
/// head puts a prefix before the encoder's names ("bert.").
class TensorNames {
 public:
  /// The first prefix with which `probe` is a tensor of the file; the first one where none is.
  TensorNames(const checkpoint::Weights& weights, std::initializer_list<std::string_view> prefixes,
              std::string_view probe);

  [[nodiscard]] const std::string& prefix() const noexcept { return prefix_; }

  [[nodiscard]] std::string full(std::string_view name) const { return prefix_ + std::string(name); }

  /// Whether the file has the tensor.
  [[nodiscard]] bool has(std::string_view name) const { return weights_.has(full(name)); }

  /// From now on, linear layers and tables that the file has with adapters (torch's parametrizations: NAME.
  /// parametrizations.weight.original, .0.lora_A and .0.lora_B) are those. `sizes` has no names.
  void use_adapters(Adapter sizes) { adapters_ = std::move(sizes); }

  /// Whether the file has NAME.weight, or the same with adapters where they are used.
  [[nodiscard]] bool has_linear(std::string_view name) const;

  /// NAME.weight, or the same with adapters: then `adapter` is set.
  [[nodiscard]] std::string table(std::string_view name, std::optional<Adapter>& adapter) const;

  /// A linear layer with the tensors NAME.weight and NAME.bias.
  [[nodiscard]] Linear linear(std::string_view name, std::int64_t in, std::int64_t out, bool has_bias = true) const;

  /// Rows of a fused NAME.weight and NAME.bias.
  [[nodiscard]] Linear rows(std::string_view name, std::int64_t in, std::int64_t out, std::int64_t first_row,
                            std::int64_t stored_rows, bool has_bias = true) const;

  /// A layer norm with the tensors NAME.weight and NAME.bias, or NAME.gamma and NAME.beta as in older files.
  [[nodiscard]] Norm layer_norm(std::string_view name, std::int64_t size, float epsilon, bool has_bias = true) const;

  /// An RMS norm with the tensor NAME.weight.
  [[nodiscard]] Norm rms_norm(std::string_view name, std::int64_t size, float epsilon, float weight_offset = 0) const;

 private:
  [[nodiscard]] bool has_adapters(std::string_view name) const;

  const checkpoint::Weights& weights_;
  std::string prefix_;
  std::optional<Adapter> adapters_;
};

/// hidden = norm(hidden + branch(hidden)).
inline Residual post_norm(Norm norm) {
  return {.sum_norm = std::move(norm)};
}

/// hidden = hidden + branch(norm(hidden)).
inline Residual pre_norm(Norm norm) {
  return {.input_norm = std::move(norm)};
}

/// The scale of scores that most families have: 1 / sqrt(head_size).
float default_score_scale(std::int64_t head_size);

/// The activation of that name in transformers, of those that the feed-forward of gpux has. Error invalid_config.
checkpoint::Activation read_activation(const checkpoint::ConfigReader& config, const char* key, const char* otherwise);

/// The head that config.json's `architectures` name: BertForSequenceClassification and its like.
HeadKind head_kind_of(std::string_view architecture) noexcept;

/// The head of the class that `architectures` names, as transformers' encoders have it. `classifier` fills in that of a
/// classifier of texts, the others are one layer.
Head head_of(const checkpoint::ConfigReader& config, const TensorNames& outside, std::int64_t hidden_size,
             const std::function<void(Head& head)>& classifier);

/// Error invalid_config where sizes do not make an encoder: no layers, or heads that do not divide the hidden size.
void require_encoder_sizes(std::int64_t layers, std::int64_t hidden_size, std::int64_t heads);

/// Checks numbers and size of heads. Error invalid_config: heads that cannot be grouped, or no head size.
void require_head_sizes(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_size);

/// Which layers attend within a window: layer_types of config.json ("sliding_attention", "full_attention"), or without
/// it `otherwise(layer)`. Error invalid_config: other types, or not one for each layer.
std::vector<bool> sliding_layers(const checkpoint::ConfigReader& config, std::int64_t layers,
                                 const std::function<bool(std::int64_t)>& otherwise);

/// Keys by which transformers computes something else with the same weights in every family.
void refuse_other_computations(const checkpoint::ConfigReader& config);

}  // namespace gpux::importer

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/config_reader.h"
#include "checkpoint/weights.h"
#include "importer/architecture.h"

/// Models of images, and the text towers that belong to them, as data.
namespace gpux::importer {

/// How the position embeddings of patches are resized for images of another size than the training's.
enum class PositionResize : std::uint8_t {
  refused,
  bicubic,            ///< torch's interpolate: DINOv2
  bicubic_antialias,  ///< the same with antialias: DINOv2 with registers
};

/// From pixels [batch, channels, height, width] to tokens [batch, prefix + patches, size].
struct PatchEmbeddings {
  std::string weight{};  ///< float[size, channels, patch_size, patch_size]
  std::string bias{};    ///< float[size]; empty: none
  std::int64_t channels = 3, size = 0, image_size = 0, patch_size = 0;
  std::string class_token{};  ///< `size` elements; empty: none
  std::string registers{};    ///< float[1, register_count, size], behind the class token, without positions
  std::int64_t register_count = 0;
  std::string positions{};  ///< a row for the class token and each patch of image_size
  PositionResize resize = PositionResize::refused;
  std::optional<Norm> norm{};  ///< norm of the token vectors

  [[nodiscard]] std::int64_t grid() const noexcept { return image_size / patch_size; }
};

/// SigLIP's pooling: a learned query attends to all tokens; then norm and feed-forward with a residual.
struct AttentionPooling {
  std::string probe{};                 ///< float[1, 1, hidden]
  std::string in_weight{}, in_bias{};  ///< float[3 hidden, hidden], float[3 hidden]: query, key, value
  Linear out{};
  Norm norm{};
  FeedForward feed_forward{};
};

enum class ImageHeadKind : std::uint8_t {
  class_token,        ///< pooler_output: the first token's hidden state
  pooler,             ///< pooler_output: tanh(dense(first token))
  projection,         ///< image_embeds: dense(norm(first token))
  attention_pooling,  ///< pooler_output
  classification,     ///< logits: dense(first token), or dense(first token and mean of the patches)
};

struct ImageHead {
  ImageHeadKind kind = ImageHeadKind::class_token;
  std::optional<Norm> norm{};  ///< projection
  Linear dense{};
  bool with_mean_of_patches = false;  ///< classification
  std::optional<AttentionPooling> attention{};
};

struct ImageArchitecture {
  PatchEmbeddings embeddings{};
  Transformer transformer{};
  ImageHead head{};
};

/// The vector of a text of a model with two towers.
struct TextTowerHead {
  std::string output{};                     ///< "text_embeds", "pooler_output"
  std::optional<std::int64_t> eos_token{};  ///< the token whose hidden state it is; empty: the last one
  bool is_highest_token = false;            ///< the token with the highest id instead, as the first CLIP models have it
  Linear dense{};
};

struct TextTowerArchitecture {
  Embeddings embeddings{};
  Transformer transformer{};
  TextTowerHead head{};
};

struct VisionModel {
  std::string model_type{};
  ImageArchitecture image{};
  std::optional<TextTowerArchitecture> text{};
  std::vector<std::string> ignored{};  ///< tensors that no tower reads
};

/// Whether describe_vision_model() has such a family: vit, dinov2, dinov2_with_registers, clip, siglip.
[[nodiscard]] bool is_vision_family(std::string_view model_type) noexcept;

/// The description of config.json and its weights. Error invalid_config: a setting that is not supported, by name.
[[nodiscard]] VisionModel describe_vision_model(std::string_view config_json, const checkpoint::Weights& weights);

}  // namespace gpux::importer

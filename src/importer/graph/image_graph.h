#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>

#include "checkpoint/weights.h"
#include "image/recipe.h"
#include "importer/families/vision.h"

namespace gpux::importer {

/// Writes a model of images of that size as ONNX: pixel_values float32[batch, channels, height, width] to the output of
/// its head, float32: pooler_output or image_embeds [batch, width], or logits [batch, labels]; and last_hidden_state
/// [batch, tokens, hidden] except for logits and image_embeds. Gives the names of the tensors that it used. Errors
/// invalid_model (tensors; images of a size that the position embeddings are not for), storage, permission. With an
/// empty `file`, nothing is written.
std::set<std::string> write_image_model(const checkpoint::Weights& weights, const ImageArchitecture& model,
                                        image::Size size, const std::filesystem::path& file);

/// Writes a text tower: input_ids, and where it is masked attention_mask, int64[batch, sequence], to its head's output,
/// float32[batch, width]. With an empty `file`, nothing is written.
std::set<std::string> write_text_tower(const checkpoint::Weights& weights, const TextTowerArchitecture& tower,
                                       const std::filesystem::path& file);

}  // namespace gpux::importer

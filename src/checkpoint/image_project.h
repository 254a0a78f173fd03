#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "image/recipe.h"

namespace gpux::checkpoint {

/// How cosines of images and labels become scores: activation(logit_scale * cosine + logit_bias).
struct ZeroShotScale {
  double logit_scale = 1, logit_bias = 0;
  bool is_sigmoid = false;  ///< sigmoid of each label alone; else softmax over the labels
};

/// The settings of a gpux.yml for a model that takes images.
struct ImageProject {
  std::string name;
  std::string source;              ///< the ONNX file, relative to gpux.yml
  std::string image_tower;         ///< the ONNX file that takes images, where `source` takes texts; may be empty
  std::vector<std::string> files;  ///< that a package keeps
  image::Recipe recipe;
  std::string labelled_output;  ///< may be empty, and `labels` with it
  std::string labelled_type;    ///< its element type ("float32")
  std::vector<std::string> labels;
  bool is_multi_label = false;  ///< each label has a score of its own; else they are shares of 1
  std::optional<ZeroShotScale> zero_shot;
};

/// Text of the gpux.yml for the project.
[[nodiscard]] std::string project_text(const ImageProject& project);

/// Whether config.json's model_type is of a model with a text tower and an image tower that gpux knows: clip, siglip.
[[nodiscard]] bool has_two_towers(std::string_view model_type);

/// The folder as Optimum and transformers.js export it, and as its config.json and image processor describe it: a
/// model.onnx, or text_model.onnx and vision_model.onnx, here or in `onnx`. Empty where the folder says nothing of
/// images, or its ONNX file takes none. Errors invalid_model, not_found (of two towers one is missing; the model has
/// two and is one file), storage.
[[nodiscard]] std::optional<ImageProject> read_image_project(const std::filesystem::path& folder);

/// The scale of CLIP or SigLIP in the folder's weights; empty where it has no weights, or is no such model.
[[nodiscard]] std::optional<ZeroShotScale> read_zero_shot_scale(const std::filesystem::path& folder);

}  // namespace gpux::checkpoint

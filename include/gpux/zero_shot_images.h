#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpux/embedder.h"
#include "gpux/export.h"
#include "gpux/image_embedder.h"
#include "gpux/label_score.h"
#include "gpux/verdict.h"

namespace gpux {

/// The labels of the caller's choice that images are classified by.
struct ZeroShotImageOptions {
  std::vector<std::string> labels;  ///< at least one, none twice
  std::string label_template = {};  ///< {} is the label; empty: the model's
};

/// Classifies images by labels of the caller's choice, with a model of texts and images (CLIP, SigLIP), as
/// `gpux run --labels`. Movable; const calls from several threads at once.
class GPUX_API ZeroShotImageClassifier {
 public:
  /// `model` and `options` as for ImageEmbedder. Loads the text tower for the labels, and then the image tower.
  /// Errors of ImageEmbedder; invalid_input (no labels, an empty one, one twice, a template without {}); usage: the
  /// model has no text tower and image tower; invalid_config: its gpux.yml does not say how scores are made.
  ZeroShotImageClassifier(const std::string& model, const ZeroShotImageOptions& labels,
                          const EmbedderOptions& options = {});
  ~ZeroShotImageClassifier();
  ZeroShotImageClassifier(ZeroShotImageClassifier&&) noexcept;
  ZeroShotImageClassifier& operator=(ZeroShotImageClassifier&&) noexcept;

  /// For each image all labels with their scores, best first. The scores of an image sum up to 1 where the model is
  /// trained so (CLIP); else each label is judged for itself (SigLIP). Errors of ImageEmbedder::embed().
  [[nodiscard]] std::vector<LabelScore> classify(const ImageData& image) const;
  [[nodiscard]] std::vector<std::vector<LabelScore>> classify(std::span<const ImageData> images) const;

  /// Of the image tower.
  [[nodiscard]] const Verdict& verdict() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpux

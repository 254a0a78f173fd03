#include "gpux/zero_shot_images.h"

#include <string_view>

#include "model/label_vectors.h"
#include "model/open_model.h"

namespace gpux {
namespace {

LabelVectors embedded(const std::string& model, const ZeroShotImageOptions& labels, const EmbedderOptions& options) {
  EncoderFlags flags;
  flags.model = model;
  flags.located = locate(model, open_store());
  flags.load = request_of(options.model);
  const ZeroShotSettings settings = zero_shot_settings(*flags.located, labels);
  return embed_labels(flags, labels, settings, [](std::string_view /*line*/) {});
}

}  // namespace

struct ZeroShotImageClassifier::State {
  LabelVectors labels;
  ImageEmbedder images;
};

ZeroShotImageClassifier::ZeroShotImageClassifier(const std::string& model, const ZeroShotImageOptions& labels,
                                                 const EmbedderOptions& options) {
  LabelVectors vectors = embedded(model, labels, options);
  state_ = std::make_unique<State>(std::move(vectors), ImageEmbedder(model, options));
}

ZeroShotImageClassifier::~ZeroShotImageClassifier() = default;
ZeroShotImageClassifier::ZeroShotImageClassifier(ZeroShotImageClassifier&&) noexcept = default;
ZeroShotImageClassifier& ZeroShotImageClassifier::operator=(ZeroShotImageClassifier&&) noexcept = default;

std::vector<LabelScore> ZeroShotImageClassifier::classify(const ImageData& image) const {
  return state_->labels.scores(state_->images.embed(image));
}

std::vector<std::vector<LabelScore>> ZeroShotImageClassifier::classify(std::span<const ImageData> images) const {
  const Embeddings vectors = state_->images.embed(images);
  std::vector<std::vector<LabelScore>> all;
  for (std::size_t i = 0; i < vectors.size(); ++i) all.push_back(state_->labels.scores(vectors[i]));
  return all;
}

const Verdict& ZeroShotImageClassifier::verdict() const noexcept {
  return state_->images.verdict();
}

}  // namespace gpux

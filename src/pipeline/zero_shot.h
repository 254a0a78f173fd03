#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "gpux/label_score.h"
#include "gpux/tensor.h"
#include "gpux/zero_shot.h"

/// Classification with labels of the caller's choice, by a model that was trained to tell whether a text entails a
/// hypothesis (natural language inference). Source: ZeroShotClassificationPipeline of Hugging Face's transformers.
namespace gpux::pipeline {

/// Error invalid_input: there are no labels, one is empty or occurs twice, or the template has no {}.
void check_zero_shot(const ZeroShotOptions& options);

/// The position of the label that begins with "entail", in any case, among a model's labels. Error usage where there is
/// none, or there is one label only: the message names the model and its labels.
std::size_t entailment_index(std::span<const std::string> model_labels, std::string_view model);

/// The inputs `text` and `text_pair` of a text classifier: each text with the hypothesis of each label.
NamedValues zero_shot_pairs(std::span<const std::string> texts, const ZeroShotOptions& options);

/// `logits` are the model's of those pairs, [texts * labels, model labels]. Of each text the labels, best first.
/// Several labels share 1 by a softmax over their entailment; with multi_label, or of one label, each is the softmax
/// over contradiction and entailment. Error invalid_model where the logits are not of these sizes.
std::vector<std::vector<LabelScore>> zero_shot_scores(const Tensor& logits, std::size_t entailment,
                                                      const ZeroShotOptions& options);

}  // namespace gpux::pipeline

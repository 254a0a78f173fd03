#pragma once

#include <string>

#include "checkpoint/weights.h"
#include "importer/architecture.h"

namespace gpux::importer {

/// The head of a masked language model: scores of the vocabulary, decoder(norm(activation(dense(hidden)))) + bias.
struct MaskedLanguageHead {
  Linear dense{};
  checkpoint::Activation activation = checkpoint::Activation::gelu;
  Norm norm{};
  Linear decoder{};    ///< without its bias; often the table of words (tied weights)
  std::string bias{};  ///< float[vocabulary]
};

/// The head in the weights of the encoder, by the names of its tensors: BERT's, RoBERTa's, DistilBERT's or
/// ModernBERT's. Error invalid_model where there is none of these.
MaskedLanguageHead find_masked_language_head(const Architecture& architecture, const checkpoint::Weights& weights);

}  // namespace gpux::importer

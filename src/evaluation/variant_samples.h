#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "checkpoint/sentence_model.h"
#include "evaluation/precision_gate.h"

namespace gpux::evaluation {

/// Inputs on which a model and its variants are compared.
struct VariantSamples {
  Ask ask;
  std::string what;  ///< "64 recorded texts"
  /// The inputs of one of them, of middling length.
  std::function<NamedValues(const Runtime&)> typical;
};

/// The samples of `place` (--samples: a folder with test_data_set_*, an .npz file, JSON lines) where it is given; else,
/// of a model that reads texts, the lines of `texts` (--texts), or recorded ones. Error usage where nothing is left to
/// compare on; those of reading them.
VariantSamples variant_samples(const std::string& texts, const std::string& place,
                               const std::filesystem::path& onnx_file,
                               const std::optional<checkpoint::SentenceModel>& sentences);

/// Default samples of a model: recorded texts where it reads some, as vectors where it makes them; else the data sets
/// beside it, else inputs that are made up. `runtime` holds the model, or one that takes and gives the same. Error
/// invalid_input where nothing can be made up.
VariantSamples samples_at_hand(const std::filesystem::path& onnx_file, const Runtime& runtime);

}  // namespace gpux::evaluation

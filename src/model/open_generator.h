#pragma once

#include <memory>
#include <string>

#include "generation/engine.h"
#include "generation/model_chat.h"
#include "generation/model_files.h"
#include "generation/quantization_gate.h"
#include "gpux/generator.h"
#include "model/open_model.h"
#include "text/tokenizer.h"

namespace gpux {

/// A decoder, and what the files beside it say, which is read first: loading takes longer. Not loaded.
struct OpenGenerator {
  OpenModel model;
  generation::ModelFiles files;
  text::Tokenizer tokenizer;
  std::shared_ptr<const OpenGenerator> draft = {};  ///< the model that guesses tokens; null: none

  /// Reads the chat template: for those who are given conversations.
  [[nodiscard]] generation::ModelChat read_chat() const;

  /// Makes the sessions and the engine that runs them. The draft model has the threads and the device of the model.
  /// `fastest` is decided here. Tells `options.on_load` of what follows LoadPhase::reading. Errors as of
  /// OpenModel::load(), Engine, and require_cache_agreement(int8_cache_agreement()), where keys and values are in int8.
  [[nodiscard]] std::unique_ptr<generation::Engine> load(const GeneratorOptions& options = {}) const;
};

/// How far keys and values in int8 change what the decoder predicts. Measured once for its files, which takes two loads
/// of it, one after the other, and kept. `ran_on`: the verdict of a session with them. Errors of OpenModel::load() and
/// generation::predict().
generation::QuantizationAgreement int8_cache_agreement(const OpenGenerator& open, const GeneratorOptions& options,
                                                       const Verdict& ran_on);

/// Errors of generation::require_decoder(), read_model_files(), embedding::open_tokenizer().
OpenGenerator open_generator(OpenModel model);

/// open_generator() with the draft model of this name, opened as `request` says; empty: none. Error usage: it has other
/// tokens, before anything is loaded.
OpenGenerator open_generator(OpenModel model, const std::string& draft, const LoadRequest& request);

}  // namespace gpux

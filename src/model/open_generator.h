#pragma once

#include <memory>
#include <optional>
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
  /// OpenModel::load() and Engine; usage: keys and values in int8 would change what the model predicts, which is
  /// measured once for its files (model/cache_agreement.h).
  [[nodiscard]] std::unique_ptr<generation::Engine> load(const GeneratorOptions& options = {}) const;
};

/// How far keys and values in int8 change what the decoder predicts, where load() has measured it for its files, and
/// what computes `runtime`, a session with them. Empty: it is not kept.
std::optional<generation::QuantizationAgreement> kept_cache_agreement(const OpenGenerator& open,
                                                                      const Runtime& runtime);

/// Errors of generation::require_decoder(), read_model_files(), embedding::open_tokenizer().
OpenGenerator open_generator(OpenModel model);

/// open_generator() with the draft model of this name, opened as `request` says; empty: none. Error usage: it has other
/// tokens, before anything is loaded.
OpenGenerator open_generator(OpenModel model, const std::string& draft, const LoadRequest& request);

}  // namespace gpux

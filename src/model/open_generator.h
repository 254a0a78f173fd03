#pragma once

#include <memory>
#include <string>

#include "generation/engine.h"
#include "generation/model_chat.h"
#include "generation/model_files.h"
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
  /// OpenModel::load() and Engine.
  [[nodiscard]] std::unique_ptr<generation::Engine> load(const GeneratorOptions& options = {}) const;
};

/// Errors of generation::require_decoder(), read_model_files(), embedding::open_tokenizer().
OpenGenerator open_generator(OpenModel model);

/// open_generator() with the draft model of this name, opened as `request` says; empty: none. Error usage: it has other
/// tokens, before anything is loaded.
OpenGenerator open_generator(OpenModel model, const std::string& draft, const LoadRequest& request);

}  // namespace gpux

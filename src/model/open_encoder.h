#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "embedding/embedder.h"
#include "model/load_settings.h"

namespace gpux {

/// The flags that say which model makes vectors of texts and how, as typed.
struct EncoderFlags {
  std::string model, level, model_dir, prompt;
  std::string pull;  ///< when the command downloads the model: "missing", "always", "never"; the command does it
  std::optional<LocatedModel> located;   ///< what `model` means, where it is known
  bool model_is_word = false;            ///< `model` is the first word behind the command, and no flag
  std::optional<TextBatching> batching;  ///< empty: the default of the provider
  bool level_fallback = false;
  std::optional<std::string> prompt_text;
  std::optional<bool> normalize;  ///< has a flag only where a command adds one
  std::size_t dimensions = 0, max_tokens = 0;
  /// Empty: the model's default one. Commands that need vectors leave it at dense.
  std::optional<embedding::Representation> representation = embedding::Representation::dense;
  embedding::SparseLimits sparse;
  LoadRequest load;
  NameOfSubject name_of = nullptr;  ///< what the messages of open_encoder() call what they name
};

/// An opened text encoder: the model of EncoderFlags, loaded, with the options for embedding.
struct OpenEncoder {
  std::unique_ptr<embedding::TextEmbedder> embedder;
  embedding::EmbedOptions options;  ///< accepted by the embedder
  std::string level;                ///< "low"; empty where a model was named
  std::string digest;               ///< SHA-256 of the ONNX file that runs, in hexadecimal digits
  std::size_t dimension = 0;        ///< of the vectors, after the cut
  unsigned workers = 1;             ///< texts at a time that keep the processors busy
};

/// Takes messages, a line each: the verdict, and the level that is taken instead of another.
using Teller = std::function<void(std::string_view line)>;

/// Whether the level `none` is requested: no vectors are made. Error usage.
bool asks_for_nothing(const EncoderFlags& flags);

/// Loads the model, and says what it runs on. Errors as of Embedder, resolve_load() and Runtime; usage.
OpenEncoder open_encoder(const EncoderFlags& flags, const Teller& tell);

}  // namespace gpux

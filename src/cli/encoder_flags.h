#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/load_flags.h"
#include "cli/model_argument.h"
#include "embedding/embedder.h"

namespace CLI {
class App;
}

namespace gpux::cli {

/// The flags that say which model makes vectors of texts and how, as typed.
struct EncoderFlags {
  std::string model, level, model_dir, prompt, timeout, batching;
  bool model_is_word = false;  ///< `model` is the first word behind the command, and no flag
  bool level_fallback = false;
  std::optional<std::string> prompt_text;
  std::optional<bool> normalize;  ///< has a flag only where a command adds one
  std::size_t dimensions = 0, max_tokens = 0;
  LoadFlags load;
};

/// `flags` has to live as long as the command. Adds no MODEL.
void add_encoder_flags(CLI::App& command, EncoderFlags& flags);

/// What they come to.
struct OpenEncoder {
  std::unique_ptr<embedding::Embedder> embedder;
  embedding::EmbedOptions options;  ///< accepted by the embedder
  std::string level;                ///< "low"; empty where a model was named
  std::string digest;               ///< SHA-256 of the ONNX file that runs, in hexadecimal digits
  std::size_t dimension = 0;        ///< of the vectors, after the cut
  unsigned workers = 1;             ///< texts at a time that keep the processors busy
};

/// Takes the model from the words behind the command where neither --model nor a level names one, and gives the others.
std::vector<std::string> place_model(const ModelArgument& words, EncoderFlags& flags);

/// Whether the level `none` is requested: no vectors are made. Error usage.
bool asks_for_nothing(const EncoderFlags& flags);

/// Loads the model, and says what it runs on. Errors as of Embedder, resolve_load() and Runtime; usage.
OpenEncoder open_encoder(const EncoderFlags& flags, const Context& context);

}  // namespace gpux::cli

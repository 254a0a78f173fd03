#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gpux/error.h"
#include "onnx/block_weights.h"

namespace gpux::importer {

/// The matrices of a file's type that became blocks (onnx/block_weights.h), with nothing lost.
struct StoredWeights {
  std::string type;  ///< of the file: "Q4_K"
  std::int64_t matrices = 0;
  int bits = 0;
  std::int64_t block_size = 0;
};

/// Facts of an imported model, for the report of the import.
struct ImportedModel {
  std::string family;  ///< model_type of config.json
  std::int64_t layers = 0, heads = 0, width = 0;
  std::uint64_t max_tokens = 0;
  std::string pooling;               ///< what is part of the graph ("mean"); empty: nothing is, and it is done outside
  bool normalize = false;            ///< to length 1, as part of the graph
  std::string task;                  ///< what the graph does instead ("classification"); empty: vectors
  std::int64_t labels = 0;           ///< of a classifier
  std::vector<std::string> tasks{};  ///< with an adapter in the graph, by their numbers
  std::vector<std::string> copied;   ///< files of settings, relative to the folder
  std::vector<std::string> left_out{};             ///< a line per file with weights that is not read, with the reason
  std::vector<Message> notes{};                    ///< what the user should know besides, a line each
  std::vector<StoredWeights> weights{};            ///< of a GGUF file, a line for each type that has blocks
  std::int64_t image_height = 0, image_width = 0;  ///< of the images that it computes; 0: it takes none
};

/// How a model that generates text is converted; other models do not have these settings.
struct DecoderImport {
  std::optional<onnx::BlockFormat> blocks{};  ///< of the matrices; without, they keep the precision of the file
  /// Tokens of a prompt and its text together; 0: those of the model, or of its shorter texts where longer ones have
  /// other positions (longrope). If it is more than these, all texts have the positions of longer ones.
  std::int64_t context_length = 0;
  /// Is given the folder before it has its name; what it throws discards it. May be empty.
  std::function<void(const std::filesystem::path& made)> check{};

  [[nodiscard]] bool given() const noexcept { return blocks.has_value() || context_length != 0; }
};

}  // namespace gpux::importer

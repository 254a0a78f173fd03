#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "onnx/block_weights.h"

namespace gpux::importer {

/// The matrices of a file's type that became blocks (onnx/block_weights.h).
struct StoredWeights {
  std::string type;  ///< type in the file: "Q4_K"
  std::int64_t matrices = 0;
  int bits = 0;
  std::int64_t block_size = 0;
  double relative_error = 0;  ///< root mean square of the error, by that of the elements; 0: nothing was lost
};

/// What was concluded from a folder.
struct ImportedEncoder {
  std::string family;  ///< model_type of config.json
  std::int64_t layers = 0, heads = 0, width = 0;
  std::uint64_t max_tokens = 0;
  std::string pooling;               ///< what is part of the graph ("mean"); empty: nothing is, and it is done outside
  bool normalize = false;            ///< to length 1, as part of the graph
  std::string task;                  ///< what the graph does instead ("classification"); empty: vectors
  std::int64_t labels = 0;           ///< number of labels of a classifier
  std::vector<std::string> tasks{};  ///< with an adapter in the graph, by their numbers
  std::vector<std::string> copied;   ///< files of settings, relative to the folder
  std::vector<std::string> left_out{};             ///< a line per file with weights that is not read, with the reason
  std::vector<std::string> notes{};                ///< what the user should know besides, a line each
  std::vector<StoredWeights> weights{};            ///< for a GGUF file, one entry for each type that has blocks
  std::int64_t image_height = 0, image_width = 0;  ///< size of the images that it takes; 0: it takes none
};

/// How a model that generates text is converted; other models do not have these settings.
struct DecoderImport {
  std::optional<onnx::BlockFormat> blocks{};  ///< block format of the matrices; empty: they keep the file's precision
  /// Tokens of a prompt and its text together; 0: those of the model, or of its shorter texts where longer ones have
  /// other positions (longrope). If it is more than these, all texts have the positions of longer ones.
  std::int64_t context_length = 0;
  /// Is given the folder before it has its name; what it throws discards it. May be empty.
  std::function<void(const std::filesystem::path& made)> check{};

  [[nodiscard]] bool given() const noexcept { return blocks.has_value() || context_length != 0; }
};

/// Makes a folder that embeds out of one with weights: model.onnx of its model.safetensors and config.json, and copies
/// of tokenizer.json and the files of settings. A single pooling that the graph can do, and the normalisation behind
/// it, become part of the graph. `target` may not be there yet, or must be empty; where anything fails it is left out.
/// Errors usage (the folder holds ONNX already; `target` is in use; settings of a decoder for another model),
/// not_found, invalid_config (a family or setting that is not served), invalid_model (weights that are not there),
/// storage, permission.
ImportedEncoder import_encoder(const std::filesystem::path& folder, const std::filesystem::path& target,
                               const DecoderImport& decoder = {});

/// Refuses a folder that import_encoder() would refuse because of its settings, or of the names, sizes and types of its
/// tensors. The data of the safetensors files is not looked at: files with a true header and any data behind it do.
/// Gives the size of its weights as float32, which is about that of the ONNX files. Errors as import_encoder().
std::uint64_t require_importable(const std::filesystem::path& folder);

/// Error not_found where neither folder has a tokenizer.json.
void require_tokenizer(const std::filesystem::path& folder, const std::filesystem::path& transformer_folder);

/// Files of settings and of the tokenizer that the folder has, relative to it: what has to come along with its ONNX
/// file.
std::vector<std::string> setting_files_in(const std::filesystem::path& folder);

}  // namespace gpux::importer

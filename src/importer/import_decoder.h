#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "checkpoint/config_reader.h"
#include "checkpoint/weights.h"
#include "importer/architecture.h"
#include "importer/decoder_graph.h"
#include "importer/imported_model.h"

namespace gpux::importer {

/// A decoder, before an element of its weights is read.
struct DecoderDescription {
  Architecture architecture;
  LanguageHead head;
};

/// Error invalid_config: a family or setting of config.json that is not supported, by name.
[[nodiscard]] DecoderDescription describe_decoder(const checkpoint::ConfigReader& config,
                                                  const checkpoint::Weights& weights);

/// Gives the model a context of so many tokens, and the positions of longer texts where it is longer than those of
/// Architecture::max_tokens; 0: it stays. Error usage: more than the model has.
void set_context(Architecture& architecture, std::int64_t tokens);

/// The note about a model with two tables of positions that got the one for `tokens` tokens.
[[nodiscard]] Message note_on_context(const LongContext& longer, std::int64_t tokens);

/// require_importable() for a decoder.
std::uint64_t require_importable_decoder(const std::filesystem::path& folder);

/// Writes into `target`, a folder: the ONNX file of the folder's model.safetensors and config.json, and copies of the
/// files of settings. Errors not_found, invalid_config, invalid_model, storage, permission.
ImportedModel import_decoder(const std::filesystem::path& folder, const std::filesystem::path& target,
                             const DecoderImport& options = {});

}  // namespace gpux::importer

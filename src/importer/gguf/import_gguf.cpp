#include "importer/gguf/import_gguf.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/format_message.h"
#include "base/utf8.h"
#include "checkpoint/config_reader.h"
#include "gpux/error.h"
#include "importer/decoder_graph.h"
#include "importer/gguf/gguf_file.h"
#include "importer/gguf/gguf_weights.h"
#include "importer/gguf/model_settings.h"
#include "importer/gguf/stored_blocks.h"
#include "importer/gguf/tokenizer.h"
#include "importer/gguf/vocabulary.h"
#include "importer/import_decoder.h"

namespace gpux::importer {
namespace {

namespace fs = std::filesystem;
using gguf::GgufFile;
using Json = nlohmann::ordered_json;

/// What the metadata makes of the model's files.
struct Settings {
  Json config, generation, tokenizer_config;
  std::string tokenizer, chat_template;
};

Settings settings_of(const GgufFile& file) {
  const gguf::Metadata& metadata = file.metadata();
  const gguf::Vocabulary vocabulary = gguf::read_vocabulary(metadata);
  Settings settings{.config = gguf::config_of(file),
                    .generation = Json::object(),
                    .tokenizer_config = gguf::tokenizer_config(metadata, vocabulary),
                    .tokenizer = gguf::tokenizer_json(metadata, vocabulary),
                    .chat_template = std::string(metadata.text("tokenizer.chat_template").value_or(""))};
  if (!is_utf8(settings.chat_template)) metadata.refuse("tokenizer.chat_template", "UTF-8");
  const auto tokens = static_cast<std::int64_t>(vocabulary.tokens.size());
  if (tokens > settings.config["vocab_size"].get<std::int64_t>()) {
    throw Error(ErrorCode::invalid_model,
                fmt::format("tokenizer.ggml.tokens has {} tokens, and token_embd.weight has {} rows", tokens,
                            settings.config["vocab_size"].get<std::int64_t>()));
  }
  for (Json* json : {&settings.config, &settings.generation}) {
    if (vocabulary.bos) (*json)["bos_token_id"] = *vocabulary.bos;
    if (!vocabulary.end_tokens.empty()) (*json)["eos_token_id"] = vocabulary.end_tokens;
    if (vocabulary.padding) (*json)["pad_token_id"] = *vocabulary.padding;
  }
  return settings;
}

// Each frequency is divided by its factor: llama.cpp stores llama3's scaling so.
void apply_rotary_factors(const GgufFile& file, Architecture& architecture) {
  constexpr std::string_view name = "rope_freqs.weight";
  for (const char* other : {"rope_factors_long.weight", "rope_factors_short.weight"}) {
    if (file.find(other) != nullptr && architecture.model_type != "phi3") {
      throw Error(ErrorCode::invalid_model,
                  fmt::format("the file has {}: longrope is supported for phi3 alone", other));
    }
  }
  const gguf::StoredTensor* factors = file.find(name);
  if (factors == nullptr) return;
  const std::vector<float> values = GgufFile::elements(*factors, 0, factors->rows());
  for (Rotary& rotary : architecture.transformer.rotary) {
    if (values.size() != rotary.frequencies.size()) {
      throw Error(ErrorCode::invalid_model,
                  fmt::format("{} has {} factors; accepted: {}", name, values.size(), rotary.frequencies.size()));
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!(values[i] > 0))
        throw Error(ErrorCode::invalid_model, fmt::format("{} has a factor that is not above 0", name));
      rotary.frequencies[i] /= values[i];
    }
  }
}

void use_stored_norms(std::optional<Norm>& norm) {
  if (norm) norm->weight_offset = 0;
}

// Gemma's norms have 1 added in the file.
void use_stored_norms(Transformer& transformer) {
  for (Layer& layer : transformer.layers) {
    use_stored_norms(layer.attention.query_norm);
    use_stored_norms(layer.attention.key_norm);
    for (Residual* residual : {&layer.attention_residual, &layer.feed_forward_residual}) {
      use_stored_norms(residual->input_norm);
      use_stored_norms(residual->branch_norm);
      use_stored_norms(residual->sum_norm);
    }
  }
  use_stored_norms(transformer.final_norm);
}

// The file has all matrices as [out, in].
void use_stored_order(Transformer& transformer) {
  for (Layer& layer : transformer.layers) {
    Attention& attention = layer.attention;
    for (Linear* linear : {&attention.query, &attention.key, &attention.value, &attention.output,
                           &layer.feed_forward.up, &layer.feed_forward.down}) {
      linear->is_transposed = false;
    }
  }
}

ImportedModel import(const GgufFile& file, const fs::path& target, std::int64_t context_length) {
  Settings settings = settings_of(file);
  const checkpoint::ConfigReader config(settings.config.dump());
  gguf::StorageReport report;
  const gguf::GgufWeights weights(file, gguf::family_of(file.metadata()), config.number({"num_attention_heads"}),
                                  config.number({"num_key_value_heads"}), report);
  DecoderDescription decoder = describe_decoder(config, weights);
  Architecture& architecture = decoder.architecture;
  apply_rotary_factors(file, architecture);
  use_stored_norms(architecture.transformer);
  use_stored_order(architecture.transformer);
  std::vector<Message> notes;
  if (architecture.long_context && context_length <= architecture.max_tokens) {
    notes.push_back(note_on_context(*architecture.long_context, architecture.max_tokens));
  }
  set_context(architecture, context_length);
  settings.config["max_position_embeddings"] = architecture.max_tokens;
  std::vector<std::string> written;
  const auto write = [&](const char* name, const std::string& content) {
    write_file_atomically(target / name, content);
    written.emplace_back(name);
  };
  write("config.json", settings.config.dump(2) + "\n");
  write("generation_config.json", settings.generation.dump(2) + "\n");
  write("tokenizer.json", settings.tokenizer);
  write("tokenizer_config.json", settings.tokenizer_config.dump(2) + "\n");
  if (!settings.chat_template.empty()) write("chat_template.jinja", settings.chat_template);
  write_decoder(weights, architecture, decoder.head, {.keeps_small_floats = true}, target / "model.onnx");
  return {.family = architecture.model_type,
          .layers = static_cast<std::int64_t>(architecture.transformer.layers.size()),
          .heads = architecture.transformer.heads,
          .width = architecture.transformer.hidden_size,
          .max_tokens = static_cast<std::uint64_t>(architecture.max_tokens),
          .pooling = {},
          .normalize = false,
          .task = "text generation",
          .labels = 0,
          .copied = std::move(written),
          .notes = std::move(notes),
          .weights = report.summary()};
}

}  // namespace

void require_importable_gguf(std::string_view first_bytes) {
  const gguf::Metadata metadata = gguf::read_first_metadata(first_bytes);
  if (metadata.has("general.architecture")) (void)gguf::family_of(metadata);
}

ImportedModel import_gguf(const fs::path& path, const fs::path& target, std::int64_t context_length) {
  const GgufFile file(path);
  try {
    return import(file, target, context_length);
  } catch (const Error& error) {
    throw error.within({file_at(path)});
  }
}

}  // namespace gpux::importer

#include "importer/import_decoder.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/files.h"
#include "base/format_message.h"
#include "checkpoint/json_settings.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/setting_files.h"
#include "checkpoint/weights.h"
#include "gpux/error.h"
#include "importer/decoder_graph.h"
#include "importer/families/family.h"
#include "importer/weights_of.h"

namespace gpux::importer {
namespace {

namespace fs = std::filesystem;

constexpr std::array setting_files{
    "added_tokens.json",   "config.json",           "generation_config.json",
    "tokenizer.json",      "tokenizer_config.json", "special_tokens_map.json",
    "chat_template.jinja", "chat_template.json",    "additional_chat_templates/tool_use.jinja"};

// A table for each of more positions would take gigabytes.
constexpr std::int64_t limit_positions = std::int64_t{1} << 20;

LanguageHead language_head(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights,
                           const Architecture& architecture) {
  LanguageHead head{.linear = {.weight = "lm_head.weight",
                               .in = architecture.transformer.hidden_size,
                               .out = architecture.embeddings.vocabulary}};
  // transformers leaves a tied table out of the file, and takes precedence where it is there.
  if (config.flag({"tie_word_embeddings"}, !weights.has(head.linear.weight))) {
    head.linear.weight = architecture.embeddings.words;
  }
  if (weights.has("lm_head.bias")) head.linear.bias = "lm_head.bias";
  return head;
}

/// A folder's weights, and what is known of them before an element is read.
struct DescribedFolder {
  checkpoint::Safetensors weights;
  DecoderDescription decoder;
};

// What import_decoder() refuses because of the settings and the names and sizes of the tensors is refused here.
DescribedFolder describe_folder(const fs::path& folder) {
  checkpoint::Safetensors weights(weights_of(folder, folder));
  checkpoint::require_tokenizer(folder, folder);
  try {
    DecoderDescription decoder = describe_decoder(checkpoint::ConfigReader(read_file(folder / "config.json")), weights);
    return {.weights = std::move(weights), .decoder = std::move(decoder)};
  } catch (const Error& error) {
    throw error.within({file_at(folder)});
  }
}

}  // namespace

DecoderDescription describe_decoder(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights) {
  Architecture architecture = describe_decoder_architecture(config, weights);
  const std::int64_t most = architecture.long_context ? architecture.long_context->max_tokens : architecture.max_tokens;
  if (architecture.max_tokens < 1 || most > limit_positions) {
    config.refuse("max_position_embeddings", most, fmt::format("1 to {}", limit_positions));
  }
  LanguageHead head = language_head(config, weights, architecture);
  return {.architecture = std::move(architecture), .head = std::move(head)};
}

void set_context(Architecture& architecture, std::int64_t tokens) {
  if (tokens == 0) return;
  const std::optional<LongContext>& longer = architecture.long_context;
  const std::int64_t most = longer ? longer->max_tokens : architecture.max_tokens;
  if (tokens < 0 || tokens > most) {
    throw Error(ErrorCode::usage, format_message("{} is {}; accepted: 1 to {}, the model's",
                                                 setting_named("context_length"), tokens, most));
  }
  if (longer && tokens > architecture.max_tokens) architecture.transformer.rotary = longer->rotary;
  architecture.max_tokens = tokens;
}

namespace {

// config.json with the context length of the graph.
std::string config_with_context(const fs::path& file, std::int64_t tokens) {
  JsonSettings::Json config = JsonSettings(file).json();
  const char* const name = config.contains("n_positions") ? "n_positions" : "max_position_embeddings";
  config[name] = tokens;
  return config.dump(2) + "\n";
}

}  // namespace

Message note_on_context(const LongContext& longer, std::int64_t tokens) {
  return format_message("a prompt and its text have at most {} tokens; the model takes {} with other positions: {} {}",
                        tokens, longer.max_tokens, setting_named("context_length"), longer.max_tokens);
}

std::uint64_t require_importable_decoder(const fs::path& folder) {
  const DescribedFolder described = describe_folder(folder);
  write_decoder(described.weights, described.decoder.architecture, described.decoder.head, {}, {});
  return described.weights.float32_bytes();
}

ImportedModel import_decoder(const fs::path& folder, const fs::path& target, const DecoderImport& options) {
  DescribedFolder described = describe_folder(folder);
  Architecture& architecture = described.decoder.architecture;
  const std::int64_t own_context = architecture.max_tokens;
  set_context(architecture, options.context_length);
  std::vector<std::string> copied;
  std::vector<Message> notes;
  std::error_code unreadable;
  for (const char* name : setting_files) {
    if (!fs::is_regular_file(folder / name, unreadable)) continue;
    write_file_atomically(target / name, read_file(folder / name));
    copied.emplace_back(name);
  }
  if (architecture.max_tokens != own_context || architecture.long_context) {
    write_file_atomically(target / "config.json", config_with_context(folder / "config.json", architecture.max_tokens));
  }
  if (architecture.long_context && architecture.max_tokens <= own_context) {
    notes.push_back(note_on_context(*architecture.long_context, architecture.max_tokens));
  }
  const WeightStorage storage{.keeps_small_floats = true, .blocks = options.blocks};
  write_decoder(described.weights, architecture, described.decoder.head, storage, target / "model.onnx");
  if (options.check) options.check(target);
  return {.family = architecture.model_type,
          .layers = static_cast<std::int64_t>(architecture.transformer.layers.size()),
          .heads = architecture.transformer.heads,
          .width = architecture.transformer.hidden_size,
          .max_tokens = static_cast<std::uint64_t>(architecture.max_tokens),
          .pooling = {},
          .normalize = false,
          .task = "text generation",
          .labels = 0,
          .copied = std::move(copied),
          .notes = std::move(notes)};
}

}  // namespace gpux::importer

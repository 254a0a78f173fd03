#include "importer/import_decoder.h"

#include <array>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/files.h"
#include "gpux/error.h"
#include "importer/decoder_graph.h"
#include "importer/families/family.h"
#include "importer/json_settings.h"
#include "importer/safetensors.h"

namespace gpux::importer {
namespace {

namespace fs = std::filesystem;

constexpr std::array setting_files{"config.json",           "generation_config.json",  "tokenizer.json",
                                   "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"};

// A table for each of more positions would take gigabytes.
constexpr std::int64_t limit_positions = std::int64_t{1} << 20;

LanguageHead language_head(const ConfigReader& config, const Safetensors& weights, const Architecture& architecture) {
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

/// What is known of a decoder before an element of its weights is read.
struct DescribedDecoder {
  Safetensors weights;
  Architecture architecture;
  LanguageHead head;
};

// What import_decoder() refuses because of the settings and the names and sizes of the tensors is refused here.
DescribedDecoder describe_decoder(const fs::path& folder) {
  const auto weights_file = safetensors_in(folder);
  if (!weights_file) throw Error(ErrorCode::not_found, fmt::format("'{}' has no model.safetensors", folder.string()));
  Safetensors weights(*weights_file);
  require_tokenizer(folder, folder);
  try {
    const ConfigReader config(read_file(folder / "config.json"));
    Architecture architecture = describe_architecture(config, weights);
    if (architecture.max_tokens < 1 || architecture.max_tokens > limit_positions) {
      config.refuse("max_position_embeddings", architecture.max_tokens, fmt::format("1 to {}", limit_positions));
    }
    LanguageHead head = language_head(config, weights, architecture);
    return {.weights = std::move(weights), .architecture = std::move(architecture), .head = std::move(head)};
  } catch (const Error& error) {
    throw error.within(folder.string());
  }
}

}  // namespace

bool is_decoder_folder(const fs::path& folder) {
  std::error_code unreadable;
  if (fs::exists(folder / "modules.json", unreadable)) return false;
  const JsonSettings config(folder / "config.json");
  const JsonSettings::Json* names = config.find("architectures");
  return names != nullptr && names->is_array() && !names->empty() && names->front().is_string() &&
         names->front().get_ref<const std::string&>().ends_with("ForCausalLM");
}

std::uint64_t require_importable_decoder(const fs::path& folder) {
  const DescribedDecoder decoder = describe_decoder(folder);
  write_decoder(decoder.weights, decoder.architecture, decoder.head, {}, {});
  return decoder.weights.float32_bytes();
}

ImportedEncoder import_decoder(const fs::path& folder, const fs::path& target, const DecoderImport& options) {
  const DescribedDecoder decoder = describe_decoder(folder);
  const Architecture& architecture = decoder.architecture;
  std::vector<std::string> copied;
  std::error_code unreadable;
  for (const char* name : setting_files) {
    if (!fs::is_regular_file(folder / name, unreadable)) continue;
    write_file_atomically(target / name, read_file(folder / name));
    copied.emplace_back(name);
  }
  const WeightStorage storage{.keeps_small_floats = true, .blocks = options.blocks};
  write_decoder(decoder.weights, architecture, decoder.head, storage, target / "model.onnx");
  return {.family = architecture.model_type,
          .layers = static_cast<std::int64_t>(architecture.transformer.layers.size()),
          .heads = architecture.transformer.heads,
          .width = architecture.transformer.hidden_size,
          .max_tokens = static_cast<std::uint64_t>(architecture.max_tokens),
          .pooling = {},
          .normalize = false,
          .task = "text generation",
          .labels = 0,
          .copied = std::move(copied)};
}

}  // namespace gpux::importer

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/utf8_prefix.h"
#include "gpux/error.h"
#include "importer/families/family.h"

namespace gpux::importer {
namespace {

// The first row that matches counts.
constexpr std::array table{
    Family{"bert", describe_jina_bert, true, is_jina_bert},
    Family{"bert", describe_bert},
    Family{"xlm-roberta", describe_jina_v3, true, is_jina_v3},
    Family{"xlm-roberta", describe_roberta},
    Family{"roberta", describe_roberta},
    Family{"camembert", describe_roberta},
    Family{"distilbert", describe_distilbert},
    Family{"mpnet", describe_mpnet},
    Family{"electra", describe_electra},
    Family{"albert", describe_albert},
    Family{"deberta-v2", describe_deberta},
    Family{"modernbert", describe_modernbert},
    Family{"nomic_bert", describe_nomic_bert, true},
    Family{"new", describe_gte, true},
    Family{"gte", describe_gte, true},
    Family{"jina_embeddings_v3", describe_jina_v3},
    Family{"t5", describe_t5},
    Family{"mt5", describe_mt5},
    Family{"llama", describe_llama},
    Family{"mistral", describe_mistral},
    Family{"qwen2", describe_qwen2, true},
    Family{"qwen3", describe_qwen3},
    Family{"gemma3_text", describe_gemma3},
    Family{"eurobert", describe_eurobert, true},
};

// Models that generate text.
constexpr std::array decoder_table{
    Family{"llama", describe_llama},     Family{"mistral", describe_mistral}, Family{"qwen2", describe_qwen2, true},
    Family{"qwen3", describe_qwen3},     Family{"gemma2", describe_gemma2},   Family{"gemma3_text", describe_gemma3},
    Family{"gpt2", describe_gpt2},       Family{"granite", describe_granite}, Family{"olmo2", describe_olmo2},
    Family{"phi3", describe_phi3, true}, Family{"smollm3", describe_smollm3},
};

const Family& family_of(const checkpoint::ConfigReader& config, std::span<const Family> known) {
  const std::string model_type = config.text({"model_type"}, "");
  std::vector<std::string_view> names;
  for (const Family& family : known) {
    if (family.model_type == model_type && (family.matches == nullptr || family.matches(config))) return family;
    if (std::find(names.begin(), names.end(), family.model_type) == names.end()) names.push_back(family.model_type);
  }
  constexpr std::size_t limit_characters = 80;
  throw Error(ErrorCode::invalid_config,
              fmt::format("config.json: model_type '{}' is not served; {} are",
                          utf8_prefix(model_type, limit_characters), fmt::join(names, ", ")));
}

// Code of the repository may compute anything.
void refuse_code(const checkpoint::ConfigReader& config) {
  const checkpoint::ConfigReader::Json* code = config.find({"auto_map"});
  if (code == nullptr || !code->is_object()) return;
  for (const auto& [name, place] : code->items()) {
    if (name.starts_with("AutoModel")) {
      config.refuse("auto_map." + name, place, "models of transformers itself, without code of their own");
    }
  }
}

Architecture describe(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights,
                      const Family& family) {
  const checkpoint::ConfigReader::Json* quantization = config.find({"quantization_config"});
  if (quantization != nullptr) config.refuse("quantization_config", *quantization, "weights in floating types");
  if (!family.has_own_code) refuse_code(config);
  Architecture architecture = family.describe(config, weights);
  architecture.model_type = family.model_type;
  return architecture;
}

}  // namespace

std::span<const Family> families() noexcept {
  return table;
}

Architecture describe_architecture(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights) {
  return describe(config, weights, family_of(config, table));
}

Architecture describe_decoder_architecture(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights) {
  return describe(config, weights, family_of(config, decoder_table));
}

}  // namespace gpux::importer

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

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
    Family{"gte", describe_gte},
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

const Family& family_of(const ConfigReader& config) {
  const std::string model_type = config.text({"model_type"}, "");
  std::vector<std::string_view> names;
  for (const Family& family : table) {
    if (family.model_type == model_type && (family.matches == nullptr || family.matches(config))) return family;
    if (std::find(names.begin(), names.end(), family.model_type) == names.end()) names.push_back(family.model_type);
  }
  constexpr std::size_t limit_characters = 80;
  throw Error(ErrorCode::invalid_config, fmt::format("config.json: model_type '{}' is not served; {} are",
                                                     model_type.substr(0, limit_characters), fmt::join(names, ", ")));
}

// Code of the repository may compute anything.
void refuse_code(const ConfigReader& config) {
  const ConfigReader::Json* code = config.find({"auto_map"});
  if (code == nullptr || !code->is_object()) return;
  for (const auto& [name, place] : code->items()) {
    if (name.starts_with("AutoModel")) {
      config.refuse("auto_map." + name, place, "models of transformers itself, without code of their own");
    }
  }
}

}  // namespace

std::span<const Family> families() noexcept {
  return table;
}

Architecture describe_architecture(const ConfigReader& config, const Weights& weights) {
  const Family& family = family_of(config);
  const ConfigReader::Json* quantization = config.find({"quantization_config"});
  if (quantization != nullptr) config.refuse("quantization_config", *quantization, "weights in floating types");
  if (!family.has_own_code) refuse_code(config);
  Architecture architecture = family.describe(config, weights);
  architecture.model_type = family.model_type;
  return architecture;
}

}  // namespace gpux::importer

#include <array>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gpux/error.h"
#include "importer/families/family.h"

namespace gpux::importer {
namespace {

constexpr std::array table{
    Family{"bert", describe_bert},
    Family{"roberta", describe_roberta},
    Family{"xlm-roberta", describe_roberta},
    Family{"camembert", describe_roberta},
    Family{"distilbert", describe_distilbert},
    Family{"mpnet", describe_mpnet},
};

const Family& family_of(const std::string& model_type) {
  for (const Family& family : table) {
    if (family.model_type == model_type) return family;
  }
  std::vector<std::string_view> names;
  for (const Family& family : table) names.push_back(family.model_type);
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

Architecture describe_architecture(const ConfigReader& config, const Safetensors& weights) {
  const std::string model_type = config.text({"model_type"}, "");
  const Family& family = family_of(model_type);
  const ConfigReader::Json* quantization = config.find({"quantization_config"});
  if (quantization != nullptr) config.refuse("quantization_config", *quantization, "weights in floating types");
  if (!family.has_own_code) refuse_code(config);
  Architecture architecture = family.describe(config, weights);
  architecture.model_type = model_type;
  return architecture;
}

}  // namespace gpux::importer

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "importer/architecture.h"
#include "importer/config_reader.h"
#include "importer/weights.h"

namespace gpux::importer {

/// What a family's file provides. Errors invalid_config: a setting that changes the computation and is not supported.
using DescribeFamily = Architecture (*)(const ConfigReader& config, const Weights& weights);

struct Family {
  std::string_view model_type;  ///< model_type in config.json
  DescribeFamily describe = nullptr;
  /// The repositories of this family bring Python code (auto_map), which computes the same as the description. It is
  /// ignored. Code of other families is refused.
  bool has_own_code = false;
  /// Whether this row is meant, where several families have the same model type; null: it is.
  bool (*matches)(const ConfigReader& config) = nullptr;
};

/// All families of encoders, in the order in which messages list them.
std::span<const Family> families() noexcept;

/// All families of models that generate text.
std::span<const Family> decoder_families() noexcept;

/// The description of the encoder of config.json and its weights. Errors invalid_config: a family or setting that is
/// not supported, by name.
Architecture describe_architecture(const ConfigReader& config, const Weights& weights);

/// The architecture of a model that generates text.
Architecture describe_decoder_architecture(const ConfigReader& config, const Weights& weights);

Architecture describe_albert(const ConfigReader& config, const Weights& weights);
Architecture describe_bert(const ConfigReader& config, const Weights& weights);
Architecture describe_deberta(const ConfigReader& config, const Weights& weights);
Architecture describe_distilbert(const ConfigReader& config, const Weights& weights);
Architecture describe_electra(const ConfigReader& config, const Weights& weights);
Architecture describe_eurobert(const ConfigReader& config, const Weights& weights);
Architecture describe_gemma2(const ConfigReader& config, const Weights& weights);
Architecture describe_gemma3(const ConfigReader& config, const Weights& weights);
Architecture describe_gpt2(const ConfigReader& config, const Weights& weights);
Architecture describe_granite(const ConfigReader& config, const Weights& weights);
Architecture describe_gte(const ConfigReader& config, const Weights& weights);
Architecture describe_jina_bert(const ConfigReader& config, const Weights& weights);
Architecture describe_jina_v3(const ConfigReader& config, const Weights& weights);
Architecture describe_llama(const ConfigReader& config, const Weights& weights);
Architecture describe_mistral(const ConfigReader& config, const Weights& weights);
Architecture describe_modernbert(const ConfigReader& config, const Weights& weights);
Architecture describe_mpnet(const ConfigReader& config, const Weights& weights);
Architecture describe_mt5(const ConfigReader& config, const Weights& weights);
Architecture describe_nomic_bert(const ConfigReader& config, const Weights& weights);
Architecture describe_olmo2(const ConfigReader& config, const Weights& weights);
Architecture describe_phi3(const ConfigReader& config, const Weights& weights);
Architecture describe_qwen2(const ConfigReader& config, const Weights& weights);
Architecture describe_qwen3(const ConfigReader& config, const Weights& weights);
Architecture describe_roberta(const ConfigReader& config, const Weights& weights);
Architecture describe_smollm3(const ConfigReader& config, const Weights& weights);
Architecture describe_t5(const ConfigReader& config, const Weights& weights);

bool is_jina_bert(const ConfigReader& config);
bool is_jina_v3(const ConfigReader& config);

}  // namespace gpux::importer

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "checkpoint/config_reader.h"
#include "checkpoint/weights.h"
#include "importer/architecture.h"

namespace gpux::importer {

/// Function of each model family: describes the architecture of a checkpoint. Errors invalid_config: a setting that
/// changes the computation and is not supported.
using DescribeFamily = Architecture (*)(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights);

struct Family {
  std::string_view model_type;  ///< model_type in config.json
  DescribeFamily describe = nullptr;
  /// The repositories of this family bring Python code (auto_map), which computes the same as the description. It is
  /// ignored. Code of other families is refused.
  bool has_own_code = false;
  /// Whether this row is meant, where several families have the same model type; null: it is.
  bool (*matches)(const checkpoint::ConfigReader& config) = nullptr;
};

/// All families of encoders, in the order in which messages list them.
std::span<const Family> families() noexcept;

/// The description of the encoder of config.json and its weights. Errors invalid_config: a family or setting that is
/// not supported, by name.
Architecture describe_architecture(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights);

/// The architecture of a model that generates text.
Architecture describe_decoder_architecture(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights);

Architecture describe_albert(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights);
Architecture describe_bert(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights);
Architecture describe_deberta(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights);
Architecture describe_distilbert(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights);
Architecture describe_electra(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights);
Architecture describe_eurobert(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights);
Architecture describe_gemma2(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights);
Architecture describe_gemma3(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights);
Architecture describe_gpt2(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights);
Architecture describe_granite(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights);
Architecture describe_gte(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights);
Architecture describe_jina_bert(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights);
Architecture describe_jina_v3(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights);
Architecture describe_llama(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights);
Architecture describe_mistral(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights);
Architecture describe_modernbert(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights);
Architecture describe_mpnet(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights);
Architecture describe_mt5(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights);
Architecture describe_nomic_bert(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights);
Architecture describe_olmo2(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights);
Architecture describe_phi3(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights);
Architecture describe_qwen2(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights);
Architecture describe_qwen3(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights);
Architecture describe_roberta(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights);
Architecture describe_smollm3(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights);
Architecture describe_t5(const checkpoint::ConfigReader& config, const checkpoint::Weights& weights);

bool is_jina_bert(const checkpoint::ConfigReader& config);
bool is_jina_v3(const checkpoint::ConfigReader& config);

}  // namespace gpux::importer

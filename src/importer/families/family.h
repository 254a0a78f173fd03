#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "importer/architecture.h"
#include "importer/config_reader.h"
#include "importer/safetensors.h"

namespace gpux::importer {

/// What a family's file provides. Errors invalid_config: a setting that changes the computation and is not supported.
using DescribeFamily = Architecture (*)(const ConfigReader& config, const Safetensors& weights);

struct Family {
  std::string_view model_type;  ///< of config.json
  DescribeFamily describe = nullptr;
  /// The repositories of this family bring Python code (auto_map), which computes the same as the description. It is
  /// ignored. Code of other families is refused.
  bool has_own_code = false;
};

/// All families, in the order in which messages list them.
std::span<const Family> families() noexcept;

/// The description of the encoder of config.json and its weights. Errors invalid_config: a family or setting that is
/// not supported, by name.
Architecture describe_architecture(const ConfigReader& config, const Safetensors& weights);

Architecture describe_bert(const ConfigReader& config, const Safetensors& weights);
Architecture describe_roberta(const ConfigReader& config, const Safetensors& weights);
Architecture describe_distilbert(const ConfigReader& config, const Safetensors& weights);
Architecture describe_mpnet(const ConfigReader& config, const Safetensors& weights);

}  // namespace gpux::importer

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpux/model_info.h"
#include "project/models_file.h"
#include "server/models/version_policy.h"

namespace gpux::server {

/// An input or output as Triton's configuration declares it.
struct TritonTensor {
  std::string name;
  std::string type;                 ///< "TYPE_FP32"
  std::vector<std::int64_t> sizes;  ///< -1: any; without the batch dimension where the model has one
};

/// What Triton's configuration of a model says. Source: model_config.proto of Triton 2.59.
struct TritonConfig {
  std::string name;                       ///< empty: not said
  std::string model_file;                 ///< in the folder of a version; empty: model.onnx
  std::optional<VersionPolicy> versions;  ///< empty: not said
  std::string provider;                   ///< empty: not said
  ServingSettings serving;
  bool has_batch_dimension = false;  ///< max_batch_size is more than 0
  std::vector<TritonTensor> inputs, outputs;
  std::vector<std::string> without_effect;  ///< fields that gpux needs nothing of
};

enum class TritonForm : std::uint8_t {
  text,  ///< config.pbtxt
  json,  ///< the parameter `config` of a request to load a model
};

/// "TYPE_FP32"; "TYPE_INVALID" for what Triton has no name for. Pure.
[[nodiscard]] std::string triton_type(const ValueType& type);

/// `place`: of the text, for messages. Error invalid_config for what is not of the form, for fields that gpux does not
/// have, and for values that it cannot keep to. Pure.
TritonConfig parse_triton_config(std::string_view text, TritonForm form, const std::string& place);

/// The model's settings, and over them what the configuration says.
ListedModel with_config(ListedModel listed, const TritonConfig& config);

/// Error invalid_config where the model has not the inputs and outputs of the configuration.
void require_match(const TritonConfig& config, const Signature& signature, const std::string& place);

}  // namespace gpux::server

#pragma once

#include <string>
#include <string_view>

#include "gpux/model_info.h"
#include "gpux/options.h"

namespace gpux::onnx {

/// The output that with_pooled_output() adds, by what the model has. Error invalid_model, as one clause: `pooled` names
/// no output or input of the model of such a type, or the model has an output of that name already.
[[nodiscard]] SignatureEntry pooled_entry(const Signature& signature, const PooledOutput& pooled);

/// The model with that output. Its other fields, and references to external data, stay as they are. Errors as above;
/// also where its opset is below 12, or it is larger than 1.5 GB. Pure.
[[nodiscard]] std::string with_pooled_output(std::string_view content, const Signature& signature,
                                             const PooledOutput& pooled);

}  // namespace gpux::onnx

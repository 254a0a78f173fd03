#pragma once

#include <optional>
#include <string_view>

#include "gpux/model_info.h"

namespace gpux {

/// Reads a type as gpux.yml and ONNX write it: "float32", "tensor(float)", "seq(map(int64,tensor(float)))",
/// "optional(int64)". Empty where it is none, or nested deeper than eight levels.
std::optional<ValueType> value_type_from(std::string_view text);

}  // namespace gpux

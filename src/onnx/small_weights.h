#pragma once

#include <optional>
#include <string>
#include <string_view>

/// Weights that a model has in float16 or bfloat16 and casts to float32 for its products. ONNX Runtime computes such
/// casts while it loads a model, before a provider sees it: the weights take three times their memory then.
namespace gpux::onnx {

inline constexpr std::string_view small_weights_domain = "gpux.small_weights";
/// A function of a model: float16 or bfloat16[rows, columns] to float32.
inline constexpr std::string_view widen_function = "Widen";

/// The model with that function in place of each Cast to float32 of a constant matrix of 16 bits that only products and
/// lookups of rows read. A provider that takes the function gets the constant itself. None: there is no such Cast; or
/// the model is older than functions, or larger than 1.5 GB. Error MalformedMessage. Pure.
std::optional<std::string> with_widening_functions(std::string_view content);

}  // namespace gpux::onnx

#include "importer/tensor_scope.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "gpux/error.h"
#include "onnx/text.h"

namespace gpux::importer {
namespace {

// Layers behind the last one do not run in transformers either.
bool is_of_unused_layer(std::string_view name, const Architecture& architecture) {
  const std::string& prefix = architecture.scope.layers;
  if (!name.starts_with(prefix)) return false;
  std::int64_t layer = -1;
  const std::string_view number = name.substr(prefix.size());
  std::from_chars(number.data(), number.data() + number.size(), layer);
  return layer >= static_cast<std::int64_t>(architecture.transformer.layers.size());
}

}  // namespace

void refuse_unused(const GraphContext& context, const Architecture& architecture) {
  const auto begins = [](std::string_view name, const std::string& prefix) { return name.starts_with(prefix); };
  const auto ends = [](std::string_view name, const std::string& suffix) { return name.ends_with(suffix); };
  const auto any = [](std::string_view name, const std::vector<std::string>& parts, const auto& matches) {
    return std::any_of(parts.begin(), parts.end(), [&](const std::string& part) { return matches(name, part); });
  };
  for (const std::string& name : context.weights().names()) {
    if (context.used().contains(name) || !any(name, architecture.scope.prefixes, begins)) continue;
    if (any(name, architecture.scope.ignored_suffixes, ends) || is_of_unused_layer(name, architecture)) continue;
    throw Error(ErrorCode::invalid_model,
                fmt::format("the weights have a tensor {}, which a {} of transformers does not have", onnx::quote(name),
                            architecture.model_type));
  }
}

}  // namespace gpux::importer

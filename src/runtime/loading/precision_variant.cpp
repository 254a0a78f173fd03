#include "runtime/loading/precision_variant.h"

#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/machine.h"

namespace gpux::runtime {

bool can_run(const PrecisionVariant& variant) {
  return variant.provider == "cpu" && (variant.weight_bits <= 7 || adds_byte_products_exactly(Machine::this_one()));
}

const PrecisionVariant* variant_of(const LoadOptions& options, const std::string& precision) {
  for (const PrecisionVariant& variant : options.precision_variants) {
    if (variant.precision == precision && can_run(variant)) return &variant;
  }
  return nullptr;
}

const PrecisionVariant* accelerator_variant_of(const LoadOptions& options, const std::string& precision) {
  for (const PrecisionVariant& variant : options.precision_variants) {
    if (variant.precision == precision && variant.provider == "gpu") return &variant;
  }
  return nullptr;
}

std::string unmeasured_conversion(const std::string& provider, const std::string& requested,
                                  const std::string& models_own, const std::string& computed) {
  if (requested != "fp16" || computed != "fp16" || models_own != "fp32") return {};
  return fmt::format(
      "{} converts the model to fp16 itself, and the difference is not measured: 'gpux verify MODEL --provider {} "
      "--precision fp16' measures it",
      provider, provider);
}

std::string precision_of(const ModelInfo& info) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 10> names{{{"float32", "fp32"},
                                                                                        {"float64", "fp64"},
                                                                                        {"float16", "fp16"},
                                                                                        {"bfloat16", "bf16"},
                                                                                        {"int8", "int8"},
                                                                                        {"uint8", "int8"},
                                                                                        {"int4", "int4"},
                                                                                        {"uint4", "int4"},
                                                                                        {"int2", "int2"},
                                                                                        {"uint2", "int2"}}};
  std::string precision;
  std::uint64_t most = 0;
  for (const auto& [type, name] : names) {
    const auto found = info.parameter_types.find(std::string(type));
    if (found == info.parameter_types.end() || found->second <= most) continue;
    most = found->second;
    precision = name;
  }
  return precision;
}

}  // namespace gpux::runtime

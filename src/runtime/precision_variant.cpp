#include "runtime/precision_variant.h"

#include "base/machine.h"

namespace gpux::runtime {

bool can_run(const PrecisionVariant& variant) {
  return variant.provider == "cpu" && (variant.weight_bits <= 7 || adds_byte_products_exactly());
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

std::vector<VariantCandidate> variant_candidates(const LoadOptions& options) {
  std::vector<VariantCandidate> candidates;
  if (options.precision != any_precision) return candidates;
  for (const PrecisionVariant& variant : options.precision_variants) {
    if (!can_run(variant) || variant.mean_cosine < options.min_cosine) continue;
    candidates.push_back({"cpu in " + variant.precision, &variant});
  }
  return candidates;
}

}  // namespace gpux::runtime

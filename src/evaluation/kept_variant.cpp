#include "evaluation/kept_variant.h"

#include <fmt/format.h>

#include "model/package_content.h"

namespace gpux::evaluation {
namespace {

constexpr double default_min_cosine = 0.98;

// Whose variant it is: float16 is for accelerators, and the CPU has no use for it.
std::string provider_for(const VariantPrecision& precision) {
  return precision.name == "fp16" ? "gpu" : "cpu";
}

}  // namespace

std::string packaged_name(const VariantPrecision& precision) {
  return precision.name + "/model.onnx";
}

VariantPrecision precision_of(const std::string& name, unsigned weight_bits, const Agreement& agreement) {
  return {.name = name,
          .weight_bits = weight_bits,
          .mean_cosine = agreement.mean,
          .least_cosine = agreement.least,
          .samples = static_cast<unsigned>(agreement.cosines.size())};
}

void add_to(PackageContent& content, const KeptVariant& kept) {
  const std::string name = packaged_name(kept.precision);
  add_onnx_file(content, kept.file, name);
  content.variants.push_back(
      {.model_file = name, .target = {.provider = provider_for(kept.precision)}, .precision = kept.precision});
}

void add_to(LoadOptions& options, const KeptVariant& kept) {
  options.precision_variants.push_back({.file = kept.file,
                                        .precision = kept.precision.name,
                                        .provider = provider_for(kept.precision),
                                        .weight_bits = kept.precision.weight_bits,
                                        .mean_cosine = kept.precision.mean_cosine});
}

double gate_of(const LoadRequest& load) {
  return load.min_cosine ? load.min_cosine->value : default_min_cosine;
}

}  // namespace gpux::evaluation

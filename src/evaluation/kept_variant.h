#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "evaluation/precision_gate.h"
#include "model/load_settings.h"
#include "store/store.h"

namespace gpux::evaluation {

/// A file that stays with a model as its variant in another precision.
struct KeptVariant {
  std::filesystem::path file;
  VariantPrecision precision;
};

/// Name of a variant's file in the package: "int8/model.onnx".
std::string packaged_name(const VariantPrecision& precision);

VariantPrecision precision_of(const std::string& name, unsigned weight_bits, const Agreement& agreement);

/// Adds the variant to the package that is stored, and to the options with which the model is loaded.
void add_to(PackageContent& content, const KeptVariant& kept);
void add_to(LoadOptions& options, const KeptVariant& kept);

/// The mean cosine that a variant needs: --min-cosine, or 0.98.
double gate_of(const LoadRequest& load);

/// Receives the progress of a precision's variant: "comparing model_int8.onnx with the model". May be null.
using VariantListener = std::function<void(const std::string& precision, const std::string& what)>;

}  // namespace gpux::evaluation

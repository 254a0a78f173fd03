#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "cli/command.h"
#include "cli/load_flags.h"
#include "model/store.h"
#include "runtime/precision_gate.h"

namespace gpux::cli {

/// A file that stays with a model as its variant in another precision.
struct KeptVariant {
  std::filesystem::path file;
  VariantPrecision precision;
};

/// Its file's name in the package: "int8/model.onnx".
std::string packaged_name(const VariantPrecision& precision);

VariantPrecision precision_of(const std::string& name, unsigned weight_bits, const runtime::Agreement& agreement);

/// As a part of the package that is stored, and of how the model is loaded.
void add_to(PackageContent& content, const KeptVariant& kept);
void add_to(LoadOptions& options, const KeptVariant& kept);

/// The mean cosine that a variant needs: --min-cosine, or 0.98.
double gate_of(const LoadFlags& load);

/// What is going on, in one line on a terminal that is drawn over itself and gone with this.
class VariantProgress {
 public:
  VariantProgress(const Context& context, std::string precision);
  ~VariantProgress();
  VariantProgress(const VariantProgress&) = delete;
  VariantProgress& operator=(const VariantProgress&) = delete;

  /// Empty where there is no terminal. Not to be called after this is gone.
  [[nodiscard]] std::function<void(const std::string&)> teller() const;

 private:
  bool shows_;
  std::string precision_;
};

}  // namespace gpux::cli

#include "cli/open_model.h"

#include "base/home.h"
#include "gpux/error.h"
#include "gpux/model_inspector.h"
#include "model/signature_match.h"

namespace gpux::cli {

Store open_store() {
  return Store(home_folder());
}

OpenModel open_model(const std::string& model, const std::string& config, const LoadFlags& flags,
                     const std::string& timeout) {
  OpenModel opened;
  const Store store = open_store();
  opened.located = locate(model, store, config.empty() ? std::nullopt : std::optional<std::filesystem::path>(config));
  opened.settings = resolve_load(flags, timeout, opened.located);
  opened.info = ModelInspector::inspect(opened.located.onnx_file);
  opened.info.name = opened.located.name;
  opened.info.version = opened.located.version;
  if (opened.located.project) require_match(*opened.located.project, opened.info.signature);
  return opened;
}

Runtime load_located(const LocatedModel& located, LoadOptions options) {
  if (located.stored) {
    const std::filesystem::path& folder = located.package_folder;
    for (const Variant& variant : located.stored->package.variants) {
      const VariantTarget& target = variant.target;
      if (variant.precision) {
        options.precision_variants.push_back({.file = folder / variant.model_file,
                                              .precision = variant.precision->name,
                                              .provider = target.provider,
                                              .weight_bits = variant.precision->weight_bits,
                                              .mean_cosine = variant.precision->mean_cosine});
      } else {
        options.optimized_graphs.push_back({folder / variant.model_file, target.provider, target.runtime_version,
                                            target.device, target.optimization_level, target.machine});
      }
    }
  }
  return Runtime(located.onnx_file, options);
}

Runtime OpenModel::load() const {
  return load_located(located, settings.options);
}

}  // namespace gpux::cli

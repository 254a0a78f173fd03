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
  if (opened.located.project && opened.located.stored) require_portable(*opened.located.project);
  opened.settings = resolve_load(flags, timeout, opened.located);
  opened.info = ModelInspector::inspect(opened.located.onnx_file);
  opened.info.name = opened.located.name;
  opened.info.version = opened.located.version;
  if (opened.located.project) require_match(*opened.located.project, opened.info.signature);
  return opened;
}

Runtime OpenModel::load() const {
  return Runtime(located.onnx_file, settings.options);
}

}  // namespace gpux::cli

#pragma once

#include <filesystem>
#include <string>

#include "model/locate.h"
#include "settings/setting.h"
#include "store/store.h"

namespace gpux {

/// Collects the files that `gpux build` stores of a model: its ONNX file with the external data that it and further
/// ONNX files name, the files of model.files, and gpux.yml. `provider` is kept as the request it was built for. Errors:
/// invalid_config where gpux.yml cannot go into a package; invalid_model where a file is no ONNX file or external data
/// is missing; not_found.
PackageContent package_content(const LocatedModel& model, const MaybeSetting<std::string>& provider);

/// Another ONNX file of it, with its external data, as `name`. Errors invalid_model, not_found; invalid_config where a
/// file of that name is among them already.
void add_onnx_file(PackageContent& content, const std::filesystem::path& source, const std::string& name);

}  // namespace gpux

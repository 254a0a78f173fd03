#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpux/options.h"
#include "project/model_limits.h"
#include "project/project_file.h"

namespace gpux {

/// One model of a server.
struct ListedModel {
  std::string name;
  std::string model;             ///< a path, absolute if it is in the file's folder, or a name in the store
  std::string version;           ///< empty: the model's own
  std::string provider;          ///< empty: not said
  std::filesystem::path config;  ///< another gpux.yml, absolute; empty: none
  std::optional<Strictness> strict;
  std::optional<Isolation> isolation;
  bool pinned = false;
  ModelLimits limits;
  std::optional<std::uint32_t> weight;  ///< of its threads where others want to run, too
  int nice = 0;                         ///< of its threads; not of the file
  ServingSettings serving;              ///< host and port are never said here
  yaml::Position position;
};

/// The models of a server, listed in a file (docs/serving.md).
struct ModelsFile {
  std::filesystem::path file;
  std::vector<ListedModel> models;
  std::string default_model;  ///< empty: none
};

/// Errors as of read_project_file().
ModelsFile read_models_file(const std::filesystem::path& file);
ModelsFile parse_models_file(std::string_view text, const std::filesystem::path& file);

}  // namespace gpux

#pragma once

#include <string>
#include <vector>

#include "checkpoint/json_settings.h"

namespace gpux::checkpoint {

/// A module of sentence-transformers, as modules.json names it.
struct Module {
  std::string kind;    ///< the last part of its type: "Pooling"
  std::string folder;  ///< relative to that of modules.json, with '/'; empty: that folder itself
};

/// The modules in their order; none where there is no modules.json. Error invalid_model with the file's name: what is
/// no list of modules, and folders that lead out of it.
std::vector<Module> read_modules(const JsonSettings& modules);

}  // namespace gpux::checkpoint

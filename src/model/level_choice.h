#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "embedding/level.h"
#include "settings/load_request.h"

namespace gpux {

/// The vector level chosen by --level or an environment variable.
struct LevelChoice {
  bool is_none = false;                     ///< the level `none`: no vectors
  const embedding::Level* level = nullptr;  ///< null: none was said
};

/// Reads the level from `flag` (--level), else GPUX_VECTOR_LEVEL, else OP_DBUS_VECTOR_LEVEL. Error usage that names the
/// source of an unknown level.
LevelChoice choose_level(const std::string& flag);

/// Whether features of events are made where the level is `none`: `flag` (--features), else GPUX_FEATURES, else
/// `otherwise`. Error usage that names the source of another value than "heuristic" and "none".
bool wants_features(const std::string& flag, bool otherwise = false);

/// The folder of level models: `flag` (--model-dir), else GPUX_MODEL_DIR, else OP_DBUS_MODEL_DIR; empty: none is set.
std::filesystem::path model_folder(const std::string& flag);

/// Fills in what op-dbus's OP_DBUS_EXECUTION_PROVIDER and OP_DBUS_GPU_DEVICE say, where neither a flag nor a variable
/// of gpux speaks. Error usage.
void apply_op_dbus(LoadRequest& request);

}  // namespace gpux

#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "embedding/level.h"
#include "settings/load_request.h"

namespace gpux {

/// What a level means to a command that takes one: its flags, and the variables of op-dbus and of gpux behind them.
struct LevelChoice {
  bool is_none = false;                     ///< the level `none`: no vectors
  const embedding::Level* level = nullptr;  ///< null: none was said
  std::string said_by;                      ///< "--level", "OP_DBUS_VECTOR_LEVEL"
};

/// --level, GPUX_VECTOR_LEVEL, OP_DBUS_VECTOR_LEVEL: the first that speaks. Error usage that names who said it.
LevelChoice choose_level(const std::string& flag);

/// --model-dir, GPUX_MODEL_DIR, OP_DBUS_MODEL_DIR; empty: none.
std::filesystem::path model_folder(const std::string& flag);

/// Fills in what op-dbus's OP_DBUS_EXECUTION_PROVIDER and OP_DBUS_GPU_DEVICE say, where neither a flag nor a variable
/// of gpux speaks. Error usage.
void apply_op_dbus(LoadRequest& request);

}  // namespace gpux

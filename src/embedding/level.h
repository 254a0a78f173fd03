#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "checkpoint/sentence_model.h"

namespace gpux::embedding {

/// How much a text's vector is worth, as op-dbus names it (OP_DBUS_VECTOR_LEVEL): each level is one model and never
/// another. `none` is no level here.
struct Level {
  std::string_view name;   ///< "low"
  std::string_view model;  ///< "paraphrase-MiniLM-L3-v2", of sentence-transformers
  std::size_t dimension;
  // Folders of op-dbus (MODEL_DIR/model/{model.onnx,tokenizer.json}) do not say these.
  gpux::Pooling pooling;
  std::size_t max_tokens;
  bool normalize;  ///< op-dbus does at each level, whatever the model's own folder says
};

/// All levels, from the lowest to the highest.
std::span<const Level> levels() noexcept;

/// Finds a level by its name, in any case; "med" is accepted. Null if there is none of that name.
const Level* level_from(std::string_view name) noexcept;

/// The level right below; null where there is none.
const Level* level_below(const Level& level) noexcept;

/// The name of the level's model in the store: its own in lower case.
std::string stored_name(const Level& level);

/// Sets the settings of a model to those of its level. The folder's pooling and maximum length take precedence
/// if it has a modules.json.
void apply_level(const Level& level, checkpoint::SentenceModel& model);

}  // namespace gpux::embedding

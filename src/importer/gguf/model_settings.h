#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "importer/gguf/gguf_file.h"

namespace gpux::importer::gguf {

/// A tensor's name in GGUF files and in transformers, without ".weight" and ".bias"; of a layer: what follows "blk.0."
/// and Family::layer_prefix with the number.
struct NamePair {
  std::string_view stored, name;
};

/// A model that llama.cpp calls an architecture, as transformers has it.
struct Family {
  std::string_view architecture;  ///< general.architecture: "llama"
  std::string_view model_type;    ///< model_type in config.json
  std::string_view class_name;    ///< entry of `architectures` in config.json
  /// Elements 2 i and 2 i + 1 of a head are rotated together, and not i and i + head size / 2: the rows of query and
  /// key are stored in that order.
  bool interleaves_heads = false;
  std::span<const NamePair> outside_names, layer_names;
  std::string_view layer_prefix = "model.layers.";  ///< prefix of a layer's number in transformers' tensor names
};

/// The family of the file's general.architecture. Error invalid_model: it is not supported, by name.
[[nodiscard]] const Family& family_of(const Metadata& metadata);

/// The name in transformers of a tensor of the file ("blk.0.attn_q.weight": "model.layers.0.self_attn.q_proj.weight").
/// Empty where the family has no such tensor.
[[nodiscard]] std::string name_of(const Family& family, std::string_view stored);

/// The reverse; `name` itself where there is none.
[[nodiscard]] std::string stored_name_of(const Family& family, std::string_view name);

/// config.json of the file's metadata, as transformers writes it for the same model. Error invalid_model: a key is
/// missing, or has a value that changes the computation and is not supported, by name. Keys of the architecture that
/// are not known are refused, for they may change it.
[[nodiscard]] nlohmann::ordered_json config_of(const GgufFile& file);

}  // namespace gpux::importer::gguf

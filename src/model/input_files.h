#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpux/model_info.h"
#include "pipeline/json_items.h"

namespace gpux {

/// The flags that give a model its inputs, as typed.
struct InputFlags {
  std::vector<std::string> inputs;  ///< --input, -i
  std::string file;                 ///< --file, -f
  std::vector<std::string> words;   ///< behind MODEL, where a command takes some
};

/// Reads them in the types that the signature declares: JSON texts, @FILE.{json,jsonl,npz,npy,pb}, - for standard
/// input, NAME=VALUE. Without any: one item without inputs, for models that need none. Several words are a list.
/// A text that is no JSON is for the first input of texts that is not given by its name. JSON is what begins with "{",
/// or is a whole JSON list or string. Files without a known extension, and standard input, are recognised by their
/// bytes: images, .npy and .npz files, JSON, texts.
/// Errors invalid_input with the place, not_found, usage; of check_text_argument() for texts.
/// Texts and image files for `image`, which may be null, are images.
pipeline::Items read_inputs(const InputFlags& flags, const Signature& signature, const ImageInput* image = nullptr);

/// Reads inputs piped to standard input if none were given and the model needs some. Empty if there is nothing to read.
/// Errors as of read_inputs().
std::optional<pipeline::Items> read_piped_inputs(const Signature& signature, const ImageInput* image = nullptr);

/// Whether any input was given.
bool given(const InputFlags& flags);

/// Whether one of them is standard input, which can be read once.
bool reads_standard_input(const InputFlags& flags);

}  // namespace gpux

#pragma once

#include <string>
#include <vector>

#include "gpux/model_info.h"
#include "runtime/json_items.h"

namespace CLI {
class App;
}

namespace gpux::cli {

/// The flags that give a model its inputs, as typed.
struct InputFlags {
  std::vector<std::string> inputs;  ///< --input, -i
  std::string file;                 ///< --file, -f
};

void add_input_flags(CLI::App& verb, InputFlags& flags);

/// Reads them in the types that the signature declares: JSON texts, @FILE.{json,jsonl,npz,npy,pb}, - for standard
/// input, NAME=VALUE. Without any: one item without inputs, for models that need none.
/// Errors invalid_input with the place, not_found, usage.
/// Texts and picture files for `picture`, which may be null, are pictures.
runtime::Items read_inputs(const InputFlags& flags, const Signature& signature,
                           const runtime::PictureInput* picture = nullptr);

/// Whether any input was given.
bool given(const InputFlags& flags);

/// Whether one of them is standard input, which can be read once.
bool reads_standard_input(const InputFlags& flags);
bool is_standard_input(const std::string& text);

/// All of it. Errors storage; invalid_input where it is longer than 4 GiB.
std::string read_standard_input();

}  // namespace gpux::cli

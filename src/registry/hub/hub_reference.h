#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "store/reference.h"

namespace gpux::registry {

/// A model on the Hugging Face hub, as a user names it.
struct HubReference {
  std::string repository;       ///< "ORG/NAME" in its original spelling; old repositories are "NAME" alone
  std::string revision;         ///< a branch, a tag or a commit; empty: the default branch
  std::string quantization;     ///< "Q4_K_M": of a GGUF file of the default branch; else empty
  std::string file;             ///< where an address or ":FILE.gguf" names one of its files; else empty
  bool is_stored_name = false;  ///< ":TAG" was typed, as `gpux images` prints it

  /// "hf.co/ORG/NAME", "hf.co/ORG/NAME@REVISION" or "hf.co/ORG/NAME:QUANTIZATION"
  [[nodiscard]] std::string text() const;
};

/// Whether the text is meant to name a model on the hub: it begins with hf.co/, hf:, huggingface.co/ or the address of
/// one of these.
bool is_hub_reference(std::string_view text) noexcept;

/// Reads hf.co/ORG/NAME[@REVISION], hf:ORG/NAME, huggingface.co/ORG/NAME, and these as addresses, with what a browser
/// shows behind them: /tree/REVISION, /blob/REVISION/FILE, /resolve/REVISION/FILE. ":TAG", which `gpux images` prints,
/// is "@TAG", except for ":latest", the default branch, and what names_quantization() or a GGUF file, as Ollama spells
/// them. With `prefix_is_optional`, ORG/NAME alone is one, too. Error usage for anything else.
HubReference parse_hub_reference(std::string_view text, bool prefix_is_optional = false);

/// Whether the text is a type of llama.cpp's quantized files: "Q4_K_M", "iq2_xs", "UD-Q4_K_XL", "BF16". Pure.
bool names_quantization(std::string_view text);

/// The name of the model in the store: "hf.co/org/name" with the revision or the quantization as its tag, or latest.
/// Upper-case letters of the repository become lower-case ones. Where that is not all that differs, as for a revision
/// "a/b", one called latest, and a file, a digest makes the name this reference's alone: "a-b-241714c6".
Reference stored_name_of(const HubReference& reference);

/// The text as a store's name may contain it: lower case, and '-' for what it may not. May be empty.
std::string as_name_part(std::string_view text);

}  // namespace gpux::registry

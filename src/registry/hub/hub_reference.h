#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "store/reference.h"

namespace gpux::registry {

/// A model on the Hugging Face hub, as a user names it.
struct HubReference {
  std::string repository;  ///< "ORG/NAME" in its original spelling; old repositories are "NAME" alone
  std::string revision;    ///< a branch, a tag or a commit; empty: the default branch
  std::string file;        ///< where an address names one of its files; else empty

  /// "hf.co/ORG/NAME" or "hf.co/ORG/NAME@REVISION"
  [[nodiscard]] std::string text() const;
};

/// Whether the text is meant to name a model on the hub: it begins with hf.co/, hf:, huggingface.co/ or the address of
/// one of these.
bool is_hub_reference(std::string_view text) noexcept;

/// Reads hf.co/ORG/NAME[@REVISION], hf:ORG/NAME, huggingface.co/ORG/NAME, and these as addresses, with what a browser
/// shows behind them: /tree/REVISION, /blob/REVISION/FILE, /resolve/REVISION/FILE. ":TAG", which `gpux images` prints,
/// is
/// "@TAG", and ":latest" the default branch. With `prefix_is_optional`, ORG/NAME alone is one, too.
/// Error usage for anything else.
HubReference parse_hub_reference(std::string_view text, bool prefix_is_optional = false);

/// The name of the model in the store: "hf.co/org/name" with the revision as its tag, or latest. Upper-case letters
/// become lower-case ones, and what no name or tag may contain becomes '-'.
Reference stored_name_of(const HubReference& reference);

/// The text as a store's name may contain it: lower case, and '-' for what it may not. May be empty.
std::string as_name_part(std::string_view text);

}  // namespace gpux::registry

#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gpux/error.h"
#include "server/models/model_entry.h"

namespace gpux::server {

/// The models of a repository by name and version, and what the names in requests mean. Under the repository's lock.
class ModelTable {
 public:
  using Models = std::map<std::string, ModelVersions, std::less<>>;

  /// The entry of this version; null if there is none.
  [[nodiscard]] ModelEntry* find(std::string_view name, const std::string& version);

  /// The source's own, made where there is none, with that source.
  ModelEntry& put(const ModelSource& source);

  /// The entry that a request means: by name, or else by alias. Empty version: the highest that is served, or else the
  /// highest. Errors not_found, and usage where an alias means several.
  [[nodiscard]] ModelEntry& find_requested(std::string_view name, std::string_view version);

  /// The name of the model that a request for all versions means; `requested` where there is none.
  /// Error usage where it is an alias of one version of several, or means several models.
  [[nodiscard]] std::string name_of_all(std::string_view requested);

  /// The name of the model that `requested` means; `requested` where it means none or several.
  [[nodiscard]] std::string name_of(std::string_view requested);

  /// Error not_found that names the models there are.
  [[nodiscard]] Error unknown(std::string_view name) const;

  [[nodiscard]] Models& models() noexcept { return models_; }

  [[nodiscard]] const Models& models() const noexcept { return models_; }

 private:
  [[nodiscard]] ModelEntry* find_alias_of(std::string_view requested);

  Models models_;
};

}  // namespace gpux::server

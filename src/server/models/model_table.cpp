#include "server/models/model_table.h"

#include <cstddef>

#include <fmt/format.h>

#include "base/failure_of.h"
#include "base/spelling.h"
#include "base/utf8_prefix.h"

namespace gpux::server {

ModelEntry* ModelTable::find(std::string_view name, const std::string& version) {
  const auto model = models_.find(name);
  if (model == models_.end()) return nullptr;
  const auto found = model->second.find(version);
  return found == model->second.end() ? nullptr : &found->second;
}

ModelEntry& ModelTable::put(const ModelSource& source) {
  ModelEntry& entry = models_[source.name][source.version];
  entry.source = source;
  return entry;
}

ModelEntry* ModelTable::find_alias_of(std::string_view requested) {
  std::vector<AliasedVersion> aliased;
  std::vector<ModelEntry*> entries;
  for (auto& [name, versions] : models_) {
    for (auto& [version, entry] : versions) {
      aliased.push_back({name, version, &entry.aliases()});
      entries.push_back(&entry);
    }
  }
  const AliasedVersion* found = find_alias(aliased, requested);
  return found == nullptr ? nullptr : entries[static_cast<std::size_t>(found - aliased.data())];
}

ModelEntry& ModelTable::find_requested(std::string_view name, std::string_view version) {
  const auto found = models_.find(name);
  if (found == models_.end()) {
    ModelEntry* aliased = find_alias_of(name);
    if (aliased == nullptr) throw unknown(name);
    if (version.empty() || version == aliased->source.version) return *aliased;
    throw Error(ErrorCode::not_found,
                fmt::format("'{}' is version {} of model '{}', and not version '{}'", utf8_prefix(name, 80),
                            aliased->source.version, aliased->source.name, utf8_prefix(version, 40)));
  }
  ModelVersions& versions = found->second;
  if (!version.empty()) {
    const auto exact = versions.find(std::string(version));
    if (exact != versions.end()) return exact->second;
    std::vector<std::string> there;
    for (const auto& [known, entry] : versions) there.push_back(known);
    throw Error(ErrorCode::not_found, fmt::format("model '{}' has no version '{}'; there is {}", name,
                                                  utf8_prefix(version, 40), join(there)));
  }
  for (auto place = versions.rbegin(); place != versions.rend(); ++place) {
    if (is_available(place->second.state)) return place->second;
  }
  return versions.rbegin()->second;
}

std::string ModelTable::name_of_all(std::string_view requested) {
  if (models_.contains(requested)) return std::string(requested);
  const ModelEntry* entry = find_alias_of(requested);
  if (entry == nullptr) return std::string(requested);
  const std::string& name = entry->source.name;
  if (models_.find(name)->second.size() == 1) return name;
  throw Error(ErrorCode::usage, fmt::format("'{}' is version {} of model '{}', whose versions are loaded and unloaded "
                                            "together: use the name '{}'",
                                            utf8_prefix(requested, 80), entry->source.version, name, name));
}

std::string ModelTable::name_of(std::string_view requested) {
  std::string name(requested);
  if (requested.empty() || models_.contains(requested)) return name;
  (void)failure_of([&] {
    if (const ModelEntry* entry = find_alias_of(requested)) name = entry->source.name;
  });
  return name;
}

Error ModelTable::unknown(std::string_view name) const {
  std::vector<std::string> names;
  for (const auto& [known, versions] : models_) names.push_back(known);
  return {ErrorCode::not_found, fmt::format("there is no model '{}'; models: {}", utf8_prefix(name, 80), join(names))};
}

}  // namespace gpux::server

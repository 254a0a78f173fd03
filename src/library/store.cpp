#include "gpux/store.h"

#include "base/home.h"
#include "gpux/error.h"
#include "library/folder_import.h"
#include "library/package_build.h"
#include "library/pull_source.h"
#include "model/locate.h"
#include "store/store.h"

namespace gpux {

StoredPackage package_of(const StoredModel& model) {
  return {.name = model.reference.name,
          .tag = model.reference.tag,
          .id = "sha256:" + model.digest,
          .created = model.created,
          .size_bytes = model.damage.empty() ? model.package.total_bytes() : 0,
          .damage = model.damage,
          .source = model.package.origin.source,
          .revision = model.package.origin.revision};
}

struct ModelStore::State {
  Store store;
};

ModelStore::ModelStore() : ModelStore(home_folder()) {}

ModelStore::ModelStore(const std::filesystem::path& home) : state_(std::make_unique<State>(Store(home))) {}

ModelStore::~ModelStore() = default;
ModelStore::ModelStore(ModelStore&&) noexcept = default;
ModelStore& ModelStore::operator=(ModelStore&&) noexcept = default;

std::vector<StoredPackage> ModelStore::list() const {
  std::vector<StoredPackage> packages;
  for (const StoredModel& model : state_->store.list()) packages.push_back(package_of(model));
  return packages;
}

std::optional<StoredPackage> ModelStore::find(const std::string& model) const {
  try {
    return package_of(find_stored(parse_reference(model), state_->store));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::not_found) return std::nullopt;
    throw;
  }
}

StoredPackage ModelStore::build(const std::string& model, const std::string& name, const ModelOptions& options) {
  const BuildRequest request{.path = model,
                             .config = options.config.string(),
                             .tags = {name},
                             .load = request_of(options),
                             .quantize = {},
                             .optimize = false};
  return package_of(build_package(request, state_->store).stored);
}

StoredPackage ModelStore::import_folder(const std::filesystem::path& folder, const std::string& name,
                                        const ModelOptions& options) {
  const ImportRequest request{
      .folder = folder.string(), .output = {}, .file = {}, .tags = {name}, .load = request_of(options), .quantize = {}};
  const ImportedFolder made = gpux::import_folder(request, state_->store);
  if (!made.package) throw Error(ErrorCode::internal, "an imported folder was not stored");
  return package_of(made.package->stored);
}

StoredPackage ModelStore::tag(const std::string& model, const std::string& name) {
  const StoredModel existing = find_stored(parse_reference(model), state_->store);
  return package_of(state_->store.tag(existing.reference, parse_reference(name)));
}

void ModelStore::remove(const std::string& name) {
  (void)state_->store.remove(parse_reference(name));
}

std::uint64_t ModelStore::prune() {
  return state_->store.prune().bytes;
}

std::vector<std::string> ModelStore::verify(const std::string& model) const {
  return state_->store.verify(find_stored(parse_reference(model), state_->store));
}

}  // namespace gpux

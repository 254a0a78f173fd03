#include "store/store.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <set>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/durability.h"
#include "base/file_error.h"
#include "base/files.h"
#include "base/format_message.h"
#include "base/in_quotes.h"
#include "base/log.h"
#include "base/scratch_folder.h"
#include "base/sha256.h"
#include "base/storage_error.h"
#include "gpux/error.h"
#include "store/download_folder.h"
#include "store/incoming.h"
#include "store/layout_index.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;

// Whoever brings blobs in or lays trees out shares the first lock, so that prune(), which excludes them, never takes a
// blob away before its manifest has a name. The second lock is for index.json alone and never held for long.
// They are taken in this order.
constexpr const char* content_lock_name = "content.lock";
constexpr const char* index_lock_name = "index.lock";

constexpr std::string_view layout_text = R"({"imageLayoutVersion":"1.0.0"})";

std::string now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

void make_folder(const fs::path& folder) {
  require_stored(make_folders(folder), "make the folder", folder);
}

bool is_full_disk(const FileError& error) {
  return error.error_number() == ENOSPC || error.error_number() == EDQUOT;
}

/// What write_file_atomically throws, as a failure of the store.
template <typename Write>
void storing(const Write& write) {
  try {
    write();
  } catch (const Error& error) {
    throw error.as(ErrorCode::storage);
  }
}

void link_or_copy(const fs::path& blob, const fs::path& file) {
  make_folder(file.parent_path());
  std::error_code error;
  fs::create_hard_link(blob, file, error);
  if (!error) return;
  // A copy that is looked at by its size alone must not lose its content with the power.
  storing([&] { write_file_atomically(file, MappedFile(blob).bytes()); });
}

/// Whether the file has the content of the blob, which is known where it is the same file under another name.
bool has_content(const fs::path& file, const Blob& blob, const fs::path& blob_file) {
  std::error_code error;
  if (fs::equivalent(file, blob_file, error)) return true;
  try {
    return sha256_of_file(file) == blob.digest;
  } catch (const Error&) {
    return false;
  }
}

void remove_counted(const fs::path& path, PruneResult& result) {
  std::error_code error;
  const std::uint64_t bytes = fs::is_regular_file(fs::symlink_status(path, error)) ? fs::file_size(path, error) : 0;
  if (error) return;
  fs::remove(path, error);
  require_stored(error, "remove", path);
  ++result.files;
  result.bytes += bytes;
}

std::vector<fs::path> children(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator i(folder, error), end; !error && i != end; i.increment(error)) paths.push_back(i->path());
  if (error && error != std::errc::no_such_file_or_directory) throw_storage_error("read", folder, error.value());
  return paths;
}

void require_well_formed(const PackageContent& content) {
  std::set<std::string_view> names;
  for (const PackageFile& file : content.files) {
    if (!is_inside_package(file.name)) {
      throw Error(ErrorCode::invalid_config, fmt::format("the file {} cannot be kept in a package: its name leaves the "
                                                         "package's folder",
                                                         in_quotes(file.name)));
    }
    if (!names.insert(file.name).second) {
      throw Error(ErrorCode::invalid_config,
                  fmt::format("two files of the package are called {}", in_quotes(file.name)));
    }
  }
}

StoredModel named(const LayoutIndex::Entry& entry) {
  return {entry.reference, entry.digest, entry.created, {}, {}, entry.pulled_from, entry.verified_by};
}

Error no_such_model(const Reference& name) {
  return {ErrorCode::not_found, fmt::format("no model '{}' is stored here", name.text())};
}

}  // namespace

Store::Store(fs::path root)
    : root_(std::move(root)), scratch_(root_ / "tmp"), blobs_(root_ / "blobs" / "sha256", scratch_) {}

void Store::prepare() const {
  make_folder(root_ / "blobs" / "sha256");
  make_folder(root_ / "trees");
  make_folder(scratch_);
  const fs::path layout = root_ / "oci-layout";
  std::error_code error;
  if (fs::exists(layout, error)) return;
  // Another process that collects what is left over must not take the file while it is made.
  const FileLock content_lock(root_ / content_lock_name, FileLock::Mode::shared);
  storing([&] { write_file_atomically(layout, layout_text); });
}

FileLock Store::lock_index() const {
  return {root_ / index_lock_name, FileLock::Mode::exclusive};
}

PackageManifest Store::store_files(const PackageContent& content) const {
  PackageManifest package{content.name,       content.version,  content.description,
                          content.model_file, content.provider, content.precision,
                          content.shapes,     content.metadata, {},
                          content.variants,   content.origin,   content.compared_provider};
  for (const PackageFile& file : content.files) package.files.push_back({file.name, blobs_.add_file(file.source)});
  return package;
}

StoredModel Store::add(const PackageContent& content, std::span<const Reference> names) {
  require_well_formed(content);
  prepare();
  const FileLock content_lock(root_ / content_lock_name, FileLock::Mode::shared);
  const PackageManifest package = store_files(content);
  const Blob config = blobs_.add_text(encode_config(package));
  const std::string text = encode_manifest(package, config);
  // What cannot be read back is not stored.
  static_cast<void>(decode_manifest(text, "the package"));
  const Blob manifest = blobs_.add_text(text);
  blobs_.flush();
  StoredModel model{
      names.empty() ? Reference{} : names.front(), manifest.digest, now(), package, {}, package.origin.source};
  // Laid out at once, so that it can be run where the store is read-only.
  lay_out(model, Check::digests);
  const FileLock index_lock = lock_index();
  LayoutIndex index = LayoutIndex::read(root_);
  for (const Reference& name : names) index.set(name, manifest, model.created);
  storing([&] { index.write(root_); });
  return model;
}

std::string Store::take_in(std::span<const std::string> digests, const IncomingBlobs& blobs) const {
  for (const std::string& digest : digests) {
    if (const int error = rename_file(blobs.path_of(digest), blobs_.path_of(digest)); error != 0 && error != ENOENT) {
      throw_storage_error("write", blobs_.path_of(digest), error);
    }
    std::error_code error;
    if (!fs::is_regular_file(blobs_.path_of(digest), error)) return digest;
  }
  return {};
}

StoredModel Store::adopt(const std::string& manifest, const IncomingBlobs& blobs, std::span<const Reference> names,
                         const std::string& source, const std::function<void()>& receive_missing,
                         const std::string& verified_by) {
  const PackageManifest package = decode_manifest(manifest, "the package");
  const std::vector<std::string> digests = references_of(manifest, "the package").blobs;
  prepare();
  std::optional<FileLock> content_lock;
  for (int attempts_left = 10;; --attempts_left) {
    receive_missing();
    content_lock.emplace(root_ / content_lock_name, FileLock::Mode::shared);
    const std::string missing = take_in(digests, blobs);
    if (missing.empty()) break;
    if (attempts_left == 1) {
      throw Error(ErrorCode::storage, fmt::format("the package is not complete: sha256:{} is missing", missing));
    }
    content_lock.reset();  // what is received takes long
  }
  const Blob stored = blobs_.add_text(manifest);
  blobs_.flush();
  StoredModel model{
      names.empty() ? Reference{} : names.front(), stored.digest, now(), package, {}, source, verified_by};
  lay_out(model, Check::digests);
  const FileLock index_lock = lock_index();
  LayoutIndex index = LayoutIndex::read(root_);
  const ManifestTypes types = types_of(manifest, "the package");
  for (const Reference& name : names) index.set(name, stored, model.created, types, source, verified_by);
  storing([&] { index.write(root_); });
  return model;
}

StoredModel Store::tag(const Reference& existing, const Reference& name) {
  std::optional<StoredModel> model = find(existing);
  if (!model) throw no_such_model(existing);
  const FileLock index_lock = lock_index();
  LayoutIndex index = LayoutIndex::read(root_);
  const std::optional<LayoutIndex::Entry> entry = index.find(existing);
  if (!entry || entry->digest != model->digest) throw no_such_model(existing);
  std::error_code error;
  const std::uint64_t bytes = fs::file_size(blobs_.path_of(entry->digest), error);
  require_stored(error, "read", blobs_.path_of(entry->digest));
  index.set(name, {entry->digest, bytes}, entry->created, entry->types, entry->pulled_from, entry->verified_by);
  storing([&] { index.write(root_); });
  model->reference = name;
  return *std::move(model);
}

StoredModel Store::take_name(const Reference& name) {
  const FileLock index_lock = lock_index();
  LayoutIndex index = LayoutIndex::read(root_);
  const std::optional<LayoutIndex::Entry> entry = index.find(name);
  if (!entry) throw no_such_model(name);
  StoredModel model = load(named(*entry));
  index.remove(name);
  index.write(root_);
  return model;
}

StoredModel Store::remove(const Reference& name) {
  if (!LayoutIndex::read(root_).find(name)) throw no_such_model(name);
  StoredModel model;
  try {
    model = take_name(name);
  } catch (const FileError& error) {
    if (!is_full_disk(error)) throw error.as(ErrorCode::storage);
    return remove_files_first(name);
  }
  // The name is gone whatever happens to the files; where somebody is storing a model, prune() has them later.
  try {
    if (const auto content_lock = FileLock::try_exclusive(root_ / content_lock_name)) {
      const FileLock index_lock = lock_index();
      collect(LayoutIndex::read(root_));
    }
  } catch (const Error& error) {
    log::warning("the files of {} stay for now: {}", name.text(), error.message());
  }
  return model;
}

// On a full disk the package's files make room for the new index, or where another name keeps them, the place of the
// old one does. A process that is killed in between leaves a name without a package, which can be removed again.
StoredModel Store::remove_files_first(const Reference& name) {
  const FileLock content_lock(root_ / content_lock_name, FileLock::Mode::exclusive);
  const FileLock index_lock = lock_index();
  LayoutIndex index = LayoutIndex::read(root_);
  const std::optional<LayoutIndex::Entry> entry = index.find(name);
  if (!entry) throw no_such_model(name);
  StoredModel model = load(named(*entry));
  index.remove(name);
  collect(index);
  try {
    index.write(root_);
  } catch (const FileError& error) {
    if (!is_full_disk(error)) throw error.as(ErrorCode::storage);
    index.overwrite(root_);
  }
  return model;
}

PruneResult Store::prune() {
  std::error_code error;
  const PruneResult downloads = prune_downloads(root_);
  if (!fs::exists(root_ / "blobs", error)) {
    static_cast<void>(LayoutIndex::read(root_));
    return downloads;
  }
  prepare();
  const FileLock content_lock(root_ / content_lock_name, FileLock::Mode::exclusive);
  const FileLock index_lock = lock_index();
  PruneResult result = collect(LayoutIndex::read(root_));
  result.files += downloads.files;
  result.bytes += downloads.bytes;
  return result;
}

PruneResult Store::collect(const LayoutIndex& index) const {
  std::vector<std::string> manifests = index.digests();
  std::set<std::string> used;
  std::set<std::string> named;
  while (!manifests.empty()) {
    const std::string digest = std::move(manifests.back());
    manifests.pop_back();
    if (!named.insert(digest).second) continue;
    References references = references_of(blobs_.read_text(digest), "the manifest sha256:" + digest);
    used.insert(references.blobs.begin(), references.blobs.end());
    std::move(references.manifests.begin(), references.manifests.end(), std::back_inserter(manifests));
  }
  PruneResult result;
  for (const fs::path& tree : children(root_ / "trees")) {
    if (named.contains(tree.filename().string())) continue;
    std::error_code error;
    fs::remove_all(tree, error);
    require_stored(error, "remove", tree);
  }
  for (const fs::path& blob : children(root_ / "blobs" / "sha256")) {
    const std::string digest = blob.filename().string();
    if (!used.contains(digest) && !named.contains(digest)) remove_counted(blob, result);
  }
  for (const fs::path& scrap : children(scratch_)) {
    std::error_code error;
    if (fs::is_directory(fs::symlink_status(scrap, error))) {
      fs::remove_all(scrap, error);
      require_stored(error, "remove", scrap);
    } else {
      remove_counted(scrap, result);
    }
  }
  for (const fs::path& file : children(root_)) {
    const std::string name = file.filename().string();
    if (name.starts_with("index.json.part.") || name.starts_with("oci-layout.part.")) remove_counted(file, result);
  }
  return result;
}

// With what its manifest says.
StoredModel Store::load(StoredModel model) const {
  try {
    model.package = decode_manifest(blobs_.read_text(model.digest), "its manifest");
    if (model.pulled_from.empty()) model.pulled_from = model.package.origin.source;
  } catch (const Error& error) {
    model.damage = fmt::format("the stored model '{}' cannot be used: {}", model.reference.text(), error.message());
  }
  return model;
}

std::optional<StoredModel> Store::find(const Reference& name) const {
  const std::optional<LayoutIndex::Entry> entry = LayoutIndex::read(root_).find(name);
  if (!entry) return std::nullopt;
  StoredModel model = load(named(*entry));
  if (!model.damage.empty()) throw Error(ErrorCode::storage, model.damage);
  return model;
}

std::vector<StoredModel> Store::list() const {
  std::vector<StoredModel> models;
  for (const LayoutIndex::Entry& entry : LayoutIndex::read(root_).entries()) {
    models.push_back(load(named(entry)));
  }
  return models;
}

fs::path Store::tree_of(const StoredModel& model) const {
  return root_ / "trees" / model.digest;
}

bool Store::is_laid_out(const StoredModel& model, Check check) const {
  return std::all_of(model.package.files.begin(), model.package.files.end(), [&](const StoredFile& file) {
    const fs::path path = tree_of(model) / file.name;
    std::error_code error;
    const bool is_whole =
        fs::is_regular_file(fs::symlink_status(path, error)) && fs::file_size(path, error) == file.blob.bytes;
    return is_whole && (check == Check::sizes || has_content(path, file.blob, blobs_.path_of(file.blob.digest)));
  });
}

void Store::lay_out(const StoredModel& model, Check check) const {
  const fs::path tree = tree_of(model);
  if (is_laid_out(model, check)) return;
  const ScratchFolder scratch(scratch_ / "tree");
  const fs::path made = scratch.path() / "made";
  std::error_code error;
  fs::create_directory(made, error);
  require_stored(error, "make the folder", made);
  fs::permissions(made, fs::perms(0755));
  for (const StoredFile& file : model.package.files) {
    link_or_copy(blobs_.path_of(file.blob.digest), made / file.name);
  }
  if (scratch.move_out(made, tree) == 0) return;
  if (is_laid_out(model, check)) return;  // somebody else was quicker
  // What lies there is not the package: it goes first.
  if (const int error = rename_file(tree, scratch.path() / "replaced"); error != 0) {
    throw_storage_error("replace", tree, error);
  }
  if (const int error = scratch.move_out(made, tree); error != 0) throw_storage_error("make the folder", tree, error);
}

fs::path Store::materialize(const StoredModel& model) const {
  if (is_laid_out(model, Check::sizes)) return tree_of(model);
  prepare();
  const FileLock content_lock(root_ / content_lock_name, FileLock::Mode::shared);
  lay_out(model, Check::sizes);
  return tree_of(model);
}

std::vector<std::string> Store::verify(const StoredModel& model) const {
  std::vector<std::string> problems;
  for (const StoredFile& file : model.package.files) {
    const fs::path blob = blobs_.path_of(file.blob.digest), laid_out = tree_of(model) / file.name;
    std::error_code error;
    std::string damage = blobs_.damage(file.blob);
    if (damage.empty() && fs::exists(laid_out, error) && !has_content(laid_out, file.blob, blob)) {
      damage = "has changed where it is laid out";
    }
    if (!damage.empty()) problems.push_back(fmt::format("{} {}", in_quotes(file.name), damage));
  }
  return problems;
}

}  // namespace gpux

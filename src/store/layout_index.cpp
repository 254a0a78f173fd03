#include "store/layout_index.h"

#include <algorithm>
#include <cerrno>
#include <span>

#include <fcntl.h>
#include <fmt/format.h>

#include "base/bounded_json.h"
#include "base/durability.h"
#include "base/files.h"
#include "base/format_message.h"
#include "base/json_problem.h"
#include "base/storage_error.h"
#include "base/unique_fd.h"
#include "base/write_fully.h"
#include "gpux/error.h"

namespace gpux {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* name_key = "org.opencontainers.image.ref.name";
constexpr const char* created_key = "org.opencontainers.image.created";
constexpr const char* pulled_from_key = "dev.gpux.pulled-from";
constexpr const char* verified_by_key = "dev.gpux.verified-by";
constexpr std::uint64_t limit_bytes = std::uint64_t{64} << 20;

std::string annotation(const Json& entry, const char* key) {
  const Json annotations = entry.value("annotations", Json::object());
  const auto found = annotations.find(key);
  return found != annotations.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string text_of(const Json& entry, const char* key) {
  const auto found = entry.find(key);
  return found != entry.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<Reference> reference_of(const Json& entry) {
  const std::string name = annotation(entry, name_key);
  if (name.empty()) return std::nullopt;
  try {
    return parse_reference(name);
  } catch (const Error&) {
    return std::nullopt;  // somebody else's
  }
}

void require_index(const Json& json) {
  if (!json.is_object() || !json.contains("manifests") || !json.at("manifests").is_array()) {
    throw Error(ErrorCode::storage, "it has no list of manifests");
  }
  for (const Json& entry : json.at("manifests")) {
    if (!entry.is_object()) throw Error(ErrorCode::storage, "an entry is no object");
    const std::string digest = entry.value("digest", "");
    if (!digest.starts_with("sha256:") || !is_digest(std::string_view(digest).substr(7))) {
      throw Error(ErrorCode::storage, "an entry has no SHA-256 digest");
    }
    static_cast<void>(reference_of(entry));
  }
}

std::string read_index(const std::filesystem::path& file) {
  try {
    return read_file(file, limit_bytes);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::not_found) return {};
    throw error.as(ErrorCode::storage);
  }
}

}  // namespace

LayoutIndex LayoutIndex::read(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "index.json";
  std::error_code error;
  if (std::filesystem::exists(folder, error) && !std::filesystem::is_directory(folder, error)) {
    throw Error(ErrorCode::storage, format_message("'{}' is not a folder; set GPUX_HOME to one", file_at(folder)));
  }
  LayoutIndex index;
  index.json_ = {
      {"schemaVersion", 2}, {"mediaType", "application/vnd.oci.image.index.v1+json"}, {"manifests", Json::array()}};
  const std::string text = read_index(file);
  if (text.empty() && !std::filesystem::exists(file, error)) return index;
  const auto damaged = [&](const std::string& why) -> Error {
    return {ErrorCode::storage, fmt::format("'{}' is damaged: {}; restore it, or move it away and build the models "
                                            "anew",
                                            file.string(), why)};
  };
  try {
    index.json_ = parse_bounded_json<Json>(text);
    require_index(index.json_);
  } catch (const nlohmann::json::exception& failure) {
    throw damaged(json_problem(failure));
  } catch (const Error& failure) {
    throw damaged(failure.what());
  }
  return index;
}

std::vector<LayoutIndex::Entry> LayoutIndex::entries() const {
  std::vector<Entry> entries;
  for (const Json& entry : json_.at("manifests")) {
    std::optional<Reference> reference = reference_of(entry);
    if (!reference) continue;
    entries.push_back({*std::move(reference),
                       entry.at("digest").get<std::string>().substr(7),
                       annotation(entry, created_key),
                       {text_of(entry, "mediaType"), text_of(entry, "artifactType")},
                       annotation(entry, pulled_from_key),
                       annotation(entry, verified_by_key)});
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.reference < b.reference; });
  return entries;
}

std::optional<LayoutIndex::Entry> LayoutIndex::find(const Reference& reference) const {
  for (Entry& entry : entries()) {
    if (entry.reference == reference) return std::move(entry);
  }
  return std::nullopt;
}

std::vector<std::string> LayoutIndex::digests() const {
  std::vector<std::string> digests;
  for (const Json& entry : json_.at("manifests")) digests.push_back(entry.at("digest").get<std::string>().substr(7));
  return digests;
}

void LayoutIndex::set(const Reference& reference, const Blob& manifest, const std::string& created,
                      const ManifestTypes& types, const std::string& pulled_from, const std::string& verified_by) {
  remove(reference);
  Json entry = {{"mediaType", types.media_type.empty() ? oci_manifest_type : types.media_type}};
  if (!types.artifact_type.empty()) entry["artifactType"] = types.artifact_type;
  entry["digest"] = "sha256:" + manifest.digest;
  entry["size"] = manifest.bytes;
  entry["annotations"] = {{name_key, reference.text()}, {created_key, created}};
  if (!pulled_from.empty()) entry["annotations"][pulled_from_key] = pulled_from;
  if (!verified_by.empty()) entry["annotations"][verified_by_key] = verified_by;
  json_.at("manifests").push_back(std::move(entry));
}

void LayoutIndex::remove(const Reference& reference) {
  Json kept = Json::array();
  for (const Json& entry : json_.at("manifests")) {
    if (reference_of(entry) != reference) kept.push_back(entry);
  }
  json_["manifests"] = std::move(kept);
}

void LayoutIndex::overwrite(const std::filesystem::path& folder) const {
  const std::filesystem::path file = folder / "index.json";
  std::string text = json_.dump(2) + "\n";
  const std::uintmax_t size = std::filesystem::file_size(file);
  if (text.size() > size) throw_storage_error("write", file, ENOSPC);
  // What is behind a document may be blank.
  text.resize(size, ' ');
  const UniqueFd descriptor(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  if (!descriptor) throw_storage_error("write", file, errno);
  int error = write_fully(descriptor.get(), std::as_bytes(std::span(text)), 0);
  if (error == 0) error = sync_file(descriptor.get());
  if (error != 0) throw_storage_error("write", file, error);
}

void LayoutIndex::write(const std::filesystem::path& folder) const {
  write_file_atomically(folder / "index.json", json_.dump(2) + "\n");
}

}  // namespace gpux

#include "registry/oci/archive.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/in_quotes.h"
#include "base/sha256.h"
#include "base/storage_error.h"
#include "gpux/error.h"
#include "registry/oci/manifest.h"
#include "registry/oci/tar.h"
#include "store/incoming.h"

namespace gpux::oci {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* name_annotation = "org.opencontainers.image.ref.name";
constexpr const char* containerd_annotation = "io.containerd.image.name";
constexpr const char* layout_text = R"({"imageLayoutVersion":"1.0.0"})";
constexpr std::size_t piece_bytes = std::size_t{1} << 20;
constexpr std::uint64_t limit_index_bytes = std::uint64_t{64} << 20;

// ---- writing

std::string blob_name(const std::string& digest) {
  return "blobs/sha256/" + digest;
}

void add_blob(TarWriter& tar, const Store& store, const Blob& blob, const std::string& model) {
  const std::filesystem::path file = store.blobs().path_of(blob.digest);
  std::ifstream stream(file, std::ios::binary);
  std::vector<char> piece(piece_bytes);
  Sha256 hash;
  std::uint64_t left = blob.bytes;
  tar.begin_file(blob_name(blob.digest), blob.bytes);
  while (left != 0 && stream) {
    stream.read(piece.data(), static_cast<std::streamsize>(std::min<std::uint64_t>(piece.size(), left)));
    const auto bytes = std::as_bytes(std::span(piece).first(static_cast<std::size_t>(stream.gcount())));
    hash.update(bytes);
    tar.write(bytes);
    left -= bytes.size();
  }
  if (left != 0 || hash.hex() != blob.digest) {
    throw Error(ErrorCode::storage,
                fmt::format("cannot save '{}': its content sha256:{} is missing or has changed; build "
                            "or pull it again",
                            model, blob.digest));
  }
  tar.end_file();
}

// ---- reading

/// A tar archive of an OCI image layout.
class Archive {
 public:
  explicit Archive(const std::filesystem::path& file)
      : name_(in_quotes(file.string())), content_(file), entries_(list_tar(content_.bytes(), name_)) {
    for (const TarEntry& entry : entries_) by_name_.emplace(entry.name, &entry);
  }

  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  [[nodiscard]] std::span<const std::byte> bytes_of(const std::string& file) const {
    const auto found = by_name_.find(file);
    if (found == by_name_.end()) fail(fmt::format("it has no file {}", in_quotes(file)));
    return content_.bytes().subspan(found->second->offset, found->second->bytes);
  }

  [[nodiscard]] std::string_view text_of(const std::string& file, std::uint64_t limit) const {
    const std::span<const std::byte> bytes = bytes_of(file);
    if (bytes.size() > limit) fail(fmt::format("its file {} has more than {} bytes", in_quotes(file), limit));
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  /// A manifest or an index, its digest checked.
  [[nodiscard]] std::string document(const std::string& digest) const {
    std::string text(text_of(blob_name(digest), limit_manifest_bytes));
    if (sha256_of(text) != digest) fail(fmt::format("sha256:{} has another content than its name says", digest));
    return text;
  }

  [[noreturn]] void fail(std::string_view why) const {
    throw Error(ErrorCode::invalid_input, fmt::format("cannot load {}: {}", name_, why));
  }

 private:
  std::string name_;
  MappedFile content_;
  std::vector<TarEntry> entries_;
  std::map<std::string_view, const TarEntry*> by_name_;
};

struct ArchivedModel {
  std::string manifest;
  std::vector<Descriptor> contents;
  std::vector<Reference> names;
};

/// What fails while others' documents are read, with the code for data that is wrong.
template <typename Read>
auto reading(const Archive& archive, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::network) throw;
    archive.fail(error.message());
  }
}

std::optional<Reference> name_of(const Descriptor& entry, const Archive& archive) {
  // containerd's has the whole name where the other has a tag alone.
  for (const char* key : {containerd_annotation, name_annotation}) {
    const auto found = entry.annotations.find(key);
    if (found == entry.annotations.end() || found->second.empty()) continue;
    try {
      return parse_reference(found->second);
    } catch (const Error& error) {
      archive.fail(error.message());
    }
  }
  return std::nullopt;
}

ArchivedModel read_model(const Archive& archive, Descriptor entry) {
  ArchivedModel model;
  const std::string name = fmt::format("the model sha256:{} in {}", entry.blob.digest, archive.name());
  model.manifest = archive.document(entry.blob.digest);
  reading(archive, [&] {
    if (kind_of_document(model.manifest, name) == DocumentKind::index) {
      model.manifest = archive.document(choose_model(parse_image_index(model.manifest, name), name).blob.digest);
    }
    model.contents = parse_image_manifest(model.manifest, name).contents();
  });
  try {
    static_cast<void>(decode_manifest(model.manifest, name));
  } catch (const Error& error) {
    throw Error(
        ErrorCode::invalid_model,
        fmt::format("{}; a package that gpux can use has raw files, of which one ONNX file is clearly the model",
                    error.message()));
  }
  return model;
}

std::vector<ArchivedModel> read_models(const Archive& archive) {
  static_cast<void>(archive.text_of("oci-layout", limit_manifest_bytes));
  const ImageIndex index = reading(
      archive, [&] { return parse_image_index(archive.text_of("index.json", limit_index_bytes), "index.json"); });
  std::vector<ArchivedModel> models;
  std::map<std::string, std::size_t> by_digest;
  for (const Descriptor& entry : index.manifests) {
    const auto [place, is_new] = by_digest.emplace(entry.blob.digest, models.size());
    if (is_new) models.push_back(read_model(archive, entry));
    if (const auto name = name_of(entry, archive)) models.at(place->second).names.push_back(*name);
  }
  if (models.empty()) archive.fail("it has no model");
  return models;
}

void name_models(std::vector<ArchivedModel>& models, std::span<const Reference> names, const Archive& archive) {
  if (!names.empty()) {
    if (models.size() != 1) {
      throw Error(ErrorCode::usage, fmt::format("cannot load {}: it has {} models, so that a name for one is not clear",
                                                archive.name(), models.size()));
    }
    models.front().names.assign(names.begin(), names.end());
  }
  for (const ArchivedModel& model : models) {
    if (model.names.empty()) archive.fail("a model has no name in it; give one: -t NAME[:TAG]");
  }
}

void receive(const Archive& archive, const Blob& blob, const IncomingBlobs& blobs) {
  std::span<const std::byte> content = archive.bytes_of(blob_name(blob.digest));
  if (content.size() != blob.bytes) {
    archive.fail(
        fmt::format("sha256:{} has {} bytes, and its manifest says {}", blob.digest, content.size(), blob.bytes));
  }
  IncomingBlob incoming = blobs.receive(blob);
  incoming.restart();
  if (!incoming.is_finished()) {
    for (; !content.empty(); content = content.subspan(std::min(content.size(), piece_bytes))) {
      incoming.append(content.first(std::min(content.size(), piece_bytes)));
    }
  }
  if (!incoming.finish()) archive.fail(fmt::format("sha256:{} has another content than its name says", blob.digest));
}

}  // namespace

void save_archive(const Store& store, std::span<const StoredModel> models, const std::filesystem::path& file) {
  FileReplacement replacement(file);
  TarWriter tar([&](std::span<const std::byte> bytes) { replacement.append(bytes); });
  tar.add("oci-layout", layout_text);
  Json entries = Json::array();
  std::set<std::string> written;
  for (const StoredModel& model : models) {
    const std::string name = model.reference.text(), manifest = store.manifest_of(model);
    const ImageManifest parsed = parse_image_manifest(manifest, fmt::format("the manifest of '{}'", name));
    std::vector<Descriptor> contents = parsed.contents();
    contents.push_back({{}, {}, {model.digest, manifest.size()}, {}, {}});
    for (const Descriptor& one : contents) {
      if (written.insert(one.blob.digest).second) add_blob(tar, store, one.blob, name);
    }
    Json entry = {{"mediaType", parsed.media_type}};
    if (!parsed.artifact_type.empty()) entry["artifactType"] = parsed.artifact_type;
    entry["digest"] = "sha256:" + model.digest;
    entry["size"] = manifest.size();
    entry["annotations"] = {{name_annotation, name}};
    entries.push_back(std::move(entry));
  }
  tar.add("index.json",
          Json{{"schemaVersion", 2}, {"mediaType", image_index_type}, {"manifests", std::move(entries)}}.dump());
  tar.finish();
  replacement.commit();
}

std::vector<StoredModel> load_archive(Store& store, const std::filesystem::path& file,
                                      std::span<const Reference> names) {
  const Archive archive(file);
  std::vector<ArchivedModel> models = read_models(archive);
  name_models(models, names, archive);
  const IncomingBlobs blobs(store.root());
  const auto receive_missing = [&](const ArchivedModel& model) {
    for (const Descriptor& one : model.contents) {
      if (!store.has(one.blob)) receive(archive, one.blob, blobs);
    }
  };
  // All of them before the first has a name: nothing is loaded from a damaged archive.
  for (const ArchivedModel& model : models) receive_missing(model);
  std::vector<StoredModel> loaded;
  for (const ArchivedModel& model : models) {
    bool is_received = true;
    StoredModel stored = store.adopt(model.manifest, blobs, model.names, std::filesystem::absolute(file).string(), [&] {
      if (!std::exchange(is_received, false)) receive_missing(model);
    });
    for (const Reference& name : model.names) {
      stored.reference = name;
      loaded.push_back(stored);
    }
  }
  return loaded;
}

}  // namespace gpux::oci

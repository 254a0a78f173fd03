#include "server/store_changes/model_creation.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/cancellation.h"
#include "base/counted.h"
#include "base/files.h"
#include "base/in_quotes.h"
#include "base/scratch_folder.h"
#include "gpux/error.h"
#include "library/folder_import.h"
#include "library/other_folder.h"
#include "model/locate.h"
#include "store/package_manifest.h"

namespace gpux::server {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* settings_file = "generation_config.json";
// Of packages made of what a client has sent.
constexpr const char* origin_of_files = "a request to gpux serve";

// 0.7 and not 0.69999998807907; 40 and not 40.0.
Json number(double value) {
  constexpr double exact = 1e15;
  if (value == std::floor(value) && std::abs(value) < exact) return static_cast<std::int64_t>(value);
  return value;
}

// Without sampling, a temperature means nothing.
std::string changed_settings(const std::string& text, const std::vector<std::pair<std::string, double>>& settings) {
  Json json = Json::parse(text);
  for (const auto& [key, value] : settings) {
    json[key] = number(value);
    if (key == "temperature") json["do_sample"] = value != 0;
  }
  return json.dump(2) + "\n";
}

PackageContent content_of(const StoredModel& model, const fs::path& folder) {
  const PackageManifest& package = model.package;
  PackageContent content{.name = package.name,
                         .version = package.version,
                         .description = package.description,
                         .model_file = package.model_file,
                         .provider = package.provider,
                         .precision = package.precision,
                         .shapes = package.shapes,
                         .metadata = package.metadata,
                         .files = {},
                         .variants = package.variants,
                         .origin = package.origin,
                         .compared_provider = package.compared_provider};
  for (const StoredFile& file : package.files) content.files.push_back({folder / file.name, file.name});
  return content;
}

StoredModel with_settings(const StoredModel& model, const ModelCreation& creation, Store& store) {
  const ScratchFolder scratch;
  PackageContent content = content_of(model, store.materialize(model));
  const auto file = std::ranges::find_if(
      content.files, [](const PackageFile& one) { return fs::path(one.name).filename() == settings_file; });
  if (file == content.files.end()) {
    throw Error(ErrorCode::usage,
                fmt::format("parameters: '{}' has no {}, in which a package keeps settings of generated texts",
                            model.reference.text(), settings_file));
  }
  constexpr std::uint64_t limit_bytes = 1 << 20;
  const fs::path changed = scratch.path() / settings_file;
  write_file_atomically(changed, changed_settings(read_file(file->source, limit_bytes), creation.settings));
  file->source = changed;
  // A package that was pulled stays a stranger's.
  if (content.origin.source.empty()) content.origin.source = model.pulled_from;
  const Reference name = parse_reference(creation.name);
  return store.add(content, std::span(&name, 1));
}

// Its own name in a folder: nothing else of this machine.
void require_file_name(const std::string& name) {
  const bool is_plain = std::ranges::all_of(name, [](unsigned char c) { return c > ' ' && c != 0x7f && c != '\\'; });
  constexpr std::size_t limit_bytes = 200;
  if (is_plain && name.size() <= limit_bytes && is_inside_package(name)) return;
  throw Error(ErrorCode::invalid_input, fmt::format("files: {} is no name of a file in a folder", in_quotes(name)));
}

bool is_gguf(const std::string& name) {
  return name.ends_with(".gguf");
}

StoredModel from_files(const ModelCreation& creation, Store& store, Uploads& uploads, const Cancellation& cancellation,
                       const StoreJobs::Tell& tell) {
  const ScratchFolder scratch(store.root() / "downloads/create");
  const fs::path folder = scratch.path() / "files";
  for (const auto& [name, digest] : creation.files) {
    require_file_name(name);
    uploads.lay_out(digest, folder / name);
  }
  // The parts of a GGUF file are found by the first.
  const auto gguf = std::ranges::find_if(creation.files, [](const auto& file) { return is_gguf(file.first); });
  const fs::path model = gguf == creation.files.end() ? folder : folder / gguf->first;
  tell({.text = fmt::format("converting {}", counted(creation.files.size(), "file"))});
  cancellation.check();
  ImportRequest import{
      .folder = model.string(), .output = {}, .file = {}, .tags = {creation.name}, .load = {}, .quantize = {}};
  import.origin.source = origin_of_files;
  try {
    const ImportedFolder made = import_folder(import, store);
    if (!made.package) throw Error(ErrorCode::internal, "the model was not stored");
    return made.package->stored;
  } catch (const Error& error) {
    throw in_other_folder(error, folder, "files");
  }
}

}  // namespace

StoredModel create_model(const ModelCreation& creation, Store& store, Uploads& uploads, const std::stop_token& stop,
                         const StoreJobs::Tell& tell) {
  const Cancellation cancellation(stop);
  const Reference name = parse_reference(creation.name);
  if (creation.from.empty()) return from_files(creation, store, uploads, cancellation, tell);
  const StoredModel model = find_stored(parse_reference(creation.from), store);
  if (creation.settings.empty()) return store.tag(model.reference, name);
  tell({.text = "writing the package"});
  return with_settings(model, creation, store);
}

}  // namespace gpux::server

#include "server/store_changes/model_creation.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/cancellation.h"
#include "base/counted.h"
#include "base/failure_of.h"
#include "base/files.h"
#include "base/in_quotes.h"
#include "base/scratch_folder.h"
#include "checkpoint/gguf_name.h"
#include "gpux/error.h"
#include "library/folder_import.h"
#include "library/other_folder.h"
#include "model/locate.h"
#include "project/trust_policy.h"
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
  // A package that was pulled stays a stranger's, and that of the place it came from, whatever it says itself.
  if (!model.pulled_from.empty()) content.origin.source = model.pulled_from;
  const Reference name = parse_reference(creation.name);
  return store.add(content, std::span(&name, 1));
}

// The signature of a package is of no other: with its origin, what is made of it would be stored and never run.
void require_unsigned(const TrustPolicy& policy, const StoredModel& model, const Reference& name) {
  if (model.pulled_from.empty()) return;
  StoredModel made = model;
  made.reference = name;
  made.verified_by.clear();
  if (is_trusted(policy, made)) return;
  throw Error(ErrorCode::permission,
              fmt::format("parameters: trust.yml asks for signatures of packages from {}, and a changed one has none",
                          in_quotes(model.pulled_from)));
}

// Its own name in a folder: nothing else of this machine.
void require_file_name(const std::string& name) {
  const bool is_plain = std::ranges::all_of(name, [](unsigned char c) { return c > ' ' && c != 0x7f && c != '\\'; });
  constexpr std::size_t limit_bytes = 200;
  if (is_plain && name.size() <= limit_bytes && is_inside_package(name)) return;
  throw Error(ErrorCode::invalid_input, fmt::format("files: {} is no name of a file in a folder", in_quotes(name)));
}

StoredModel from_files(const ModelCreation& creation, Store& store, Uploads& uploads, const Cancellation& cancellation,
                       const StoreJobs::Tell& tell) {
  const std::string gguf = gguf_among(creation.files);
  const ScratchFolder scratch(store.root() / "downloads/create");
  const fs::path folder = scratch.path() / "files";
  for (const auto& [name, digest] : creation.files) {
    require_file_name(name);
    uploads.lay_out(digest, folder / name);
  }
  // The parts of a GGUF file are found by the first.
  const fs::path model = gguf.empty() ? folder : folder / gguf;
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

// Without sampling, a temperature means nothing.
std::string changed_settings(const std::string& text, const std::vector<std::pair<std::string, double>>& settings) {
  Json json;
  const std::optional<Error> failure = failure_of([&] { json = parse_bounded_json<Json>(text); });
  if (failure || !json.is_object()) {
    throw Error(
        ErrorCode::invalid_model,
        fmt::format("parameters: the model's {} cannot be changed: it is no JSON object of usual size and depth",
                    settings_file));
  }
  for (const auto& [key, value] : settings) {
    json[key] = number(value);
    if (key == "temperature") json["do_sample"] = value != 0;
  }
  return json.dump(2) + "\n";
}

std::string gguf_among(const std::map<std::string, std::string>& files) {
  const auto first = std::ranges::find_if(files, [](const auto& file) { return checkpoint::is_gguf(file.first); });
  if (first == files.end()) return {};
  const checkpoint::GgufName model = checkpoint::gguf_name_of(first->first);
  for (const auto& [name, digest] : files) {
    if (name == first->first) continue;
    if (checkpoint::is_gguf(name)) {
      const checkpoint::GgufName other = checkpoint::gguf_name_of(name);
      if (model.parts > 1 && other.model == model.model && other.parts == model.parts) continue;
    }
    throw Error(ErrorCode::invalid_input,
                fmt::format("files: {} is beside {}; accepted: one GGUF file, the parts of one "
                            "(NAME-00001-of-00002.gguf, …), or the files of a Hugging Face folder",
                            in_quotes(name), in_quotes(first->first)));
  }
  return first->first;
}

StoredModel create_model(const ModelCreation& creation, Store& store, Uploads& uploads, const std::stop_token& stop,
                         const StoreJobs::Tell& tell) {
  const Cancellation cancellation(stop);
  const Reference name = parse_reference(creation.name);
  if (creation.from.empty()) return from_files(creation, store, uploads, cancellation, tell);
  const StoredModel model = find_stored(parse_reference(creation.from), store);
  const TrustPolicy policy = read_trust_policy(store.root());
  if (!model.pulled_from.empty()) require_trusted(policy, model);
  if (creation.settings.empty()) return store.tag(model.reference, name);
  require_unsigned(policy, model, name);
  tell({.text = "writing the package"});
  return with_settings(model, creation, store);
}

}  // namespace gpux::server

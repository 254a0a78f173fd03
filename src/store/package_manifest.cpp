#include "store/package_manifest.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/in_quotes.h"
#include "base/json_problem.h"
#include "base/spelling.h"
#include "gpux/error.h"

namespace gpux {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* config_type = "application/vnd.cncf.model.config.v1+json";
constexpr const char* weight_type = "application/vnd.cncf.model.weight.v1.raw";
constexpr const char* weight_config_type = "application/vnd.cncf.model.weight.config.v1.raw";

constexpr const char* file_path_key = "org.cncf.model.filepath";
constexpr const char* older_file_path_key = "org.cnai.model.filepath";
constexpr const char* title_key = "org.opencontainers.image.title";
constexpr const char* version_key = "org.opencontainers.image.version";
constexpr const char* description_key = "org.opencontainers.image.description";
constexpr const char* source_key = "org.opencontainers.image.source";
constexpr const char* revision_key = "org.opencontainers.image.revision";
constexpr const char* origin_file_key = "dev.gpux.origin.file";
constexpr const char* requested_revision_key = "dev.gpux.origin.requested-revision";
constexpr const char* model_key = "dev.gpux.model";
constexpr const char* provider_key = "dev.gpux.provider";
constexpr const char* precision_key = "dev.gpux.precision";
constexpr const char* shapes_key = "dev.gpux.shapes";
constexpr const char* variant_precision_key = "dev.gpux.variant.precision";
constexpr const char* weight_bits_key = "dev.gpux.variant.weight-bits";
constexpr const char* mean_cosine_key = "dev.gpux.variant.mean-cosine";
constexpr const char* least_cosine_key = "dev.gpux.variant.least-cosine";
constexpr const char* compared_provider_key = "dev.gpux.compared.provider";
constexpr const char* compared_agreement_key = "dev.gpux.compared.least-cosine";
constexpr const char* compared_samples_key = "dev.gpux.compared.samples";
constexpr const char* compared_difference_key = "dev.gpux.compared.difference";
constexpr const char* samples_key = "dev.gpux.variant.samples";
constexpr std::string_view metadata_prefix = "dev.gpux.metadata.";

struct TargetKey {
  const char* key;
  std::string VariantTarget::*member;
};

constexpr std::array<TargetKey, 6> target_keys{{
    {"dev.gpux.variant.provider", &VariantTarget::provider},
    {"dev.gpux.variant.runtime-version", &VariantTarget::runtime_version},
    {"dev.gpux.variant.device", &VariantTarget::device},
    {"dev.gpux.variant.optimization-level", &VariantTarget::optimization_level},
    {"dev.gpux.variant.machine", &VariantTarget::machine},
    {"dev.gpux.variant.provider-options", &VariantTarget::provider_options},
}};

constexpr std::size_t limit_name_bytes = 1024;

Json descriptor(const char* media_type, const Blob& blob) {
  return {{"mediaType", media_type}, {"digest", "sha256:" + blob.digest}, {"size", blob.bytes}};
}

Json layer(const StoredFile& file, const PackageManifest& package) {
  Json result = descriptor(file.name == project_file_name ? weight_config_type : weight_type, file.blob);
  result["annotations"] = {{file_path_key, file.name}};
  for (const Variant& variant : package.variants) {
    if (variant.model_file != file.name) continue;
    Json& annotations = result["annotations"];
    for (const TargetKey& one : target_keys) {
      const std::string& value = variant.target.*one.member;
      if (!variant.precision || !value.empty()) annotations[one.key] = value;
    }
    if (!variant.precision) continue;
    // Annotations are texts.
    annotations[variant_precision_key] = variant.precision->name;
    annotations[weight_bits_key] = std::to_string(variant.precision->weight_bits);
    annotations[mean_cosine_key] = fmt::format("{}", variant.precision->mean_cosine);
    annotations[least_cosine_key] = fmt::format("{}", variant.precision->least_cosine);
    annotations[samples_key] = std::to_string(variant.precision->samples);
  }
  return result;
}

std::string text_of(const Json& map, const std::string& key) {
  const auto found = map.find(key);
  return found != map.end() && found->is_string() ? found->get<std::string>() : std::string();
}

template <typename Number>
Number number_of(const Json& annotations, const char* key) {
  const std::string text = text_of(annotations, key);
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) return number;
  throw Error(ErrorCode::storage, fmt::format("{} is {}, which is no number", key, in_quotes(text)));
}

VariantPrecision precision_of(const Json& annotations) {
  return {.name = text_of(annotations, variant_precision_key),
          .weight_bits = number_of<unsigned>(annotations, weight_bits_key),
          .mean_cosine = number_of<double>(annotations, mean_cosine_key),
          .least_cosine = number_of<double>(annotations, least_cosine_key),
          .samples = number_of<unsigned>(annotations, samples_key)};
}

std::optional<ComparedProvider> compared_provider_of(const Json& annotations) {
  ComparedProvider compared{.provider = text_of(annotations, compared_provider_key)};
  if (compared.provider.empty()) return std::nullopt;
  compared.difference = text_of(annotations, compared_difference_key);
  constexpr std::size_t max_difference_bytes = 500;
  const auto is_control = [](unsigned char c) { return c < ' ' || c == 127; };
  if (std::ranges::any_of(compared.difference, is_control) || compared.difference.size() > max_difference_bytes) {
    compared.difference = in_quotes(compared.difference);
  }
  if (!compared.difference.empty()) return compared;
  compared.agreement = number_of<double>(annotations, compared_agreement_key);
  compared.samples = number_of<unsigned>(annotations, compared_samples_key);
  return compared;
}

void add_compared_provider(const ComparedProvider& compared, Json& annotations) {
  annotations[compared_provider_key] = compared.provider;
  if (!compared.difference.empty()) {
    annotations[compared_difference_key] = compared.difference;
    return;
  }
  annotations[compared_agreement_key] = fmt::format("{}", compared.agreement);
  annotations[compared_samples_key] = std::to_string(compared.samples);
}

std::string digest_of(const Json& entry) {
  const std::string digest = entry.at("digest").get<std::string>();
  if (!digest.starts_with("sha256:") || !is_digest(digest.substr(7))) {
    throw Error(ErrorCode::storage, fmt::format("the digest {} is none of SHA-256", in_quotes(digest)));
  }
  return digest.substr(7);
}

std::string file_name_of(const Json& annotations) {
  std::string name = text_of(annotations, file_path_key);
  if (name.empty()) name = text_of(annotations, older_file_path_key);
  if (name.empty()) name = text_of(annotations, title_key);
  if (!is_inside_package(name)) {
    throw Error(ErrorCode::storage, fmt::format("the file name {} does not stay inside the package", in_quotes(name)));
  }
  return name;
}

// oras gives each file the type of a tar by default, and marks folders, which it packs, to be unpacked.
bool is_file_of_oras(const std::string& media_type, const Json& annotations) {
  return media_type == "application/vnd.oci.image.layer.v1.tar" && !text_of(annotations, title_key).empty() &&
         !annotations.contains("io.deis.oras.content.unpack");
}

void add_layer(const Json& layer, PackageManifest& package) {
  const std::string media_type = layer.at("mediaType").get<std::string>();
  const Json annotations = layer.value("annotations", Json::object());
  const bool is_raw = media_type.ends_with(".raw") || media_type.starts_with("text/") ||
                      media_type == "application/octet-stream" || is_file_of_oras(media_type, annotations);
  if (!is_raw) {
    throw Error(ErrorCode::storage,
                fmt::format("it holds a layer of the type {}; only raw files are supported", in_quotes(media_type)));
  }
  StoredFile file{file_name_of(annotations), {digest_of(layer), layer.at("size").get<std::uint64_t>()}};
  if (annotations.contains(target_keys[0].key)) {
    Variant variant{file.name, {}, {}};
    for (const TargetKey& one : target_keys) variant.target.*one.member = text_of(annotations, one.key);
    if (annotations.contains(variant_precision_key)) variant.precision = precision_of(annotations);
    package.variants.push_back(std::move(variant));
  }
  package.files.push_back(std::move(file));
}

// A name twice, or a file where another name needs a folder, could not be laid out.
void require_distinct(const PackageManifest& package) {
  std::set<std::string, std::less<>> names;
  for (const StoredFile& file : package.files) {
    if (!names.insert(file.name).second) {
      throw Error(ErrorCode::storage, fmt::format("it holds {} twice", in_quotes(file.name)));
    }
  }
  for (const std::string& name : names) {
    for (std::size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
      if (!names.contains(name.substr(0, slash))) continue;
      throw Error(ErrorCode::storage, fmt::format("{} is a file and a folder", in_quotes(name.substr(0, slash))));
    }
  }
}

void find_model_file(PackageManifest& package) {
  if (!package.model_file.empty()) {
    if (package.find(package.model_file) != nullptr) return;
    throw Error(ErrorCode::storage, fmt::format("its model {} is not among its files", in_quotes(package.model_file)));
  }
  std::set<std::string_view> variants;
  for (const Variant& variant : package.variants) variants.insert(variant.model_file);
  for (const StoredFile& file : package.files) {
    if (variants.contains(file.name) || !file.name.ends_with(".onnx")) continue;
    if (!package.model_file.empty()) {
      throw Error(ErrorCode::storage, fmt::format("it does not say which of {} and {} is the model",
                                                  in_quotes(package.model_file), in_quotes(file.name)));
    }
    package.model_file = file.name;
  }
  if (package.model_file.empty()) throw Error(ErrorCode::storage, "it holds no ONNX file");
}

PackageManifest decode(const Json& json) {
  PackageManifest package;
  const Json annotations = json.value("annotations", Json::object());
  package.name = text_of(annotations, title_key);
  package.version = text_of(annotations, version_key);
  package.description = text_of(annotations, description_key);
  package.model_file = text_of(annotations, model_key);
  package.provider = text_of(annotations, provider_key);
  package.precision = text_of(annotations, precision_key);
  package.shapes = text_of(annotations, shapes_key);
  // Packages that were stored by former versions have the whole address, whose query may hold a signature.
  package.origin = {.source = without_query(text_of(annotations, source_key)),
                    .revision = text_of(annotations, revision_key),
                    .file = text_of(annotations, origin_file_key),
                    .requested_revision = text_of(annotations, requested_revision_key)};
  package.compared_provider = compared_provider_of(annotations);
  for (const auto& [key, value] : annotations.items()) {
    if (!key.starts_with(metadata_prefix) || !value.is_string()) continue;
    package.metadata.emplace_back(key.substr(metadata_prefix.size()), value.get<std::string>());
  }
  for (const Json& layer : json.at("layers")) add_layer(layer, package);
  require_distinct(package);
  find_model_file(package);
  return package;
}

/// Runs `read` and gives whatever fails in it a name and a code.
template <typename Read>
auto reading(const std::string& name, const Read& read) {
  try {
    return read();
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::storage, fmt::format("{} is damaged: {}", name, json_problem(error)));
  } catch (const Error& error) {
    throw error.within(name);
  }
}

}  // namespace

const StoredFile* PackageManifest::find(std::string_view file) const noexcept {
  const auto found = std::find_if(files.begin(), files.end(), [&](const StoredFile& one) { return one.name == file; });
  return found == files.end() ? nullptr : &*found;
}

std::uint64_t PackageManifest::total_bytes() const noexcept {
  return std::accumulate(files.begin(), files.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const StoredFile& file) { return sum + file.blob.bytes; });
}

std::string encode_config(const PackageManifest& package) {
  Json description = {{"name", package.name}, {"version", package.version}};
  if (!package.description.empty()) description["description"] = package.description;
  Json digests = Json::array();
  for (const StoredFile& file : package.files) digests.push_back("sha256:" + file.blob.digest);
  return Json{{"descriptor", description},
              {"modelfs", {{"type", "layers"}, {"diffIds", digests}}},
              {"config", {{"format", "onnx"}}}}
      .dump();
}

std::string encode_manifest(const PackageManifest& package, const Blob& config) {
  Json annotations = {{title_key, package.name}, {version_key, package.version}, {model_key, package.model_file}};
  if (!package.description.empty()) annotations[description_key] = package.description;
  if (!package.provider.empty()) annotations[provider_key] = package.provider;
  if (!package.precision.empty()) annotations[precision_key] = package.precision;
  if (!package.shapes.empty()) annotations[shapes_key] = package.shapes;
  if (!package.origin.source.empty()) annotations[source_key] = package.origin.source;
  if (!package.origin.revision.empty()) annotations[revision_key] = package.origin.revision;
  if (!package.origin.file.empty()) annotations[origin_file_key] = package.origin.file;
  if (!package.origin.requested_revision.empty()) {
    annotations[requested_revision_key] = package.origin.requested_revision;
  }
  if (package.compared_provider) add_compared_provider(*package.compared_provider, annotations);
  for (const auto& [key, value] : package.metadata) annotations[std::string(metadata_prefix) + key] = value;
  Json layers = Json::array();
  for (const StoredFile& file : package.files) layers.push_back(layer(file, package));
  return Json{{"schemaVersion", 2},
              {"mediaType", oci_manifest_type},
              {"artifactType", modelpack_artifact_type},
              {"config", descriptor(config_type, config)},
              {"layers", layers},
              {"annotations", annotations}}
      .dump();
}

PackageManifest decode_manifest(std::string_view json, const std::string& name) {
  return reading(name, [&] { return decode(parse_bounded_json<Json>(json)); });
}

References references_of(std::string_view json, const std::string& name) {
  return reading(name, [&] {
    const Json document = parse_bounded_json<Json>(json);
    References references;
    if (document.contains("config")) references.blobs.push_back(digest_of(document.at("config")));
    for (const Json& layer : document.value("layers", Json::array())) references.blobs.push_back(digest_of(layer));
    for (const Json& one : document.value("manifests", Json::array())) references.manifests.push_back(digest_of(one));
    return references;
  });
}

ManifestTypes types_of(std::string_view json, const std::string& name) {
  return reading(name, [&] {
    const Json document = parse_bounded_json<Json>(json);
    ManifestTypes types{text_of(document, "mediaType"), text_of(document, "artifactType")};
    if (types.media_type.empty()) types.media_type = oci_manifest_type;
    return types;
  });
}

bool is_inside_package(std::string_view name) noexcept {
  if (name.empty() || name.size() > limit_name_bytes || name.find('\0') != std::string_view::npos ||
      name.find('\\') != std::string_view::npos) {
    return false;
  }
  for (;;) {
    const std::size_t slash = name.find('/');
    const std::string_view part = name.substr(0, slash);
    if (part.empty() || part == "." || part == ".." || part.size() > 255) return false;
    if (slash == std::string_view::npos) return true;
    name.remove_prefix(slash + 1);
  }
}

}  // namespace gpux

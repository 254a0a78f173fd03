#include "library/model_reference.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "base/sha256.h"
#include "base/spelling.h"
#include "gpux/error.h"
#include "gpux/pull.h"
#include "registry/http/url.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;

bool is_address(std::string_view text) {
  return text.starts_with("https://") || text.starts_with("http://");
}

// What looks like the name of a file is none: who mistypes one does not mean another machine.
bool names_registry(std::string_view text) {
  if (text.ends_with(".onnx") || text.ends_with(".yml") || text.ends_with(".yaml") || text.ends_with('/')) return false;
  // NAME=REFERENCE of gpux serve.
  return text.find('=') == std::string_view::npos && oci::names_registry(text);
}

bool is_path(const std::string& text) {
  std::error_code error;
  return text.find('\0') == std::string::npos && fs::exists(text, error);
}

template <typename Answers>
std::optional<StoredModel> find_if(const Store& store, const Reference& name, const Answers& answers) {
  std::optional<StoredModel> found = store.find(name);
  return found && answers(*found) ? std::move(found) : std::nullopt;
}

// Empty where it cannot be told: earlier versions recorded no revision, and gave one name to several.
std::optional<std::string> requested_revision(const StoredModel& model) {
  const std::string &recorded = model.package.origin.requested_revision, &tag = model.reference.tag;
  if (!recorded.empty()) return recorded;
  if (tag == "latest") return "";
  constexpr std::size_t limit_tag = 128;
  const bool is_ambiguous = tag.find('-') != std::string::npos || tag.starts_with('_') || tag.size() == limit_tag;
  return is_ambiguous ? std::nullopt : std::optional(tag);
}

// Whether the package has the name of the address that it came from.
bool is_of_address(const StoredModel& model) {
  const std::string& source = model.package.origin.source;
  if (model.pulled_from != source || place_of_model(source) != ModelPlace::address) return false;
  try {
    return stored_name_of(parse_address(source)) == model.reference;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

ModelPlace place_of_model(std::string_view text) noexcept {
  if (registry::is_hub_reference(text)) return ModelPlace::hub;
  if (is_address(text)) return ModelPlace::address;
  return names_registry(text) ? ModelPlace::registry : ModelPlace::here;
}

std::string file_name_of(const AddressReference& reference) {
  const std::string path = registry::parse_url(reference.url).path();
  return path.substr(path.rfind('/') + 1);
}

AddressReference parse_address(const std::string& text) {
  AddressReference reference{.url = registry::parse_url(text).text(), .sha256 = {}};
  constexpr std::string_view key = "#sha256=";
  if (const std::size_t hash = text.find('#'); hash != std::string::npos) {
    if (!text.substr(hash).starts_with(key) || !is_sha256(lower(text.substr(hash + key.size())))) {
      throw Error(ErrorCode::usage,
                  fmt::format("{}: what follows '#' must be sha256= and 64 hexadecimal digits", in_quotes(text)));
    }
    reference.sha256 = lower(text.substr(hash + key.size()));
  }
  if (!lower(file_name_of(reference)).ends_with(".onnx")) {
    throw Error(ErrorCode::usage,
                fmt::format("{} is no address of an ONNX file: https://HOST/PATH.onnx is accepted", in_quotes(text)));
  }
  return reference;
}

Reference stored_name_of(const AddressReference& reference) {
  const registry::Url url = registry::parse_url(reference.url);
  std::string name = registry::as_name_part(url.host);
  if (url.authority() != url.host) name += fmt::format(":{}", url.port);
  std::string path = url.path();
  path.resize(path.size() - std::string_view(".onnx").size());
  for (const std::string& part : split(path, '/')) {
    if (const std::string word = registry::as_name_part(part); !word.empty()) name += "/" + word;
  }
  // A digest distinguishes what the path does not.
  constexpr std::size_t limit_name = 200, shown_digits = 12;
  if (name.size() > limit_name || url.target != url.path() || name.find('/') == std::string::npos) {
    name = fmt::format("{}/{}", name.substr(0, name.find('/')), sha256_of(reference.url).substr(0, shown_digits));
  }
  return {.name = name, .tag = "latest"};
}

std::string origin_of(const AddressReference& reference) {
  return without_query(registry::parse_url(reference.url).text());
}

std::string origin_of(const registry::HubReference& reference) {
  return "https://huggingface.co/" + reference.repository;
}

std::optional<RemoteModel> remote_model(const std::string& text) {
  if (!is_full_reference(text)) return std::nullopt;
  switch (place_of_model(text)) {
    case ModelPlace::hub:
      return registry::parse_hub_reference(text);
    case ModelPlace::registry:
      return oci::parse_remote_reference(text);
    case ModelPlace::address:
      return parse_address(text);
    case ModelPlace::here:
      break;
  }
  return std::nullopt;
}

RemoteModel model_to_pull(const std::string& text) {
  switch (place_of_model(text)) {
    case ModelPlace::registry:
      return oci::parse_remote_reference(text);
    case ModelPlace::address:
      return parse_address(text);
    case ModelPlace::hub:
    case ModelPlace::here:
      break;
  }
  return registry::parse_hub_reference(text, true);
}

Reference stored_name_of(const RemoteModel& model) {
  return std::visit([](const auto& reference) { return stored_name_of(reference); }, model);
}

std::optional<StoredModel> find_pulled(const Store& store, const registry::HubReference& reference) {
  return find_if(store, registry::stored_name_of(reference), [&](const StoredModel& model) {
    const PackageOrigin& origin = model.package.origin;
    if (lower(origin.source) != lower(origin_of(reference))) return false;
    if (!reference.file.empty() && origin.file != reference.file) return false;
    if (!reference.quantization.empty()) return origin.file.ends_with(".gguf");
    return reference.is_stored_name || requested_revision(model) == reference.revision;
  });
}

std::optional<StoredModel> find_pulled(const Store& store, const AddressReference& reference) {
  return find_if(store, stored_name_of(reference), [&](const StoredModel& model) {
    const PackageManifest& package = model.package;
    if (package.origin.source != origin_of(reference)) return false;
    const StoredFile* const file = package.find(package.model_file);
    return reference.sha256.empty() || (file != nullptr && file->blob.digest == reference.sha256);
  });
}

std::optional<StoredModel> find_pulled(const Store& store, const oci::RemoteReference& reference) {
  return find_if(store, reference.stored_name(), [&](const StoredModel& model) {
    return (reference.digest.empty() || reference.digest == model.digest) && !is_of_address(model);
  });
}

bool is_full_reference(const std::string& model) {
  return place_of_model(model) != ModelPlace::here && !is_path(model);
}

}  // namespace gpux

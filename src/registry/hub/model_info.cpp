#include "registry/hub/model_info.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/in_quotes.h"
#include "base/json_problem.h"
#include "base/utf8_prefix.h"
#include "gpux/error.h"
#include "store/package_manifest.h"

namespace gpux::registry {
namespace {

using Json = nlohmann::json;

constexpr std::size_t limit_files = 100'000, limit_results = 10'000, limit_tags = 10'000;
constexpr std::size_t commit_digits = 40, sha256_digits = 64;

bool is_hexadecimal(std::string_view text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

[[noreturn]] void refuse(const std::string& reason) {
  throw Error(ErrorCode::network, "the hub's answer cannot be used: " + reason);
}

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::uint64_t count_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

HubFile file_of(const Json& entry) {
  constexpr std::uint64_t limit_file_bytes = std::uint64_t{1} << 44;
  HubFile file;
  file.name = text_of(entry, "rfilename");
  if (!is_inside_package(file.name)) {
    refuse(fmt::format("the file name {} does not stay inside a folder", in_quotes(utf8_prefix(file.name, 200))));
  }
  file.bytes = count_of(entry, "size");
  file.git_blob_id = text_of(entry, "blobId");
  if (const auto lfs = entry.find("lfs"); lfs != entry.end() && lfs->is_object()) {
    file.sha256 = text_of(*lfs, "sha256");
    if (!is_hexadecimal(file.sha256, sha256_digits)) {
      refuse(fmt::format("the file {} has no SHA-256", in_quotes(file.name)));
    }
    if (lfs->contains("size")) file.bytes = count_of(*lfs, "size");
    file.git_blob_id.clear();
  }
  if (!file.git_blob_id.empty() && !is_hexadecimal(file.git_blob_id, commit_digits)) file.git_blob_id.clear();
  if (file.bytes > limit_file_bytes) refuse(fmt::format("the file {} has {} bytes", in_quotes(file.name), file.bytes));
  return file;
}

HubModelInfo info_of(const Json& json) {
  if (!json.is_object()) refuse("it is no object");
  HubModelInfo info;
  info.repository = text_of(json, "id");
  if (info.repository.empty()) info.repository = text_of(json, "modelId");
  info.commit = text_of(json, "sha");
  info.task = text_of(json, "pipeline_tag");
  info.library = text_of(json, "library_name");
  info.last_modified = text_of(json, "lastModified");
  info.downloads = count_of(json, "downloads");
  info.likes = count_of(json, "likes");
  const auto is_private = json.find("private");
  info.is_private = is_private != json.end() && is_private->is_boolean() && is_private->get<bool>();
  info.gated = text_of(json, "gated");
  if (const auto tags = json.find("tags"); tags != json.end() && tags->is_array()) {
    if (tags->size() > limit_tags) refuse(fmt::format("it has more than {} tags", limit_tags));
    for (const Json& tag : *tags) {
      if (tag.is_string()) info.tags.push_back(tag.get<std::string>());
    }
  }
  constexpr std::string_view license_tag = "license:";
  for (const std::string& tag : info.tags) {
    if (tag.starts_with(license_tag)) info.license = tag.substr(license_tag.size());
  }
  return info;
}

template <typename Read>
auto reading(const Read& read) {
  try {
    return read();
  } catch (const nlohmann::json::exception& error) {
    refuse(json_problem(error));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::network) throw;
    refuse(error.message());
  }
}

}  // namespace

const HubFile* HubModelInfo::find(std::string_view file) const noexcept {
  const auto found = std::ranges::lower_bound(files, file, {}, &HubFile::name);
  return found == files.end() || found->name != file ? nullptr : &*found;
}

HubModelInfo parse_model_info(std::string_view json) {
  return reading([&] {
    const Json document = parse_bounded_json(json);
    HubModelInfo info = info_of(document);
    if (info.repository.empty()) refuse("it names no repository");
    if (!is_hexadecimal(info.commit, commit_digits)) refuse("it has no commit");
    const auto siblings = document.find("siblings");
    if (siblings == document.end() || !siblings->is_array()) refuse("it has no list of files");
    if (siblings->size() > limit_files) refuse(fmt::format("the repository has more than {} files", limit_files));
    for (const Json& entry : *siblings) {
      if (!entry.is_object()) refuse("a file of its list is no object");
      info.files.push_back(file_of(entry));
    }
    std::ranges::sort(info.files, {}, &HubFile::name);
    const auto twice = std::ranges::adjacent_find(info.files, {}, &HubFile::name);
    if (twice != info.files.end()) refuse(fmt::format("it lists {} twice", in_quotes(twice->name)));
    return info;
  });
}

std::vector<HubModelInfo> parse_search_results(std::string_view json) {
  return reading([&] {
    const Json document = parse_bounded_json(json);
    if (!document.is_array()) refuse("it is no list");
    if (document.size() > limit_results) refuse(fmt::format("it lists more than {} models", limit_results));
    std::vector<HubModelInfo> results;
    for (const Json& entry : document) {
      results.push_back(info_of(entry));
      if (results.back().repository.empty()) refuse("a model of its list has no name");
    }
    return results;
  });
}

}  // namespace gpux::registry

#include "registry/hub/hub_cache.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "base/files.h"
#include "base/format_message.h"
#include "base/sha256.h"
#include "gpux/error.h"
#include "registry/hub/git_blob.h"

namespace gpux::registry {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t commit_digits = 40, sha256_digits = 64;

bool is_hexadecimal(std::string_view text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

fs::path folder_in(const fs::path& cache, const std::string& repository) {
  std::string folder = "models--" + repository;
  if (const std::size_t slash = folder.find('/'); slash != std::string::npos) folder.replace(slash, 1, "--");
  return cache / folder;
}

std::string commit_of(const fs::path& folder, const std::string& revision) {
  std::error_code error;
  if (is_hexadecimal(revision, commit_digits) && fs::is_directory(folder / "snapshots" / revision, error)) {
    return revision;
  }
  if (revision.find("..") != std::string::npos || revision.starts_with('/')) return {};
  const fs::path reference = folder / "refs" / (revision.empty() ? "main" : revision);
  constexpr std::uint64_t limit_bytes = 256;
  if (!fs::is_regular_file(reference, error) || fs::file_size(reference, error) > limit_bytes) return {};
  std::string commit = read_file(reference);
  while (!commit.empty() && (commit.back() == '\n' || commit.back() == ' ')) commit.pop_back();
  return is_hexadecimal(commit, commit_digits) ? commit : std::string();
}

std::vector<HubFile> files_in(const fs::path& snapshot) {
  std::vector<HubFile> files;
  std::error_code error;
  for (fs::recursive_directory_iterator i(snapshot, error), end; !error && i != end; i.increment(error)) {
    const bool is_link = i->is_symlink(error);
    if (!is_link && !i->is_regular_file(error)) continue;
    const std::string id = is_link ? fs::read_symlink(i->path(), error).filename().string() : std::string();
    HubFile file{.name = i->path().lexically_relative(snapshot).generic_string(), .sha256 = {}, .git_blob_id = {}};
    file.bytes = fs::file_size(i->path(), error);
    if (error) continue;
    if (is_hexadecimal(id, sha256_digits)) {
      file.sha256 = id;
    } else if (is_hexadecimal(id, commit_digits)) {
      file.git_blob_id = id;
    } else if (is_link) {
      continue;
    }
    files.push_back(std::move(file));
  }
  std::ranges::sort(files, {}, &HubFile::name);
  return files;
}

}  // namespace

std::string problem_of(const HubFile& file, const fs::path& path) {
  std::error_code error;
  const std::uint64_t bytes = fs::file_size(path, error);
  if (error || bytes != file.bytes) return fmt::format("it has {} bytes instead of {}", bytes, file.bytes);
  if (!file.sha256.empty()) {
    const std::string digest = sha256_of_file(path);
    return digest == file.sha256 ? "" : fmt::format("its SHA-256 is {} instead of {}", digest, file.sha256);
  }
  if (file.git_blob_id.empty()) return {};
  const std::string id = git_blob_id_of_file(path);
  return id == file.git_blob_id ? "" : fmt::format("its git id is {} instead of {}", id, file.git_blob_id);
}

std::optional<fs::path> find_in_cache(const fs::path& cache, const HubModelInfo& info, const HubFile& file) {
  const fs::path folder = folder_in(cache, info.repository);
  std::vector<fs::path> places{folder / "snapshots" / info.commit / file.name};
  if (!file.content_id().empty()) places.insert(places.begin(), folder / "blobs" / file.content_id());
  for (fs::path& path : places) {
    std::error_code error;
    const bool is_file = fs::is_regular_file(fs::symlink_status(path, error));
    if (is_file && fs::file_size(path, error) == file.bytes) return std::move(path);
  }
  return std::nullopt;
}

std::optional<HubModelInfo> find_cached_model(const fs::path& cache, const std::string& repository,
                                              const std::string& revision) {
  const fs::path folder = folder_in(cache, repository);
  HubModelInfo info;
  info.repository = repository;
  info.commit = commit_of(folder, revision);
  if (info.commit.empty()) return std::nullopt;
  info.files = files_in(folder / "snapshots" / info.commit);
  if (info.files.empty()) return std::nullopt;
  const auto is_known = [&](const char* file) {
    std::error_code error;
    return info.find(file) != nullptr || info.find(".gitattributes") != nullptr ||
           fs::exists(folder / ".no_exist" / info.commit / file, error);
  };
  std::vector<const char*> needed{"config.json", "modules.json"};
  if (info.find("modules.json") != nullptr) {
    needed.insert(needed.end(), {"config_sentence_transformers.json", "sentence_bert_config.json"});
  }
  for (const char* file : needed) {
    if (is_known(file)) continue;
    throw Error(
        ErrorCode::not_found,
        format_message("the cache '{}' has a part of hf.co/{} alone: it does not have {}, nor the record that the "
                       "repository has none",
                       file_at(folder), repository, file));
  }
  return info;
}

}  // namespace gpux::registry

#include "isolation/loaded_identity.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/files.h"
#include "base/sha256.h"
#include "gpux/error.h"

namespace gpux::isolation {
namespace {

namespace fs = std::filesystem;

std::string digest_of(const fs::path& file) {
  try {
    return "SHA-256 " + sha256_of_file(file);
  } catch (const Error&) {
    return "missing";
  }
}

std::vector<FileStamp> stamps_of(const std::vector<fs::path>& files) {
  std::vector<FileStamp> stamps;
  for (const fs::path& file : files) stamps.push_back(stamp_of(file));
  return stamps;
}

}  // namespace

std::string difference(const LoadedIdentity& now, const LoadedIdentity& before) {
  const auto value_in = [](const LoadedIdentity& identity, const std::string& name) {
    const auto found = std::ranges::find(identity, name, &LoadedIdentity::value_type::first);
    return found == identity.end() ? std::string("nothing") : found->second;
  };
  for (const LoadedIdentity& one : {before, now}) {
    for (const auto& [name, value] : one) {
      const std::string is = value_in(now, name), was = value_in(before, name);
      if (is != was) return fmt::format("{} is {}, and was {}", name, is, was);
    }
  }
  return {};
}

FileContents::FileContents(std::vector<fs::path> files) : files_(std::move(files)), stamps_(stamps_of(files_)) {}

LoadedIdentity FileContents::identity() {
  const std::lock_guard lock(mutex_);
  LoadedIdentity identity;
  for (const fs::path& file : files_) {
    const FileStamp stamp = stamp_of(file);
    Content& content = known_[file];
    if (content.digest.empty() || content.stamp != stamp) content = {.stamp = stamp, .digest = digest_of(file)};
    identity.emplace_back(fmt::format("the file '{}'", file.string()), content.digest);
  }
  return identity;
}

void FileContents::require_unchanged() const {
  for (std::size_t i = 0; i < files_.size(); ++i) {
    if (stamp_of(files_[i]) != stamps_[i]) throw FileChanged(files_[i]);
  }
}

}  // namespace gpux::isolation

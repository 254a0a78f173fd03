#include "daemon/rotation.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace gpux::daemon {
namespace {

bool is_packed(std::string_view name) {
  for (const std::string_view ending : {".gz", ".bz2", ".xz", ".zst"}) {
    if (name.ends_with(ending)) return true;
  }
  return false;
}

// Of "events.jsonl.2": 2.
std::optional<std::uint64_t> rotation_number(std::string_view ending) {
  if (!ending.starts_with('.')) return std::nullopt;
  ending.remove_prefix(1);
  std::uint64_t number = 0;
  const auto [end, failure] = std::from_chars(ending.data(), ending.data() + ending.size(), number);
  // A date is no number of rotations.
  if (failure != std::errc() || end != ending.data() + ending.size() || ending.size() > 5) return std::nullopt;
  return number;
}

bool is_newer(std::string_view left, std::string_view right) {
  const auto left_number = rotation_number(left), right_number = rotation_number(right);
  if (left_number && right_number) return *left_number < *right_number;
  if (left_number.has_value() != right_number.has_value()) return false;
  return left > right;
}

}  // namespace

std::vector<FolderFile> files_to_read(const std::vector<FolderFile>& folder, std::string_view name,
                                      std::uint64_t inode) {
  std::vector<FolderFile> files;
  const auto ending_of = [&](const FolderFile& file) { return std::string_view(file.name).substr(name.size()); };
  const auto current = std::find_if(folder.begin(), folder.end(), [&](const auto& file) { return file.name == name; });
  const auto read = std::find_if(folder.begin(), folder.end(), [&](const auto& file) {
    return file.inode == inode && file.name.starts_with(name) && !is_packed(file.name);
  });
  if (read != folder.end() && read != current) {
    files.push_back(*read);
    const std::string_view from = ending_of(*read);
    for (const FolderFile& file : folder) {
      if (!file.name.starts_with(name) || file.name == name || file.name == read->name || is_packed(file.name))
        continue;
      const std::string_view ending = ending_of(file);
      const bool same_kind = ending.front() == from.front();
      if (same_kind && is_newer(ending, from)) files.push_back(file);
    }
    std::sort(files.begin() + 1, files.end(),
              [&](const auto& left, const auto& right) { return is_newer(ending_of(right), ending_of(left)); });
  }
  if (current != folder.end()) files.push_back(*current);
  return files;
}

}  // namespace gpux::daemon

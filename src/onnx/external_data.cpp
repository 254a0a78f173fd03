#include "onnx/external_data.h"

#include <algorithm>
#include <limits>
#include <system_error>

#include <fmt/format.h>

#include "base/utf8.h"
#include "gpux/error.h"
#include "onnx/limits.h"
#include "onnx/text.h"

namespace gpux::onnx {
namespace fs = std::filesystem;

namespace {

/// ONNX Runtime takes what follows as an address in its own memory.
constexpr std::string_view memory_address_mark = "*/_ORT_MEM_ADDR_/*";

[[noreturn]] void refuse(std::string_view tensor, std::string_view location, std::string_view why) {
  throw Error(ErrorCode::invalid_model,
              fmt::format("tensor {} has external data at {}, {}", quote(tensor), quote(location), why));
}

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

/// Empty where the path cannot be resolved, as with a circle of links.
fs::path resolved(const fs::path& path) {
  std::error_code error;
  fs::path result = fs::weakly_canonical(path, error);
  return error ? fs::path() : result;
}

bool has_prefix(const fs::path& path, const fs::path& prefix) {
  return std::mismatch(prefix.begin(), prefix.end(), path.begin(), path.end()).first == prefix.end();
}

bool leaves_folder(const fs::path& location) {
  const fs::path normal = location.lexically_normal();
  return normal.begin() != normal.end() && *normal.begin() == "..";
}

}  // namespace

ExternalFiles::ExternalFiles(const fs::path& model) : model_(model) {
  // Download caches keep model and data as links into one folder of content: beside the link's target is inside too.
  for (const fs::path& folder : {resolved(folder_of(model)), folder_of(resolved(model))}) {
    if (!folder.empty()) folders_.push_back(folder);
  }
}

bool ExternalFiles::is_inside(const fs::path& file) const {
  const fs::path target = resolved(file);
  return !target.empty() && std::ranges::any_of(folders_, [&](const fs::path& f) { return has_prefix(target, f); });
}

bool ExternalFiles::is_inside_folder(std::string_view location) const {
  if (!is_utf8(location) || location.find('\0') != std::string_view::npos) return false;
  const fs::path relative{std::string(location)};
  return !relative.is_absolute() && !leaves_folder(relative) && is_inside(folder_of(model_) / relative);
}

ExternalFile& ExternalFiles::file_at(std::string_view tensor, std::string_view location) {
  if (const auto known = index_.find(location); known != index_.end()) return files_[known->second];
  if (location.empty()) refuse(tensor, location, "which names no file");
  if (location.starts_with(memory_address_mark)) refuse(tensor, location, "which is an address in memory, not a file");
  if (!is_utf8(location) || location.find('\0') != std::string_view::npos)
    refuse(tensor, location, "which is no file name");
  const fs::path relative{std::string(location)};
  if (relative.is_absolute()) refuse(tensor, location, "an absolute path; only files beside the model are read");
  const fs::path file = folder_of(model_) / relative;
  if (!is_inside_folder(location)) {
    refuse(tensor, location, "outside the model's folder; only files beside the model are read");
  }
  if (files_.size() == max_distinct_names)
    refuse(tensor, location, fmt::format("the file after {} others", files_.size()));

  std::error_code error;
  const bool is_file = fs::is_regular_file(file, error);
  const std::uintmax_t size = is_file ? fs::file_size(file, error) : 0;
  index_.emplace(location, files_.size());
  sizes_.push_back(error ? 0 : size);
  files_.push_back({.location = std::string(location), .present = is_file && !error});
  return files_.back();
}

void ExternalFiles::add(std::string_view tensor, const ExternalLocation& location, std::uint64_t byte_size) {
  ExternalFile& file = file_at(tensor, location.path);
  if (location.offset > std::numeric_limits<std::uint64_t>::max() - byte_size) {
    refuse(tensor, location.path, fmt::format("from byte {}, which no file has", location.offset));
  }
  file.bytes = std::max(file.bytes, location.offset + byte_size);
  const std::uint64_t size = sizes_[static_cast<std::size_t>(&file - files_.data())];
  if (file.bytes > size) file.present = false;
}

}  // namespace gpux::onnx

#include "embedding/image_paths.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/files.h"
#include "base/format_message.h"
#include "base/spelling.h"
#include "base/utf8.h"
#include "gpux/error.h"
#include "image/decode.h"

namespace gpux::embedding {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t max_list_bytes = std::uint64_t{64} << 20;
constexpr std::array<std::string_view, 4> image_extensions{".jpg", ".jpeg", ".png", ".webp"};

bool has_image_name(const fs::path& file) {
  const std::string extension = lower(file.extension().string());
  return std::find(image_extensions.begin(), image_extensions.end(), extension) != image_extensions.end();
}

bool begins_as_image(const fs::path& file) {
  std::array<char, 16> bytes{};
  std::ifstream stream(file, std::ios::binary);
  stream.read(bytes.data(), bytes.size());
  const auto read = std::as_bytes(std::span(bytes)).first(static_cast<std::size_t>(stream.gcount()));
  return image::format_of(read).has_value();
}

bool is_image_file(const fs::path& file) {
  std::error_code unreadable;
  return fs::is_regular_file(file, unreadable) && (has_image_name(file) || begins_as_image(file));
}

void add_folder(const fs::path& folder, ImagePaths& images) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator i(folder, error), end; !error && i != end; i.increment(error)) {
    std::error_code unreadable;
    if (!fs::is_regular_file(i->path(), unreadable)) continue;
    if (has_image_name(i->path())) {
      files.push_back(i->path().string());
    } else {
      ++images.skipped;
    }
  }
  if (error) throw_file_error("read the folder", folder, error.value());
  if (files.empty()) {
    throw Error(
        ErrorCode::not_found,
        format_message("the folder '{}' has no images (.jpg, .jpeg, .png, .webp); texts are read from files: @FILE",
                       file_at(folder)));
  }
  std::sort(files.begin(), files.end());
  std::move(files.begin(), files.end(), std::back_inserter(images.files));
}

// Any text would be read as a list otherwise, and each of its lines as a path.
void require_path(const fs::path& file, std::string_view line) {
  std::error_code unreadable;
  if (line.find('\0') == std::string_view::npos && fs::exists(fs::path(line), unreadable)) return;
  constexpr std::size_t shown = 60;
  throw Error(
      ErrorCode::not_found,
      format_message("'{}' is no image, and as a list of images it has to have one path per line: there is no file "
                     "'{}'",
                     file_at(file), line.substr(0, shown)));
}

void add_list(const fs::path& file, ImagePaths& images) {
  const std::string content = read_file(file, max_list_bytes);
  if (const std::string problem = utf8_problem(content); !problem.empty()) {
    throw Error(ErrorCode::invalid_input,
                format_message("'{}' is neither an image nor a list of images, one path per line: it is {}",
                               file_at(file), problem));
  }
  const std::size_t before = images.files.size();
  for (std::string_view rest = content; !rest.empty();) {
    const std::size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    if (images.files.size() == before) require_path(file, line);
    images.files.emplace_back(line);
  }
  if (images.files.size() != before) return;
  throw Error(ErrorCode::not_found,
              format_message("the list '{}' names no images: one path per line is accepted", file_at(file)));
}

}  // namespace

bool is_image_argument(const std::string& argument) {
  if (!argument.starts_with('@')) return false;
  const fs::path path(argument.substr(1));
  std::error_code unreadable;
  return fs::is_directory(path, unreadable) || is_image_file(path);
}

ImagePaths images_in(std::span<const std::string> paths) {
  ImagePaths images;
  for (const std::string& text : paths) {
    const fs::path path(text);
    std::error_code unreadable;
    if (fs::is_directory(path, unreadable)) {
      add_folder(path, images);
    } else if (is_image_file(path)) {
      images.files.push_back(text);
    } else {
      add_list(path, images);
    }
  }
  return images;
}

}  // namespace gpux::embedding

#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <zlib.h>

#include "base/files.h"
#include "gpux/error.h"
#include "image/picture.h"

namespace gpux::image::test {

inline std::filesystem::path image_folder() {
  return std::filesystem::path(GPUX_SOURCE_DIR) / "tests/image/pictures";
}

/// Names of all images, in order.
inline std::vector<std::string> image_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(image_folder())) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

inline std::string image_file(std::string_view name) {
  return read_file(image_folder() / name);
}

inline std::span<const std::byte> bytes_of(std::string_view file) {
  return std::as_bytes(std::span(file));
}

/// The message of the invalid_input that the call throws; empty where it throws nothing.
template <typename Call>
std::string refusal_of(const Call& call) {
  try {
    call();
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_input) << error.message();
    return error.message();
  }
}

inline Image image_of(Size size, std::size_t channels, const std::vector<std::uint8_t>& levels) {
  Image image(size, channels);
  EXPECT_EQ(levels.size(), image.byte_size());
  std::copy(levels.begin(), levels.end(), image.row(0));
  return image;
}

inline std::vector<std::uint8_t> levels_of(const Image& image) {
  return {image.row(0), image.row(0) + image.byte_size()};
}

inline std::string big_endian(std::uint32_t number) {
  std::string text;
  for (const unsigned shift : {24U, 16U, 8U, 0U}) text += static_cast<char>(number >> shift & 0xffU);
  return text;
}

inline std::string png_chunk(const std::string& kind, const std::string& data) {
  const std::string content = kind + data;
  const auto checksum = crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size()));
  return big_endian(static_cast<std::uint32_t>(data.size())) + content +
         big_endian(static_cast<std::uint32_t>(checksum));
}

inline std::string deflated(const std::string& content) {
  uLongf size = compressBound(static_cast<uLong>(content.size()));
  std::string packed(size, '\0');
  compress2(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(content.data()),
            static_cast<uLong>(content.size()), 9);
  packed.resize(size);
  return packed;
}

/// A gray PNG that claims a size and holds these bytes: rows with a filter byte before each.
inline std::string png_file(std::uint32_t width, std::uint32_t height, const std::string& rows,
                            const std::string& before = "") {
  using namespace std::string_literals;
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", big_endian(width) + big_endian(height) + "\x08\0\0\0\0"s) + before +
         png_chunk("IDAT", deflated(rows)) + png_chunk("IEND", "");
}

}  // namespace gpux::image::test

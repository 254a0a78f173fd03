#include "image/header_size.h"

#include <cstdint>
#include <string_view>

#include "image/decode.h"

namespace gpux::image {
namespace {

using Bytes = std::span<const std::byte>;

std::uint32_t byte_at(Bytes file, std::size_t at) noexcept {
  return at < file.size() ? std::to_integer<std::uint32_t>(file[at]) : 0;
}

std::uint32_t big_endian(Bytes file, std::size_t at, std::size_t count) noexcept {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < count; ++i) number = number << 8U | byte_at(file, at + i);
  return number;
}

std::uint32_t little_endian(Bytes file, std::size_t at, std::size_t count) noexcept {
  std::uint32_t number = 0;
  for (std::size_t i = count; i > 0; --i) number = number << 8U | byte_at(file, at + i - 1);
  return number;
}

bool has(Bytes file, std::size_t at, std::string_view mark) noexcept {
  if (file.size() < at + mark.size()) return false;
  for (std::size_t i = 0; i < mark.size(); ++i) {
    if (byte_at(file, at + i) != static_cast<unsigned char>(mark[i])) return false;
  }
  return true;
}

std::optional<Size> png_size(Bytes file) noexcept {
  constexpr std::size_t header_end = 24;
  if (file.size() < header_end || !has(file, 12, "IHDR")) return std::nullopt;
  return Size{big_endian(file, 20, 4), big_endian(file, 16, 4)};
}

std::optional<Size> webp_size(Bytes file) noexcept {
  constexpr std::size_t header_end = 30;
  constexpr std::uint32_t size_mask = 0x3fff;
  if (file.size() < header_end) return std::nullopt;
  if (has(file, 12, "VP8X")) return Size{little_endian(file, 27, 3) + 1, little_endian(file, 24, 3) + 1};
  if (has(file, 12, "VP8L")) {
    const std::uint32_t bits = little_endian(file, 21, 4);
    return Size{(bits >> 14U & size_mask) + 1, (bits & size_mask) + 1};
  }
  if (has(file, 12, "VP8 "))
    return Size{little_endian(file, 28, 2) & size_mask, little_endian(file, 26, 2) & size_mask};
  return std::nullopt;
}

// The segments before the pixels, up to the one that begins a frame.
std::optional<Size> jpeg_size(Bytes file) noexcept {
  std::size_t at = 2;
  while (at + 9 <= file.size() && byte_at(file, at) == 0xff) {
    const std::uint32_t marker = byte_at(file, at + 1);
    if (marker == 0xff) {  // may fill the space before a marker
      ++at;
      continue;
    }
    const bool is_frame = marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
    if (is_frame) return Size{big_endian(file, at + 5, 2), big_endian(file, at + 7, 2)};
    at += 2 + big_endian(file, at + 2, 2);
  }
  return std::nullopt;
}

}  // namespace

std::optional<Size> size_in_header(Bytes file) noexcept {
  const std::optional<Format> format = format_of(file);
  if (!format) return std::nullopt;
  switch (*format) {
    case Format::jpeg:
      return jpeg_size(file);
    case Format::png:
      return png_size(file);
    case Format::webp:
      return webp_size(file);
  }
  return std::nullopt;
}

}  // namespace gpux::image

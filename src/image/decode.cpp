#include "image/decode.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "gpux/error.h"
#include "image/codecs.h"
#include "image/orientation.h"

namespace gpux::image {
namespace {

using Bytes = std::span<const std::byte>;

bool has(Bytes file, std::size_t at, std::string_view text) noexcept {
  if (file.size() < at + text.size()) return false;
  return std::equal(text.begin(), text.end(), file.begin() + static_cast<std::ptrdiff_t>(at),
                    [](char c, std::byte b) { return static_cast<std::byte>(c) == b; });
}

struct Foreign {
  std::size_t at;
  std::string_view mark;
  std::string_view name;
};

// What people send by mistake, so that the error can say so.
constexpr std::array<Foreign, 9> foreign{{
    {0, "GIF8", "a GIF image"},
    {0, "BM", "a BMP image"},
    {0, {"II*\0", 4}, "a TIFF image"},
    {0, {"MM\0*", 4}, "a TIFF image"},
    {4, "ftypavi", "an AVIF image"},
    {4, "ftyphei", "a HEIC image"},
    {4, "ftypmif1", "a HEIC image"},
    {0, "%PDF", "a PDF document"},
    {0, "<svg", "an SVG image"},
}};

std::string beginning(Bytes file) {
  if (file.empty()) return "empty";
  std::string text = "something that begins with the bytes";
  for (const std::byte byte : file.first(std::min<std::size_t>(file.size(), 4))) {
    text += fmt::format(" {:02x}", std::to_integer<unsigned>(byte));
  }
  return text;
}

[[noreturn]] void refuse_foreign(Bytes file) {
  std::string what = beginning(file);
  for (const Foreign& one : foreign) {
    if (has(file, one.at, one.mark)) what = one.name;
  }
  throw Error(ErrorCode::invalid_input,
              fmt::format("cannot read the image: it is {}; JPEG, PNG and WebP are accepted", what));
}

}  // namespace

std::optional<Format> format_of(Bytes file) noexcept {
  if (has(file, 0, "\xff\xd8\xff")) return Format::jpeg;
  if (has(file, 0, {"\x89PNG\r\n\x1a\n", 8})) return Format::png;
  if (has(file, 0, "RIFF") && has(file, 8, "WEBP")) return Format::webp;
  return std::nullopt;
}

std::string_view name_of(Format format) noexcept {
  if (format == Format::jpeg) return "JPEG";
  return format == Format::png ? "PNG" : "WebP";
}

void refuse(Format format, std::string_view reason) {
  throw Error(ErrorCode::invalid_input, fmt::format("cannot read the {} image: {}", name_of(format), reason));
}

void require_within(Format format, Size size, const Limits& limits) {
  if (size.height < 1 || size.width < 1) refuse(format, "it has no pixels");
  if (size.height > limit_side || size.width > limit_side) {
    refuse(format,
           fmt::format("it has {}x{} pixels; at most {} a side are accepted", size.width, size.height, limit_side));
  }
  const auto pixels = static_cast<std::uint64_t>(size.height) * static_cast<std::uint64_t>(size.width);
  if (pixels <= limits.pixels) return;
  refuse(format,
         fmt::format("it has {}x{} pixels; at most {} pixels are accepted", size.width, size.height, limits.pixels));
}

Image grayed(const Image& image) {
  Image gray(image.size(), 1);
  const std::size_t channels = image.channels();
  for (std::int64_t y = 0; y < image.height(); ++y) {
    const std::uint8_t* from = image.row(y);
    std::uint8_t* to = gray.row(y);
    for (std::int64_t x = 0; x < image.width(); ++x, from += channels) {
      // 0.299, 0.587 and 0.114 in units of 1/65536
      const std::uint32_t sum = 19595U * from[0] + 38470U * from[1] + 7471U * from[2];
      to[x] = static_cast<std::uint8_t>((sum + 0x8000U) >> 16U);
    }
  }
  return gray;
}

Image decode(Bytes file, std::size_t channels, const Limits& limits) {
  const std::optional<Format> format = format_of(file);
  if (!format) refuse_foreign(file);
  const auto decode_format = *format == Format::jpeg ? decode_jpeg : *format == Format::png ? decode_png : decode_webp;
  Decoded decoded = decode_format(file, channels, limits);
  if (channels == 1 && decoded.image.channels() != 1) decoded.image = grayed(decoded.image);
  return upright(std::move(decoded.image), orientation_of(decoded.exif));
}

}  // namespace gpux::image

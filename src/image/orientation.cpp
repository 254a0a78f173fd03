#include "image/orientation.h"

#include <algorithm>
#include <array>
#include <utility>

namespace gpux::image {
namespace {

constexpr std::size_t header_bytes = 8;
constexpr std::size_t entry_bytes = 12;
constexpr std::uint32_t orientation_tag = 0x0112;

/// Numbers of a TIFF structure; 0 beyond its end.
class TiffReader {
 public:
  explicit TiffReader(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {
    big_endian_ = byte_at(0) == 'M' && byte_at(1) == 'M';
    is_tiff_ = (big_endian_ || (byte_at(0) == 'I' && byte_at(1) == 'I')) && number(2, 2) == 42;
  }

  [[nodiscard]] bool is_tiff() const noexcept { return is_tiff_; }

  [[nodiscard]] std::uint32_t number(std::size_t at, std::size_t size) const noexcept {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < size; ++i) value = value << 8U | byte_at(at + (big_endian_ ? i : size - 1 - i));
    return value;
  }

 private:
  [[nodiscard]] std::uint32_t byte_at(std::size_t at) const noexcept {
    return at < bytes_.size() ? std::to_integer<std::uint32_t>(bytes_[at]) : 0;
  }

  std::span<const std::byte> bytes_;
  bool big_endian_ = false;
  bool is_tiff_ = false;
};

/// Where a pixel comes from: steps in bytes from the first pixel, along a row and down a column.
struct Walk {
  std::ptrdiff_t first, along, down;
};

Walk walk_of(const Image& image, Orientation orientation) {
  const auto pixel = static_cast<std::ptrdiff_t>(image.channels());
  const auto row = static_cast<std::ptrdiff_t>(image.row_bytes());
  const std::ptrdiff_t right = row - pixel;
  const std::ptrdiff_t bottom = row * static_cast<std::ptrdiff_t>(image.height() - 1);
  switch (orientation) {
    case Orientation::mirrored:
      return {right, -pixel, row};
    case Orientation::turned_around:
      return {bottom + right, -pixel, -row};
    case Orientation::upside_down:
      return {bottom, pixel, -row};
    case Orientation::transposed:
      return {0, row, pixel};
    case Orientation::turn_right:
      return {bottom, -row, pixel};
    case Orientation::anti_transposed:
      return {bottom + right, -row, -pixel};
    case Orientation::turn_left:
      return {right, row, -pixel};
    default:
      return {0, pixel, row};
  }
}

}  // namespace

Orientation orientation_of(std::span<const std::byte> exif) noexcept {
  constexpr std::array<char, 6> prefix{'E', 'x', 'i', 'f', '\0', '\0'};
  const auto same = [](char c, std::byte b) { return static_cast<std::byte>(c) == b; };
  if (exif.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), exif.begin(), same)) {
    exif = exif.subspan(prefix.size());
  }
  const TiffReader tiff(exif);
  if (!tiff.is_tiff()) return Orientation::upright;
  const std::size_t directory = tiff.number(4, 4);
  if (directory < header_bytes || directory >= exif.size()) return Orientation::upright;
  const std::uint32_t count = tiff.number(directory, 2);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t entry = directory + 2 + i * entry_bytes;
    if (entry + entry_bytes > exif.size()) break;
    if (tiff.number(entry, 2) != orientation_tag) continue;
    constexpr std::uint32_t short_type = 3;
    const std::uint32_t value = tiff.number(entry + 2, 2) == short_type ? tiff.number(entry + 8, 2) : 0;
    return value >= 1 && value <= 8 ? static_cast<Orientation>(value) : Orientation::upright;
  }
  return Orientation::upright;
}

Image upright(Image image, Orientation orientation) {
  if (orientation == Orientation::upright) return image;
  const bool turned = orientation >= Orientation::transposed;
  const Size size = turned ? Size{image.width(), image.height()} : image.size();
  Image result(size, image.channels());
  const Walk walk = walk_of(image, orientation);
  const std::uint8_t* const origin = image.row(0);
  const std::size_t channels = image.channels();
  for (std::int64_t y = 0; y < size.height; ++y) {
    std::uint8_t* to = result.row(y);
    std::ptrdiff_t from = walk.first + walk.down * y;
    for (std::int64_t x = 0; x < size.width; ++x, from += walk.along, to += channels) {
      for (std::size_t c = 0; c < channels; ++c) to[c] = origin[from + static_cast<std::ptrdiff_t>(c)];
    }
  }
  return result;
}

}  // namespace gpux::image

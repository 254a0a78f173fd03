#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include <png.h>

#include "gpux/error.h"
#include "image/codecs.h"

namespace gpux::image {
namespace {

constexpr std::size_t limit_message = 128;
constexpr std::size_t signature_bytes = 8;
constexpr std::size_t chunk_head_bytes = 8;
constexpr std::size_t checksum_bytes = 4;

/// libpng's state. A jump leaves a function without destroying what it holds, so the functions that set one hold
/// nothing, and this object outlives them.
class Decompressor {
 public:
  explicit Decompressor(std::span<const std::byte> file) : rest_(file) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, fail, ignore);
    info_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      throw Error(ErrorCode::resource_exhausted, "cannot read the PNG image: out of memory");
    }
  }

  ~Decompressor() { png_destroy_read_struct(&png_, &info_, nullptr); }

  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  [[noreturn]] void refuse_failed() const { refuse(Format::png, message_.data()); }

  [[nodiscard]] Size size() const noexcept {
    return {png_get_image_height(png_, info_), png_get_image_width(png_, info_)};
  }

  [[nodiscard]] bool is_gray() const noexcept { return (png_get_color_type(png_, info_) & PNG_COLOR_MASK_COLOR) == 0; }

  [[nodiscard]] bool read_header() noexcept {
    if (setjmp(jump_) != 0) return false;  // libpng has no other way out
    png_set_read_fn(png_, this, read);
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // ours are told with their numbers
    // All that is not needed for the pixels: libpng would take as much memory for a chunk as it claims, and unpack it.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(png_, info_);
    return true;
  }

  /// Makes rows of 8 bits for each of so many channels.
  [[nodiscard]] bool read_rows(Image& image) noexcept {
    if (setjmp(jump_) != 0) return false;
    png_set_expand(png_);
    png_set_strip_16(png_);
    if (image.channels() != 1) png_set_gray_to_rgb(png_);
    if (image.channels() == 4) {
      png_set_add_alpha(png_, 255, PNG_FILLER_AFTER);
    } else {
      png_set_strip_alpha(png_);
    }
    const int passes = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    if (png_get_rowbytes(png_, info_) != image.row_bytes()) png_error(png_, "its rows have another size");
    for (int pass = 0; pass < passes; ++pass) {
      for (std::int64_t y = 0; y < image.height(); ++y) png_read_row(png_, image.row(y), nullptr);
    }
    return true;
  }

 private:
  [[noreturn]] static void fail(png_structp png, png_const_charp message) {
    auto* self = static_cast<Decompressor*>(png_get_error_ptr(png));
    std::snprintf(self->message_.data(), self->message_.size(), "%s", message);
    std::longjmp(self->jump_, 1);
  }

  static void ignore(png_structp /*png*/, png_const_charp /*message*/) {}

  static void read(png_structp png, png_bytep to, std::size_t size) {
    auto* self = static_cast<Decompressor*>(png_get_io_ptr(png));
    if (size > self->rest_.size()) png_error(png, "it is cut off");
    std::memcpy(to, self->rest_.data(), size);
    self->rest_ = self->rest_.subspan(size);
  }

  std::span<const std::byte> rest_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf jump_{};
  std::array<char, limit_message> message_{};
};

std::uint32_t big_endian(std::span<const std::byte> four) noexcept {
  std::uint32_t number = 0;
  for (const std::byte byte : four) number = number << 8U | std::to_integer<std::uint32_t>(byte);
  return number;
}

/// The content of the chunk eXIf, before the pixels or behind them; empty where there is none.
std::span<const std::byte> exif_of(std::span<const std::byte> file) noexcept {
  constexpr std::uint32_t exif_name = 0x65584966;
  std::span<const std::byte> rest = file.subspan(signature_bytes);
  while (rest.size() >= chunk_head_bytes) {
    const std::size_t size = big_endian(rest.first(4));
    const std::uint32_t name = big_endian(rest.subspan(4, 4));
    rest = rest.subspan(chunk_head_bytes);
    if (size > rest.size() || checksum_bytes > rest.size() - size) break;
    if (name == exif_name) return rest.first(size);
    rest = rest.subspan(size + checksum_bytes);
  }
  return {};
}

}  // namespace

Decoded decode_png(std::span<const std::byte> file, std::size_t channels, const Limits& limits) {
  Decompressor decompressor(file);
  if (!decompressor.read_header()) decompressor.refuse_failed();
  require_within(Format::png, decompressor.size(), limits);
  const std::size_t made = channels == 1 && !decompressor.is_gray() ? 3 : channels;
  Decoded decoded{Image(decompressor.size(), made), {}};
  if (!decompressor.read_rows(decoded.image)) decompressor.refuse_failed();
  const std::span<const std::byte> exif = exif_of(file);
  decoded.exif.assign(exif.begin(), exif.end());
  return decoded;
}

}  // namespace gpux::image

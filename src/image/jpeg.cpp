#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>

#include <fmt/format.h>
// jpeglib.h needs size_t and FILE declared before it.
#include <jpeglib.h>
// It needs jpeglib.h.
#include <jerror.h>

#include "gpux/error.h"
#include "image/codecs.h"

namespace gpux::image {
namespace {

// Real files have a dozen at most; each costs a pass over the whole image.
constexpr int limit_scans = 100;
constexpr int exif_marker = JPEG_APP0 + 1;
constexpr unsigned limit_marker_bytes = 0xffff;
constexpr std::size_t cmyk_channels = 4;

/// What libjpeg calls back with; a failure jumps out of the library to where `jump` was set.
struct Failure {
  jpeg_error_mgr manager{};  // first: libjpeg knows this address only
  std::jmp_buf jump{};
  std::array<char, JMSG_LENGTH_MAX> message{};
};

[[noreturn]] void fail(j_common_ptr codec) {
  auto* failure = reinterpret_cast<Failure*>(codec->err);
  failure->manager.format_message(codec, failure->message.data());
  std::longjmp(failure->jump, 1);
}

// Warnings that leave every pixel as it was meant.
bool is_harmless(int warning) noexcept {
  constexpr std::array<int, 6> harmless{JWRN_EXTRANEOUS_DATA, JWRN_ADOBE_XFORM,    JWRN_JFIF_MAJOR,
                                        JWRN_TOO_MUCH_DATA,   JWRN_NOT_SEQUENTIAL, JWRN_BOGUS_ICC};
  return std::find(harmless.begin(), harmless.end(), warning) != harmless.end();
}

void take_message(j_common_ptr codec, int level) {
  if (level < 0 && !is_harmless(codec->err->msg_code)) fail(codec);
}

void ignore_message(j_common_ptr /*codec*/) {}

void watch_progress(j_common_ptr codec) {
  if (reinterpret_cast<j_decompress_ptr>(codec)->input_scan_number <= limit_scans) return;
  auto* failure = reinterpret_cast<Failure*>(codec->err);
  std::snprintf(failure->message.data(), failure->message.size(), "it has more than %d scans", limit_scans);
  std::longjmp(failure->jump, 1);
}

/// libjpeg's state. A jump leaves a function without destroying what it holds, so the functions that set one hold
/// nothing, and this object outlives them.
class Decompressor {
 public:
  explicit Decompressor(std::span<const std::byte> file) : file_(file) {
    codec_.err = jpeg_std_error(&failure_.manager);
    failure_.manager.error_exit = fail;
    failure_.manager.emit_message = take_message;
    failure_.manager.output_message = ignore_message;
    progress_.progress_monitor = watch_progress;
  }

  ~Decompressor() { jpeg_destroy_decompress(&codec_); }

  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  [[nodiscard]] jpeg_decompress_struct& codec() noexcept { return codec_; }

  [[noreturn]] void refuse_failed() const { refuse(Format::jpeg, failure_.message.data()); }

  [[nodiscard]] bool read_header() noexcept {
    if (setjmp(failure_.jump) != 0) return false;  // libjpeg has no other way out
    jpeg_create_decompress(&codec_);
    codec_.progress = &progress_;
    jpeg_mem_src(&codec_, reinterpret_cast<const unsigned char*>(file_.data()), file_.size());
    jpeg_save_markers(&codec_, exif_marker, limit_marker_bytes);
    jpeg_read_header(&codec_, TRUE);
    return true;
  }

  /// Rows of output_width * output_components bytes.
  [[nodiscard]] bool read_rows(Image& image) noexcept {
    if (setjmp(failure_.jump) != 0) return false;
    jpeg_start_decompress(&codec_);
    while (codec_.output_scanline < codec_.output_height) {
      JSAMPROW row = image.row(codec_.output_scanline);
      jpeg_read_scanlines(&codec_, &row, 1);
    }
    return true;
  }

 private:
  std::span<const std::byte> file_;
  Failure failure_;
  jpeg_progress_mgr progress_{};
  jpeg_decompress_struct codec_{};
};

std::vector<std::byte> exif_of(const jpeg_decompress_struct& codec) {
  constexpr std::array<unsigned char, 6> prefix{'E', 'x', 'i', 'f', 0, 0};
  for (const jpeg_marker_struct* marker = codec.marker_list; marker != nullptr; marker = marker->next) {
    const std::span<const unsigned char> data(marker->data, marker->data_length);
    if (data.size() < prefix.size() || !std::equal(prefix.begin(), prefix.end(), data.begin())) continue;
    const auto bytes = std::as_bytes(data);
    return {bytes.begin(), bytes.end()};
  }
  return {};
}

std::uint8_t product_of_levels(unsigned a, unsigned b) noexcept {
  const unsigned product = a * b + 128;
  return static_cast<std::uint8_t>(((product >> 8U) + product) >> 8U);
}

/// Adobe's files hold 255 - ink.
Image from_cmyk(const Image& inks, std::size_t channels) {
  Image image(inks.size(), channels);
  for (std::int64_t y = 0; y < inks.height(); ++y) {
    const std::uint8_t* from = inks.row(y);
    std::uint8_t* to = image.row(y);
    for (std::int64_t x = 0; x < inks.width(); ++x, from += cmyk_channels, to += channels) {
      for (std::size_t c = 0; c < 3; ++c) {
        to[c] = static_cast<std::uint8_t>(from[3] - product_of_levels(255U - from[c], from[3]));
      }
      if (channels == 4) to[3] = 255;
    }
  }
  return image;
}

}  // namespace

Decoded decode_jpeg(std::span<const std::byte> file, std::size_t channels, const Limits& limits) {
  Decompressor decompressor(file);
  if (!decompressor.read_header()) decompressor.refuse_failed();
  jpeg_decompress_struct& codec = decompressor.codec();
  const Size size{codec.image_height, codec.image_width};
  require_within(Format::jpeg, size, limits);

  const bool inks = codec.jpeg_color_space == JCS_CMYK || codec.jpeg_color_space == JCS_YCCK;
  const bool gray = codec.jpeg_color_space == JCS_GRAYSCALE && channels == 1;
  if (codec.jpeg_color_space == JCS_UNKNOWN) {
    refuse(Format::jpeg, fmt::format("it has {} components; 1, 3 and 4 are accepted", codec.num_components));
  }
  codec.out_color_space = inks ? JCS_CMYK : gray ? JCS_GRAYSCALE : channels == 4 ? JCS_EXT_RGBA : JCS_RGB;
  Decoded decoded{Image(size, inks ? cmyk_channels : gray ? 1 : channels == 4 ? 4 : 3), exif_of(codec)};
  if (!decompressor.read_rows(decoded.image)) decompressor.refuse_failed();
  if (inks) decoded.image = from_cmyk(decoded.image, channels == 4 ? 4 : 3);
  return decoded;
}

}  // namespace gpux::image

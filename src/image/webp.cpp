#include <memory>

#include <fmt/format.h>
#include <webp/decode.h>
#include <webp/demux.h>

#include "gpux/error.h"
#include "image/codecs.h"

namespace gpux::image {
namespace {

struct DemuxerEnd {
  void operator()(WebPDemuxer* demuxer) const noexcept { WebPDemuxDelete(demuxer); }
};

struct FrameEnd {
  void operator()(WebPIterator* frame) const noexcept { WebPDemuxReleaseIterator(frame); }
};

struct ChunkEnd {
  void operator()(WebPChunkIterator* chunk) const noexcept { WebPDemuxReleaseChunkIterator(chunk); }
};

const std::uint8_t* data_of(std::span<const std::byte> bytes) noexcept {
  return reinterpret_cast<const std::uint8_t*>(bytes.data());
}

std::vector<std::byte> exif_of(const WebPDemuxer* demuxer) {
  WebPChunkIterator chunk{};
  const std::unique_ptr<WebPChunkIterator, ChunkEnd> end(&chunk);
  if (WebPDemuxGetChunk(demuxer, "EXIF", 1, &chunk) == 0) return {};
  const auto bytes = std::as_bytes(std::span(chunk.chunk.bytes, chunk.chunk.size));
  return {bytes.begin(), bytes.end()};
}

/// Decodes the frame to its place in the image, which holds it.
void decode_frame(const WebPIterator& frame, Image& image) {
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) throw Error(ErrorCode::internal, "another libwebp than gpux was built with");
  const std::size_t channels = image.channels();
  const std::size_t before = static_cast<std::size_t>(frame.x_offset) * channels;
  std::uint8_t* const first = image.row(frame.y_offset) + before;
  config.output.colorspace = channels == 4 ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = first;
  config.output.u.RGBA.stride = static_cast<int>(image.row_bytes());
  config.output.u.RGBA.size = image.byte_size() - static_cast<std::size_t>(first - image.row(0));
  const VP8StatusCode code = WebPDecode(frame.fragment.bytes, frame.fragment.size, &config);
  if (code == VP8_STATUS_OUT_OF_MEMORY) {
    throw Error(ErrorCode::resource_exhausted, "cannot read the WebP image: out of memory");
  }
  if (code == VP8_STATUS_SUSPENDED || code == VP8_STATUS_NOT_ENOUGH_DATA) refuse(Format::webp, "it is cut off");
  if (code != VP8_STATUS_OK) refuse(Format::webp, fmt::format("it is damaged (code {})", static_cast<int>(code)));
}

}  // namespace

Decoded decode_webp(std::span<const std::byte> file, std::size_t channels, const Limits& limits) {
  const WebPData data{data_of(file), file.size()};
  WebPDemuxState state = WEBP_DEMUX_PARSE_ERROR;
  const std::unique_ptr<WebPDemuxer, DemuxerEnd> demuxer(WebPDemuxPartial(&data, &state));
  if (!demuxer || state == WEBP_DEMUX_PARSE_ERROR) refuse(Format::webp, "it is damaged");
  if (state != WEBP_DEMUX_DONE) refuse(Format::webp, "it is cut off");
  const Size size{WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_HEIGHT),
                  WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_WIDTH)};
  require_within(Format::webp, size, limits);

  WebPIterator frame{};
  const std::unique_ptr<WebPIterator, FrameEnd> end(&frame);
  if (WebPDemuxGetFrame(demuxer.get(), 1, &frame) == 0) refuse(Format::webp, "it has no frame");
  const bool is_inside = frame.x_offset >= 0 && frame.y_offset >= 0 && frame.width >= 1 && frame.height >= 1 &&
                         frame.x_offset + frame.width <= size.width && frame.y_offset + frame.height <= size.height;
  if (!is_inside) refuse(Format::webp, "its first frame lies outside of it");
  Decoded decoded{Image(size, channels == 4 ? 4 : 3), exif_of(demuxer.get())};
  decode_frame(frame, decoded.image);
  return decoded;
}

}  // namespace gpux::image

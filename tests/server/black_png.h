#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <zlib.h>

namespace gpux {

/// A black PNG of so many pixels a side: some kilobytes for millions of pixels.
inline std::string black_png(std::uint32_t side) {
  using namespace std::string_literals;
  const auto big_endian = [](std::uint32_t number) {
    std::string text;
    for (const unsigned shift : {24U, 16U, 8U, 0U}) text += static_cast<char>(number >> shift & 0xffU);
    return text;
  };
  const auto chunk = [&](const std::string& kind, const std::string& data) {
    const std::string content = kind + data;
    const auto checksum = crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size()));
    return big_endian(static_cast<std::uint32_t>(data.size())) + content +
           big_endian(static_cast<std::uint32_t>(checksum));
  };
  const std::string rows(static_cast<std::size_t>(side) * (side + 1), '\0');
  uLongf size = compressBound(static_cast<uLong>(rows.size()));
  std::string packed(size, '\0');
  compress2(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(rows.data()),
            static_cast<uLong>(rows.size()), 9);
  packed.resize(size);
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", big_endian(side) + big_endian(side) + "\x08\0\0\0\0"s) +
         chunk("IDAT", packed) + chunk("IEND", "");
}

}  // namespace gpux

// Files that are cut off, damaged, or claim more than they hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "image/decode.h"
#include "image/pictures.h"

namespace gpux::image {
namespace {

using namespace std::string_literals;
using test::bytes_of;
using test::image_file;
using test::png_chunk;
using test::png_file;
using test::refusal_of;
using testing::AnyOf;
using testing::HasSubstr;

/// In memory of exactly its size, so that a sanitizer sees a read beyond it.
std::string refusal_of_file(const std::string& file, const Limits& limits = {}) {
  const std::vector<char> exact(file.begin(), file.end());
  return refusal_of([&] { return decode(bytes_of({exact.data(), exact.size()}), 3, limits); });
}

TEST(Hostile, CutOffFilesAreRefused) {
  for (const std::string& name : test::image_names()) {
    const std::string file = image_file(name);
    // What stands behind the pixels may be missing: JPEG's end, PNG's checksum and last chunk.
    const std::size_t needed = file.size() - std::min<std::size_t>(file.size(), 24);
    for (std::size_t i = 0; i <= 40; ++i) {
      const std::string cut = file.substr(0, needed * i / 41);
      EXPECT_NE(refusal_of_file(cut), "") << name << " of " << cut.size() << " bytes";
    }
    for (std::size_t length = needed; length < file.size(); ++length) refusal_of_file(file.substr(0, length));
  }
}

TEST(Hostile, ChangedBytesGiveAImageOrARefusal) {
  const Limits limits{std::uint64_t{1} << 21U};
  std::size_t refused = 0;
  for (const std::string& name : test::image_names()) {
    const std::string file = image_file(name);
    // Headers in full, the rest here and there.
    for (std::size_t i = 0; i < file.size(); i += i < 48 ? 1 : file.size() / 24 + 1) {
      for (const unsigned mask : {0xffU, 0x01U, 0x80U}) {
        std::string changed = file;
        changed[i] = static_cast<char>(static_cast<unsigned char>(changed[i]) ^ mask);
        refused += refusal_of_file(changed, limits).empty() ? 0 : 1;
      }
    }
  }
  EXPECT_GT(refused, 1000U);
}

TEST(Hostile, ClaimsAreComparedWithTheLimitsBeforeMemoryIsTaken) {
  const auto claiming = [](std::string name, std::size_t at, const std::string& size) {
    std::string file = image_file(name);
    file.replace(at, size.size(), size);
    return file;
  };
  const std::string jpeg = image_file("jpeg-444.jpg");
  const std::size_t frame = jpeg.find("\xff\xc0"s);
  ASSERT_NE(frame, std::string::npos);
  const std::string lossy = "webp-lossy.webp";
  ASSERT_EQ(image_file(lossy).substr(12, 4), "VP8 ");
  std::string animation = read_file(std::string(GPUX_SOURCE_DIR) + "/tests/image/animation.webp");
  animation.replace(24, 6, "\xfe\xff\0\xff\x0f\0"s);

  struct {
    std::string file, message;
  } const cases[]{
      {png_file(65535, 65535, ""), "it has 65535x65535 pixels; at most 33554432 pixels are accepted"},
      {png_file(2147483647, 2147483647, ""), "it has 2147483647x2147483647 pixels; at most 65535 a side are accepted"},
      {png_file(65536, 1, ""), "it has 65536x1 pixels; at most 65535 a side"},
      {png_file(0, 1, ""), "cannot read the PNG image: "},
      {claiming("jpeg-444.jpg", frame + 5, "\xfd\xe8\xfd\xe8"), "it has 65000x65000 pixels; at most 33554432 pixels"},
      {claiming("jpeg-444.jpg", frame + 5, "\0\0\0\0"s), "cannot read the JPEG image: "},
      {claiming(lossy, 26, "\xff\x3f\xff\x3f"), "it has 16383x16383 pixels; at most 33554432 pixels are accepted"},
      {animation, "it has 65535x4096 pixels; at most 33554432 pixels are accepted"},
  };

  for (const auto& each : cases) EXPECT_THAT(refusal_of_file(each.file), HasSubstr(each.message));
}

TEST(Hostile, TheLimitIsTheCallers) {
  EXPECT_EQ(refusal_of_file(image_file("png-rgb.png"), {8800}), "");
  EXPECT_THAT(refusal_of_file(image_file("png-rgb.png"), {8799}),
              HasSubstr("it has 110x80 pixels; at most 8799 pixels are accepted"));
}

TEST(Hostile, BombsOfPngEndAtTheClaimedSize) {
  // 64 MiB of zeros behind the 10 rows that were claimed.
  const std::string bomb = png_file(10, 10, std::string(std::size_t{64} << 20U, '\0'));
  ASSERT_LT(bomb.size(), 100'000U);
  const Image image = decode(bytes_of(bomb));
  EXPECT_EQ(image.size(), (Size{10, 10}));

  const std::string rows(std::size_t{10} * 11, '\0');
  const std::string packed = test::deflated(std::string(std::size_t{64} << 20U, 'a'));
  for (const std::string& beside : {png_chunk("zTXt", "k\0\0"s + packed), png_chunk("iCCP", "k\0\0"s + packed)}) {
    EXPECT_EQ(decode(bytes_of(png_file(10, 10, rows, beside))).size(), (Size{10, 10}));
  }
  // Chunks that claim 2 GB, of which there is nothing.
  for (const char* name : {"eXIf", "pCAL", "sCAL", "zTXt", "PLTE"}) {
    EXPECT_NE(refusal_of_file(png_file(10, 10, rows, "\x7f\0\0\0"s + name)), "") << name;
  }
}

TEST(Hostile, RowsThatAreMissingAreRefused) {
  EXPECT_THAT(refusal_of_file(png_file(10, 10, std::string(std::size_t{9} * 11, '\0'))),
              HasSubstr("cannot read the PNG image: "));
}

TEST(Hostile, JpegOfEndlessScansIsRefused) {
  const std::string file = image_file("jpeg-progressive-420.jpg");
  const std::size_t last = file.rfind("\xff\xda"s);
  ASSERT_NE(last, std::string::npos);
  const std::string scan = file.substr(last, file.size() - 2 - last);
  std::string endless = file.substr(0, last);
  for (int i = 0; i < 1000; ++i) endless += scan;
  EXPECT_THAT(refusal_of_file(endless + "\xff\xd9"), AnyOf(HasSubstr("scans"), HasSubstr("progression")));
}

TEST(Hostile, EveryWayOutOfLibjpegGivesItsMemoryBack) {
  // Leaks are the sanitizer's to find; a file is refused in its header, its tables, its scans.
  const std::string file = image_file("jpeg-progressive-444.jpg");
  for (std::size_t length = 3; length < file.size() - 24; length += 13) {
    EXPECT_NE(refusal_of_file(file.substr(0, length)), "") << length;
  }
  const std::string message = refusal_of_file(file.substr(0, file.size() / 2));
  EXPECT_EQ(message, "cannot read the JPEG image: Premature end of JPEG file");
}

TEST(Hostile, JpegWhoseHeaderIsSloppyIsTaken) {
  std::string file = image_file("jpeg-444.jpg");
  // Some encoders write zeros for what a sequential scan does not need: first and last coefficient, bits.
  const std::size_t scan = file.find("\xff\xda"s);
  ASSERT_EQ(file.substr(scan + 11, 3), "\0\x3f\0"s);
  file.replace(scan + 11, 3, "\0\0\0"s);
  const std::size_t tables = file.find("\xff\xdb"s);
  ASSERT_NE(tables, std::string::npos);
  file.insert(tables, "\x11\x22\x33");
  EXPECT_EQ(refusal_of_file(file), "");
}

}  // namespace
}  // namespace gpux::image

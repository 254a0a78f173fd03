#include "image/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "image/header_size.h"
#include "image/orientation.h"
#include "image/pictures.h"

namespace gpux::image {
namespace {

using namespace std::string_literals;
using test::bytes_of;
using test::image_file;
using test::image_of;
using test::levels_of;
using testing::HasSubstr;

TEST(Decode, KnowsFormatsByContent) {
  for (const std::string& name : test::image_names()) {
    const std::string file = image_file(name);
    const auto format = format_of(bytes_of(file));
    ASSERT_TRUE(format) << name;
    const std::string_view expected = name.starts_with("jpeg") ? "JPEG" : name.starts_with("png") ? "PNG" : "WebP";
    EXPECT_EQ(name_of(*format), expected) << name;
  }
}

TEST(Decode, SaysWhatElseItWasGiven) {
  struct {
    std::string file, message;
  } const cases[]{
      {"", "it is empty; JPEG, PNG and WebP are accepted"},
      {"GIF89a", "it is a GIF image"},
      {"\0\0\0\x18"s + "ftypheic", "it is a HEIC image"},
      {"\0\0\0\x18"s + "ftypavif", "it is an AVIF image"},
      {"II*\0"s, "it is a TIFF image"},
      {"RIFF\0\0\0\0WAVE"s, "it is something that begins with the bytes 52 49 46 46"},
      {"\xff\xd8", "it is something that begins with the bytes ff d8;"},
      {"hello", "it is something that begins with the bytes 68 65 6c 6c; JPEG, PNG and WebP are accepted"},
  };

  for (const auto& each : cases) {
    EXPECT_THAT(test::refusal_of([&] { return decode(bytes_of(each.file)); }), HasSubstr(each.message));
  }
}

TEST(Decode, GivesTheChannelsAskedFor) {
  for (const std::string& name : test::image_names()) {
    SCOPED_TRACE(name);
    const std::string file = image_file(name);
    const Image colors = decode(bytes_of(file), 3);
    const Image gray = decode(bytes_of(file), 1);
    const Image alpha = decode(bytes_of(file), 4);
    EXPECT_EQ(colors.channels(), 3U);
    EXPECT_EQ(gray.channels(), 1U);
    EXPECT_EQ(alpha.channels(), 4U);
    ASSERT_EQ(gray.size(), colors.size());
    ASSERT_EQ(alpha.size(), colors.size());
    for (std::int64_t y = 0; y < colors.height(); ++y) {
      for (std::int64_t x = 0; x < colors.width(); ++x) {
        const std::uint8_t* color = colors.row(y) + 3 * x;
        ASSERT_TRUE(std::equal(color, color + 3, alpha.row(y) + 4 * x)) << y << " " << x;
        const double luma = 0.299 * color[0] + 0.587 * color[1] + 0.114 * color[2];
        ASSERT_NEAR(gray.row(y)[x], luma, 0.51);
        if (name.starts_with("jpeg")) {
          ASSERT_EQ(alpha.row(y)[4 * x + 3], 255);
        }
      }
    }
  }
}

TEST(Decode, TurnsAllOrientationsToOne) {
  const Image upright_one = decode(bytes_of(image_file("jpeg-exif-1.jpg")));
  for (int orientation = 2; orientation <= 8; ++orientation) {
    const std::string name = "jpeg-exif-" + std::to_string(orientation) + ".jpg";
    // The files hold the same pixels, so turning back gives the first one.
    const std::vector<std::uint8_t> as_stored = levels_of(upright_one);
    const Image expected = upright(image_of(upright_one.size(), 3, as_stored), static_cast<Orientation>(orientation));
    const Image turned = decode(bytes_of(image_file(name)));
    EXPECT_EQ(turned.size(), expected.size()) << name;
    EXPECT_EQ(levels_of(turned), levels_of(expected)) << name;
  }
}

TEST(Upright, MovesEachPixel) {
  // 1 2 3
  // 4 5 6
  const std::vector<std::uint8_t> levels{1, 2, 3, 4, 5, 6};
  const std::vector<std::vector<std::uint8_t>> expected{{1, 2, 3, 4, 5, 6}, {3, 2, 1, 6, 5, 4}, {6, 5, 4, 3, 2, 1},
                                                        {4, 5, 6, 1, 2, 3}, {1, 4, 2, 5, 3, 6}, {4, 1, 5, 2, 6, 3},
                                                        {6, 3, 5, 2, 4, 1}, {3, 6, 2, 5, 1, 4}};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const Image turned = upright(image_of({2, 3}, 1, levels), static_cast<Orientation>(orientation));
    EXPECT_EQ(turned.size(), orientation < 5 ? (Size{2, 3}) : (Size{3, 2}));
    EXPECT_EQ(levels_of(turned), expected.at(static_cast<std::size_t>(orientation) - 1)) << orientation;
  }
}

TEST(Exif, IsReadInBothByteOrdersAndIgnoredWhereItMakesNoSense) {
  const std::string little = "II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"s;
  const std::string big = "MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0\0\0\0\0"s;

  struct {
    std::string exif;
    int orientation;
  } const cases[]{
      {little, 6},
      {big, 8},
      {"Exif\0\0"s + little, 6},
      {"", 1},
      {"II", 1},
      {little.substr(0, 12), 1},
      {little.substr(0, 21), 1},
      // The directory lies beyond the end, or in the header.
      {"II*\0\xff\xff\xff\xff"s + little.substr(8), 1},
      {"II*\0\x02\0\0\0"s + little.substr(8), 1},
      // Not 42; more entries than there are; another type; 9; 0.
      {"II+\0"s + little.substr(4), 1},
      {little.substr(0, 8) + "\xff\xff" + little.substr(10), 6},
      {little.substr(0, 12) + "\x02" + little.substr(13), 1},
      {little.substr(0, 18) + "\x09" + little.substr(19), 1},
      {little.substr(0, 18) + "\0"s + little.substr(19), 1},
  };

  for (const auto& each : cases) {
    EXPECT_EQ(static_cast<int>(orientation_of(bytes_of(each.exif))), each.orientation)
        << testing::PrintToString(each.exif);
  }
}

TEST(Decode, TakesTheFirstFrameOfAnAnimation) {
  // Two frames of 2x2 on a canvas of 4x3: red at (2, 0), then blue over all.
  const std::string file = read_file(std::string(GPUX_SOURCE_DIR) + "/tests/image/animation.webp");
  const Image image = decode(bytes_of(file));
  ASSERT_EQ(image.size(), (Size{3, 4}));
  const std::vector<std::uint8_t> red{255, 0, 0};
  const std::vector<std::uint8_t> nothing{0, 0, 0};
  for (std::int64_t y = 0; y < 3; ++y) {
    for (std::int64_t x = 0; x < 4; ++x) {
      const std::uint8_t* pixel = image.row(y) + 3 * x;
      EXPECT_EQ(std::vector<std::uint8_t>(pixel, pixel + 3), x >= 2 && y < 2 ? red : nothing) << y << " " << x;
    }
  }
}

TEST(Decode, SpreadsFewBitsOverAllLevels) {
  const Image gray = decode(bytes_of(image_file("png-gray-1.png")), 1);
  const std::vector<std::uint8_t> levels = levels_of(gray);
  EXPECT_TRUE(std::all_of(levels.begin(), levels.end(), [](std::uint8_t level) { return level == 0 || level == 255; }));
  EXPECT_EQ(std::count(levels.begin(), levels.end(), 0) == 0, false);
}

TEST(HeaderSize, IsThatOfTheImageWhateverTheFormat) {
  for (const std::string& name : test::image_names()) {
    SCOPED_TRACE(name);
    const std::string file = test::image_file(name);
    const Image image = decode(test::bytes_of(file));
    const std::optional<Size> size = size_in_header(test::bytes_of(file));
    ASSERT_TRUE(size);
    // EXIF may turn it.
    const bool is_same = size->height == image.height() && size->width == image.width();
    const bool is_turned = size->height == image.width() && size->width == image.height();
    EXPECT_TRUE(is_same || (is_turned && name.find("exif") != std::string::npos))
        << size->width << "x" << size->height << ", decoded " << image.width() << "x" << image.height();
    for (std::size_t cut = 0; cut < std::min<std::size_t>(file.size(), 64); ++cut) {
      (void)size_in_header(test::bytes_of(std::string_view(file).substr(0, cut)));
    }
  }
  EXPECT_EQ(size_in_header(test::bytes_of("GIF89a")), std::nullopt);
}

}  // namespace
}  // namespace gpux::image

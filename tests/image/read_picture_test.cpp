#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/base64.h"
#include "image/pictures.h"
#include "image/read_image.h"
#include "tensor/npy.h"

namespace gpux::image {
namespace {

using test::bytes_of;
using test::image_file;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const Sources with_paths{.path = true};

std::string base64_of(const std::string& name) {
  return to_base64(bytes_of(image_file(name)));
}

std::string in_lines(const std::string& text) {
  std::string lines;
  for (std::size_t at = 0; at < text.size(); at += 76) lines += text.substr(at, 76) + "\r\n";
  return lines;
}

TEST(ReadImage, TakesEveryFormThatIsAllowed) {
  for (const std::string& name : test::image_names()) {
    SCOPED_TRACE(name);
    const Recipe recipe{.resize = Resize{{9, 8}}};
    const Tensor expected = read_image(image_file(name), recipe);
    EXPECT_EQ(expected.shape(), (Shape{1, 3, 9, 8}));
    const std::string text = base64_of(name);
    for (const std::string& value :
         {text, in_lines(text), "data:image/jpeg;base64," + text, "data:;charset=x;base64," + in_lines(text),
          (test::image_folder() / name).string()}) {
      const Tensor tensor = read_image(value, recipe, with_paths);
      EXPECT_TRUE(std::equal(tensor.bytes().begin(), tensor.bytes().end(), expected.bytes().begin()));
    }
  }
}

TEST(ReadImage, RefusesFormsThatAreNot) {
  const std::string file = image_file("png-rgb.png");
  const std::string text = base64_of("png-rgb.png");
  const std::string path = test::image_folder() / "png-rgb.png";

  struct {
    std::string value;
    Sources sources;
    std::string message;
  } const cases[]{
      {"", {}, "cannot read the image: it is empty; base64, a data URL, the bytes of a JPEG, PNG or WebP image are"},
      {path, {}, "is none; base64, a data URL, the bytes of a JPEG, PNG or WebP image are accepted"},
      {file, {.bytes = false}, "these are the bytes themselves; base64, a data URL of a"},
      {text, {.base64 = false}, "' (" + std::to_string(text.size()) + " bytes) is none; a data URL, the bytes of a"},
      {"data:image/png;base64," + text, {.base64 = true, .data_url = false}, "it is a data URL; base64, the bytes of"},
      {"data:image/png," + text, {}, "the data URL is not of base64"},
      {"data:image/png;base64", {}, "the data URL has no comma"},
      {"data:image/png;base64,????", {}, "what the data URL holds is not base64"},
      {"https://host/a.png", with_paths,
       "'https://host/a.png' is an address, and nothing is fetched; the path of a file, "},
      {"AAAA", {}, "it is something that begins with the bytes 00 00 00; JPEG, PNG and WebP are accepted"},
      {std::string(5000, '?'), with_paths, "(5000 bytes) is none; the path of a file, base64, "},
      {text,
       {.bytes = true, .base64 = false, .data_url = false},
       "is none; the bytes of a JPEG, PNG or WebP image is accepted"},
  };

  for (const auto& each : cases) {
    const std::string message = test::refusal_of([&] { return read_image(each.value, Recipe{}, each.sources); });
    EXPECT_THAT(message, AllOf(HasSubstr(each.message), Not(HasSubstr("\n"))));
    EXPECT_LT(message.size(), 300U);
  }
}

TEST(ReadImage, NamesAFileThatIsNotThere) {
  // Its letters are those of base64, and its length too.
  for (const char* path : {"no/such/file", "nothing.png"}) {
    try {
      static_cast<void>(read_image(path, Recipe{}, with_paths));
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::not_found);
      EXPECT_THAT(error.message(), HasSubstr(path));
    }
  }
}

TEST(ReadImage, MakesTheExamplesDigitsTheArraysBesideThem) {
  Recipe recipe{.resize = Resize{{8, 8}}, .color = Color::gray};
  recipe.scale = 16.0 / 255;
  const std::filesystem::path folder = std::filesystem::path(GPUX_SOURCE_DIR) / "examples/digits";
  for (int digit = 0; digit < 10; ++digit) {
    const std::string name = "digit-" + std::to_string(digit);
    const Tensor tensor = read_image((folder / (name + ".png")).string(), recipe, with_paths);
    const std::string array = read_file(folder / (name + ".npy"));
    const Tensor expected = read_npy(bytes_of(array), std::nullopt);
    ASSERT_EQ(tensor.shape(), expected.shape());
    // The array's 17 levels lie between those of 8 bits.
    for (std::size_t i = 0; i < 64; ++i)
      EXPECT_NEAR(tensor.as<float>()[i], expected.as<float>()[i], 8.001 / 255) << name;
  }
}

TEST(ReadImage, HoldsImagesAgainstTheRecipesLimit) {
  Recipe recipe;
  recipe.max_pixels = 100;
  EXPECT_THAT(test::refusal_of([&] { return read_image(image_file("png-rgb.png"), recipe); }),
              HasSubstr("it has 110x80 pixels; at most 100 pixels are accepted"));
}

}  // namespace
}  // namespace gpux::image

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "gpux/error.h"
#include "onnx/model_writer.h"
#include "runtime/cpu_runtime.h"

namespace gpux {
namespace {

using namespace onnx_test;

constexpr std::int64_t string_type = 3;

std::string text_attribute(std::string_view name, std::string_view value) {
  return MessageWriter()
      .bytes(schema::attribute::name, name)
      .bytes(schema::attribute::s, value)
      .number(schema::attribute::type, string_type)
      .str();
}

std::string lower_case_model(const std::vector<std::string>& more) {
  std::vector<std::string> attributes{text_attribute("case_change_action", "LOWER")};
  attributes.insert(attributes.end(), more.begin(), more.end());
  return ModelWriter()
      .add_input("x", ElementType::string, {"n"})
      .add_output("y", ElementType::string, {"n"})
      .add_node("StringNormalizer", {"x"}, {"y"}, attributes)
      .bytes();
}

class StringLocales : public CpuRuntime {
 protected:
  [[nodiscard]] std::vector<std::string> lower_case(const std::string& model) const {
    const std::filesystem::path file = folder_.path() / "model.onnx";
    write_file_atomically(file, model);
    const Runtime runtime(file, {.provider = "cpu"});
    const NamedValues outputs = runtime.infer({{"x", Tensor::of_strings({2}, {"Good Film", "\u00c4RGER"})}});
    const auto strings = outputs.front().second.tensor()->strings();
    return {strings.begin(), strings.end()};
  }

  test::TemporaryFolder folder_;
};

// Slim containers have C.UTF-8 alone, and scikit-learn's text models ask for en_US, or for nothing, which is en_US.
TEST_F(StringLocales, OfEnglishAreThereOnAllMachines) {
  const std::vector<std::string> expected{"good film", "\u00e4rger"};
  EXPECT_EQ(lower_case(lower_case_model({})), expected);
  EXPECT_EQ(lower_case(lower_case_model({text_attribute("locale", "en_US.UTF-8")})), expected);
}

TEST_F(StringLocales, ThatAreNotThereAreNamed) {
  try {
    (void)lower_case(lower_case_model({text_attribute("locale", "xx_XX.UTF-8")}));
    ADD_FAILURE() << "there is such a locale";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), testing::HasSubstr("xx_XX.UTF-8"));
  }
}

}  // namespace
}  // namespace gpux

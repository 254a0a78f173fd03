#include "onnx/string_locale.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "onnx/message.h"
#include "onnx/model_writer.h"

namespace gpux::onnx_test {
namespace {

constexpr std::int64_t string_type = 3;

std::string text_attribute(std::string_view name, std::string_view value) {
  return MessageWriter()
      .bytes(schema::attribute::name, name)
      .bytes(schema::attribute::s, value)
      .number(schema::attribute::type, string_type)
      .str();
}

std::string model_with(const std::string& node) {
  return ModelWriter().add_to_graph(schema::graph::node, node).bytes();
}

std::string normalizer(const std::vector<std::string>& attributes, std::string_view domain = {}) {
  return node("StringNormalizer", {"x"}, {"y"}, attributes, domain);
}

TEST(StringLocale, IsReplacedWhereItIsEnglish) {
  const std::string lower = text_attribute("case_change_action", "LOWER");
  const std::string other = text_attribute("locale", "C.UTF-8");
  const std::string changed = model_with(normalizer({lower, other}));
  EXPECT_EQ(onnx::with_locale(model_with(normalizer({lower})), "C.UTF-8"), changed);
  for (const char* english : {"en_US", "en_US.UTF-8", "en_US.utf8"}) {
    const std::string named = model_with(normalizer({text_attribute("locale", english), lower}));
    EXPECT_EQ(onnx::with_locale(named, "C.UTF-8"), changed) << english;
  }
  EXPECT_EQ(onnx::with_locale(model_with(normalizer({lower}, "ai.onnx")), "C.UTF-8").has_value(), true);
}

TEST(StringLocale, IsReplacedInSubgraphsAndFunctions) {
  const std::string before = normalizer({}), after = normalizer({text_attribute("locale", "C")});
  const auto nested = [](const std::string& inner) {
    const std::string body = MessageWriter().bytes(schema::graph::node, inner).str();
    return ModelWriter()
        .add_node("If", {"c"}, {"y"}, {graph_attribute("then_branch", body)})
        .add_to_model(schema::model::functions, MessageWriter().bytes(schema::function::node, inner).str())
        .bytes();
  };
  EXPECT_EQ(onnx::with_locale(nested(before), "C"), nested(after));
}

TEST(StringLocale, StaysAsItIsOtherwise) {
  for (const std::string& model :
       {model_with(normalizer({text_attribute("locale", "tr_TR.UTF-8")})),
        model_with(normalizer({text_attribute("locale", "C")})), model_with(normalizer({}, "com.example")),
        model_with(node("Identity", {"x"}, {"y"})), std::string("no model"), std::string()}) {
    EXPECT_EQ(onnx::with_locale(model, "C.UTF-8"), std::nullopt);
  }
}

}  // namespace
}  // namespace gpux::onnx_test

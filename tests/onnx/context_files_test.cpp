// Which files nodes of type EPContext name.
#include "onnx/context_files.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "gpux/error.h"
#include "model_writer.h"

namespace gpux::onnx {
namespace {

using namespace onnx_test;
using testing::ElementsAre;

std::string text_attribute(std::string_view name, std::string_view text) {
  return MessageWriter()
      .bytes(schema::attribute::name, name)
      .bytes(schema::attribute::s, text)
      .number(schema::attribute::type, 3)
      .str();
}

std::string number_attribute(std::string_view name, std::int64_t number) {
  return MessageWriter()
      .bytes(schema::attribute::name, name)
      .number(schema::attribute::i, number)
      .number(schema::attribute::type, 2)
      .str();
}

std::string context(std::string_view content, std::int64_t embed_mode, std::string_view model = {}) {
  std::vector<std::string> attributes{text_attribute("ep_cache_context", content),
                                      number_attribute("embed_mode", embed_mode)};
  if (!model.empty()) attributes.push_back(text_attribute("onnx_model_filename", model));
  return node("EPContext", {"x"}, {"y"}, attributes, "com.microsoft");
}

TEST(ContextFiles, AreThoseInTheFolderThatNodesName) {
  const test::TemporaryFolder folder;
  folder.write("secret", "of the user");
  std::filesystem::create_symlink("/etc/passwd", folder.path() / "link");
  ModelWriter model;
  for (const std::string& one :
       {context("engine.bin", 0), context("sub/engine.bin", 0, "original.onnx"), context("engine.bin", 0),
        context("the engine itself", 1), context("/etc/passwd", 0), context("../outside", 0), context("link", 0),
        context("", 0), node("Other", {"x"}, {"y"}, {text_attribute("ep_cache_context", "secret")})}) {
    model.add_to_graph(schema::graph::node, one);
  }
  const std::string branch =
      MessageWriter().bytes(schema::graph::node, context("inner.bin", 0)).bytes(schema::graph::name, "b").str();
  model.add_node("If", {"c"}, {"z"}, {graph_attribute("then_branch", branch)});
  EXPECT_THAT(context_files(folder.write("model.onnx", model.bytes())),
              ElementsAre("engine.bin", "sub/engine.bin", "original.onnx", "inner.bin"));
  EXPECT_THROW((void)context_files(folder.write("cut.onnx", model.bytes().substr(0, 60))), Error);
}

}  // namespace
}  // namespace gpux::onnx

// Compiled code of a stranger is not loaded in this process.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "cpu_runtime.h"
#include "gpux/error.h"
#include "gpux/runtime.h"
#include "isolation/load_facts.h"
#include "onnx/model_writer.h"

namespace gpux {
namespace {

using namespace onnx_test;
using testing::HasSubstr;
using testing::Not;

std::string failure(const std::filesystem::path& file, const std::string& pulled_from) {
  LoadOptions options;
  options.provider = "cpu";
  change_facts(options, [&](LoadFacts& facts) { facts.pulled_from = pulled_from; });
  try {
    const Runtime runtime(file, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_model) << error.message();
    return error.message();
  }
  return "it is loaded";
}

class CompiledCode : public CpuRuntime {};

TEST_F(CompiledCode, OfAStrangerIsForWorkerProcesses) {
  const test::TemporaryFolder folder;
  const std::string compiled =
      ModelWriter()
          .add_opset("com.microsoft", 1)
          .add_input("x", ElementType::float32, {2})
          .add_output("y", ElementType::float32, {2})
          .add_to_graph(schema::graph::node, node("EPContext", {"x"}, {"y"}, {}, "com.microsoft"))
          .bytes();
  const std::filesystem::path file = folder.write("compiled.onnx", compiled);
  EXPECT_THAT(
      failure(file, "https://host.example/m.onnx"),
      testing::AllOf(HasSubstr("compiled code for a device (EPContext)"), HasSubstr("https://host.example/m.onnx")));
  // The user's own is ONNX Runtime's to judge.
  EXPECT_THAT(failure(file, ""), Not(HasSubstr("compiled code for a device")));
  const std::filesystem::path plain = folder.write("plain.onnx", ModelWriter()
                                                                     .add_input("x", ElementType::float32, {2})
                                                                     .add_output("y", ElementType::float32, {2})
                                                                     .add_node("Identity", {"x"}, {"y"})
                                                                     .bytes());
  EXPECT_EQ(failure(plain, "https://host.example/m.onnx"), "it is loaded");
}

}  // namespace
}  // namespace gpux

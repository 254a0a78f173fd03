#include "onnx/weight_references.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "onnx/model_file.h"
#include "onnx/model_writer.h"

namespace gpux::onnx_test {
namespace {

constexpr std::int64_t rows = 300, columns = 1000;  // more than 1 MiB of float32

std::string pattern(std::size_t bytes) {
  std::string data(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<char>(i * 31 + i / 251);
  return data;
}

// Table and head as given; a small one that stays where it is.
std::string model_with(const std::string& table, ElementType type = ElementType::float32) {
  return ModelWriter()
      .add_input("i", ElementType::int64, {"n"})
      .add_output("y", ElementType::float32, {"n", columns})
      .add_initializer("small", ElementType::float32, {2}, pattern(8))
      .add_initializer("table", type, {rows, columns}, table)
      .add_node("Gather", {"table", "i"}, {"y"})
      .bytes();
}

class WeightReferences : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& content) {
    const std::filesystem::path file = folder_.path() / "model.onnx";
    write_file_atomically(file, content);
    return file;
  }

  test::TemporaryFolder folder_;
};

TEST_F(WeightReferences, NameWhereTheDataLies) {
  const std::string data = pattern(rows * columns * sizeof(float));
  const auto file = write(model_with(data));
  const auto rewritten = onnx::with_weight_references(file);
  ASSERT_TRUE(rewritten);
  EXPECT_LT(rewritten->size(), 1000U);
  const std::string whole = read_file(file);
  const std::size_t offset = whole.find(data);
  EXPECT_EQ(rewritten->find(data), std::string::npos);
  EXPECT_THAT(*rewritten, testing::HasSubstr("offset\x12\x03" + std::to_string(offset)));

  const ModelInfo before = onnx::inspect(file), after = onnx::inspect(*rewritten, file);
  EXPECT_EQ(after.parameter_count, before.parameter_count);
  EXPECT_EQ(after.operators, before.operators);
  EXPECT_EQ(after.node_count, before.node_count);
  ASSERT_EQ(after.external_files.size(), 1U);
  EXPECT_EQ(after.external_files[0].location, "model.onnx");
  EXPECT_TRUE(after.external_files[0].present);
}

TEST_F(WeightReferences, AreForLargeInitializersOfReadableModels) {
  EXPECT_FALSE(onnx::with_weight_references(write("no model")));
  const std::string data = pattern(rows * columns * sizeof(float));
  // Claimed to be of another type, so that the sizes disagree.
  EXPECT_FALSE(onnx::with_weight_references(write(model_with(data, ElementType::float64))));
  EXPECT_FALSE(onnx::with_weight_references(write(model_with(data).substr(0, data.size()))));
  EXPECT_FALSE(onnx::with_weight_references(write(ModelWriter().bytes())));
  // Four bits each: their number may be odd.
  EXPECT_FALSE(onnx::with_weight_references(
      write(model_with(data.substr(0, rows * columns / 2), ElementType::int4) + std::string(data.size(), '\0'))));
}

}  // namespace
}  // namespace gpux::onnx_test

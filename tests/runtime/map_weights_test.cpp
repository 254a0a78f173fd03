// LoadOptions::map_weights: the weights are not read but mapped, and nothing else is different.
#include <cstring>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/temporary_folder.h"
#include "cpu_runtime.h"
#include "onnx/model_writer.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;

bool is_mapped(const fs::path& file) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.ends_with(file.string())) return true;
  }
  return false;
}

std::string numbers(std::size_t count) {
  std::string bytes(count * sizeof(float), '\0');
  for (std::size_t i = 0; i < count; ++i) {
    const float value = static_cast<float>(i % 1013) / 1013 - 0.5F;
    std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
  }
  return bytes;
}

class MapWeights : public CpuRuntime {
 protected:
  // Rows of a table, times a matrix: the table is used where it lies, the matrix is packed. A name of `padding` letters
  // moves the weights to every possible alignment.
  fs::path model(std::size_t padding) {
    using onnx_test::ModelWriter;
    const fs::path file = fs::canonical(folder_.path()) / ("model-" + std::to_string(padding) + ".onnx");
    const std::string table(padding + 1, 't');
    write_file_atomically(file, ModelWriter()
                                    .add_input("i", ElementType::int64, {"n"})
                                    .add_output("y", ElementType::float32, {"n", 512})
                                    .add_initializer(table, ElementType::float32, {2000, 256}, numbers(512000))
                                    .add_initializer("m", ElementType::float32, {256, 512}, numbers(131072))
                                    .add_node("Gather", {table, "i"}, {"rows"})
                                    .add_node("MatMul", {"rows", "m"}, {"y"})
                                    .bytes());
    return file;
  }

  static Tensor answer(const Runtime& runtime) {
    const NamedValues inputs{{"i", tensor<std::int64_t>({4}, {0, 17, 1999, 1024})}};
    return *runtime.infer(inputs).at(0).second.tensor();
  }

  test::TemporaryFolder folder_;
};

TEST_F(MapWeights, GivesTheSameBitsFromAnyAlignment) {
  for (const std::size_t padding : {0U, 1U, 2U, 3U}) {
    SCOPED_TRACE(padding);
    const fs::path file = model(padding);
    LoadOptions options;
    options.provider = "cpu";
    options.intra_threads = 1;
    const Runtime read(file, options);
    EXPECT_FALSE(is_mapped(file));
    options.map_weights = true;
    const Runtime mapped(file, options);
    EXPECT_TRUE(is_mapped(file));
    EXPECT_EQ(mapped.verdict().active, read.verdict().active);
    EXPECT_EQ(mapped.verdict().node_count, read.verdict().node_count);
    const Tensor expected = answer(read), got = answer(mapped);
    ASSERT_EQ(got.shape(), expected.shape());
    EXPECT_TRUE(std::ranges::equal(got.as<float>(), expected.as<float>()));
  }
}

// As a model that was removed from the store while it is served.
TEST_F(MapWeights, OutlivesTheNameOfTheFile) {
  const fs::path file = model(0);
  LoadOptions options;
  options.provider = "cpu";
  options.map_weights = true;
  const Runtime runtime(file, options);
  const Tensor expected = answer(runtime);
  fs::remove(file);
  EXPECT_TRUE(std::ranges::equal(answer(runtime).as<float>(), expected.as<float>()));
}

}  // namespace
}  // namespace gpux

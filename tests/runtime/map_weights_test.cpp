// LoadOptions::map_weights: the weights are not read but mapped, and nothing else is different.
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

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

// External data is mapped by ONNX Runtime itself, and is the user's.
class ExternalWeights : public MapWeights {
 protected:
  static constexpr std::size_t rows = 2000, columns = 256;

  /// Rows of a table in weights.bin; those of a subgraph, too, where `y` is asked for.
  fs::path external_model() {
    using namespace onnx_test;
    const std::string raw = numbers(rows * columns);
    folder_.write("weights.bin", raw);
    const std::string length = std::to_string(raw.size());
    const auto table = [&](std::string_view name) {
      return external_tensor(name, ElementType::float32, {rows, columns},
                             {{"location", "weights.bin"}, {"offset", "0"}, {"length", length}});
    };
    const auto branch = [&](std::string_view name, std::string_view weights) {
      return MessageWriter()
          .bytes(schema::graph::node, node("Gather", {weights, "i"}, {name}))
          .bytes(schema::graph::name, name)
          .bytes(schema::graph::initializer, table(weights))
          .bytes(schema::graph::output, value_info(name, tensor_type(ElementType::float32, {"n", columns})))
          .str();
    };
    const fs::path folder = fs::canonical(folder_.path());
    const std::string choice = node(
        "If", {"c"}, {"z"},
        {graph_attribute("then_branch", branch("then", "t")), graph_attribute("else_branch", branch("else", "e"))});
    write_file_atomically(folder / "external.onnx", ModelWriter()
                                                        .add_input("i", ElementType::int64, {"n"})
                                                        .add_input("c", ElementType::boolean, {})
                                                        .add_output("y", ElementType::float32, {"n", columns})
                                                        .add_output("z", ElementType::float32, {"n", columns})
                                                        .add_to_graph(schema::graph::initializer, table("w"))
                                                        .add_node("Gather", {"w", "i"}, {"y"})
                                                        .add_to_graph(schema::graph::node, choice)
                                                        .bytes());
    return folder / "external.onnx";
  }

  static std::vector<float> answers(const Runtime& runtime) {
    std::vector<float> all;
    for (const bool choice : {true, false}) {
      const NamedValues inputs{{"i", tensor<std::int64_t>({3}, {0, 999, 1999})}, {"c", tensor<bool>({}, {choice})}};
      for (const auto& [name, value] : runtime.infer(inputs)) {
        const auto values = value.tensor()->as<float>();
        all.insert(all.end(), values.begin(), values.end());
      }
    }
    return all;
  }

  static LoadOptions on_cpu() {
    LoadOptions options;
    options.provider = "cpu";
    options.intra_threads = 1;
    return options;
  }
};

TEST_F(ExternalWeights, MayBeChangedWhileTheModelIsLoaded) {
  const fs::path file = external_model();
  const fs::path weights = file.parent_path() / "weights.bin";
  const Runtime runtime(file, on_cpu());
  EXPECT_FALSE(is_mapped(weights));
  const std::vector<float> expected = answers(runtime);
  // In place, as `cp` does: first it is empty, which was the end of the process, then it holds something else.
  fs::resize_file(weights, 0);
  EXPECT_EQ(answers(runtime), expected);
  std::ofstream(weights) << std::string(rows * columns * sizeof(float), 'x');
  EXPECT_EQ(answers(runtime), expected);
  EXPECT_NE(answers(Runtime(file, on_cpu())), expected) << "this shows nothing";
}

TEST_F(ExternalWeights, AreMappedWhereTheyNeverChange) {
  const fs::path file = external_model();
  LoadOptions options = on_cpu();
  const std::vector<float> expected = answers(Runtime(file, options));
  options.map_weights = true;
  const Runtime mapped(file, options);
  EXPECT_TRUE(is_mapped(file.parent_path() / "weights.bin"));
  EXPECT_EQ(answers(mapped), expected);
}

TEST_F(ExternalWeights, OfStepsMayBeChangedToo) {
  const fs::path file = external_model();
  LoadOptions options = on_cpu();
  options.before = file;
  write_file_atomically(file.parent_path() / "model.onnx",
                        onnx_test::ModelWriter()
                            .add_input("y", ElementType::float32, {"n", columns})
                            .add_output("result", ElementType::float32, {"n", columns})
                            .add_node("Neg", {"y"}, {"result"})
                            .bytes());
  const Runtime runtime(file.parent_path() / "model.onnx", options);
  EXPECT_FALSE(is_mapped(file.parent_path() / "weights.bin"));
  const std::vector<float> expected = answers(runtime);
  fs::resize_file(file.parent_path() / "weights.bin", 0);
  EXPECT_EQ(answers(runtime), expected);
}

// Several at a time, some of which end meanwhile.
TEST_F(ExternalWeights, AreCopiedForEachSession) {
  const fs::path file = external_model();
  const std::vector<float> expected = answers(Runtime(file, on_cpu()));
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) EXPECT_EQ(answers(Runtime(file, on_cpu())), expected);
    });
  }
}

}  // namespace
}  // namespace gpux

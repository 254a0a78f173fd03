// Workers that are started again after the files of their model have changed, and errors that name no lost device.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/eventually.h"
#include "base/own_program.h"
#include "base/plain_signals.h"
#include "base/sanitizers.h"
#include "base/temporary_folder.h"
#include "isolation/load_files.h"
#include "onnx/model_writer.h"
#include "runtime/cpu_runtime.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const bool has_plain_signals = (test::leave_signals_to_programs(), true);

std::string bytes_of(float value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

class WorkerFiles : public CpuRuntime {
 protected:
  void SetUp() override {
    CpuRuntime::SetUp();
    set_worker_program(GPUX_PROGRAM);
  }

  void TearDown() override { set_worker_program({}); }

  /// y = x * w, where w is in weights.bin.
  [[nodiscard]] Runtime scaling() const {
    using onnx_test::ModelWriter;
    folder_.write("weights.bin", bytes_of(2));
    const fs::path file = folder_.write(
        "scale.onnx",
        ModelWriter()
            .add_input("x", ElementType::float32, {1})
            .add_output("y", ElementType::float32, {1})
            .add_to_graph(onnx_test::schema::graph::initializer,
                          onnx_test::external_tensor("w", ElementType::float32, {1}, {{"location", "weights.bin"}}))
            .add_node("Mul", {"x", "w"}, {"y"})
            .bytes());
    LoadOptions options;
    options.provider = "cpu";
    options.intra_threads = 1;
    options.isolation = Isolation::process;
    options.max_restart_delay = std::chrono::milliseconds(200);
    return Runtime(file, options);
  }

  static float scaled(const Runtime& runtime) {
    return runtime.infer({{"x", floats({1}, {1})}}).front().second.tensor()->as<float>().front();
  }

  static void end_worker(const Runtime& runtime) {
    const std::uint64_t restarts = runtime.worker()->restarts;
    ASSERT_TRUE(test::eventually([&] { return runtime.worker()->process_id != 0; }));
    ::kill(runtime.worker()->process_id, SIGKILL);
    ASSERT_TRUE(test::eventually([&] { return runtime.worker()->restarts > restarts; }));
  }

  static bool is_ready(const Runtime& runtime) {
    return test::eventually([&] { return runtime.worker()->state == WorkerStatus::State::ready; });
  }

  test::TemporaryFolder folder_;
};

// The verdict, the signature and the trials of shared runs are those of the first weights.
TEST_F(WorkerFiles, HaveToBeThoseOfTheFirstLoad) {
  const Runtime runtime = scaling();
  EXPECT_EQ(scaled(runtime), 2);
  folder_.write("weights.bin", bytes_of(7));
  EXPECT_EQ(scaled(runtime), 2);
  end_worker(runtime);
  try {
    for (int i = 0; i < 3; ++i) EXPECT_NE(scaled(runtime), 7);
    FAIL() << "it runs with other weights than those that it was loaded with";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::provider_unavailable);
    EXPECT_THAT(error.message(), HasSubstr("the worker of 'scale' has loaded something else: the file '" +
                                           (folder_.path() / "weights.bin").string() + "' is SHA-256 "));
    EXPECT_THAT(error.message(), HasSubstr("load the model again to accept that"));
  }
  // They are back: it goes on.
  folder_.write("weights.bin", bytes_of(2));
  ASSERT_TRUE(is_ready(runtime));
  EXPECT_EQ(scaled(runtime), 2);
}

TEST_F(WorkerFiles, MayHaveAnotherTime) {
  const Runtime runtime = scaling();
  for (const char* name : {"weights.bin", "scale.onnx"}) {
    const fs::path file = folder_.path() / name;
    fs::last_write_time(file, fs::last_write_time(file) + std::chrono::hours(1));
  }
  // Other files of the same bytes.
  fs::copy_file(folder_.path() / "weights.bin", folder_.path() / "copy");
  fs::rename(folder_.path() / "copy", folder_.path() / "weights.bin");
  end_worker(runtime);
  ASSERT_TRUE(is_ready(runtime)) << runtime.worker()->last_end;
  EXPECT_EQ(scaled(runtime), 2);
}

// The input of a client makes the node fail, and the error has the node's name.
TEST_F(WorkerFiles, LoseNoDeviceByTheNameOfANode) {
  using namespace onnx_test;
  const std::string reshape = node("Reshape", {"x", "shape"}, {"y"}) +
                              MessageWriter().bytes(schema::node::name, "CUDA failure 700: the device is lost").str();
  const fs::path file = folder_.write("named.onnx", ModelWriter()
                                                        .add_input("x", ElementType::float32, {"n"})
                                                        .add_input("shape", ElementType::int64, {"rank"})
                                                        .add_output("y", ElementType::float32, {"a", "b"})
                                                        .add_to_graph(schema::graph::node, reshape)
                                                        .bytes());
  LoadOptions options;
  options.provider = "cpu";
  for (const Isolation isolation : {Isolation::process, Isolation::thread}) {
    options.isolation = isolation;
    const Runtime runtime(file, options);
    const auto run = [&](std::int64_t rows) {
      return runtime.infer({{"x", floats({4}, {1, 2, 3, 4})}, {"shape", tensor<std::int64_t>({2}, {rows, 2})}});
    };
    try {
      (void)run(3);
      FAIL() << "4 elements are no 3 rows of 2";
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), HasSubstr("the device is lost")) << "this shows nothing";
    }
    EXPECT_EQ(run(2).front().second.tensor()->shape(), (Shape{2, 2}));
    EXPECT_FALSE(runtime.lost_device());
    if (isolation == Isolation::process) {
      EXPECT_EQ(runtime.worker()->restarts, 0U);
    }
  }
}

// A sandbox opens these, and not the folder that the model is in.
TEST(ModelFiles, AreThoseThatTheModelNames) {
  using namespace onnx_test;
  const test::TemporaryFolder folder;
  folder.write("secret", "of the user");
  const std::string path = MessageWriter()
                               .bytes(schema::attribute::name, "ep_cache_context")
                               .bytes(schema::attribute::s, "engine.bin")
                               .number(schema::attribute::type, 3)
                               .str();
  const std::string mode =
      MessageWriter().bytes(schema::attribute::name, "embed_mode").number(schema::attribute::i, 0).str();
  const fs::path file = folder.write(
      "model.onnx",
      ModelWriter()
          .add_opset("com.microsoft", 1)
          .add_input("x", ElementType::float32, {1})
          .add_output("y", ElementType::float32, {1})
          .add_to_graph(schema::graph::initializer,
                        external_tensor("w", ElementType::float32, {1}, {{"location", "weights.bin"}}))
          .add_to_graph(schema::graph::node, node("EPContext", {"x"}, {"y"}, {path, mode}, "com.microsoft"))
          .bytes());
  const fs::path step = folder.write("step.onnx", ModelWriter()
                                                      .add_input("y", ElementType::float32, {1})
                                                      .add_output("z", ElementType::float32, {1})
                                                      .add_node("Neg", {"y"}, {"z"})
                                                      .bytes());
  LoadOptions options;
  options.after = step;
  // One that is not used in the end may be damaged.
  const fs::path damaged = folder.write("damaged.onnx", "no model");
  options.precision_variants.push_back({.file = damaged, .precision = "int8", .provider = "cpu"});
  EXPECT_THAT(
      isolation::files_of_load(file, options),
      testing::ElementsAre(file, file.parent_path() / "weights.bin", file.parent_path() / "engine.bin", step, damaged));
}

class WorkerResults : public WorkerFiles {
 protected:
  /// Returns x, which takes none of the memory that ONNX Runtime keeps. Its sandbox limits the memory for results to
  /// 640 MiB, and 32 MiB more for each processor.
  [[nodiscard]] Runtime returning() const {
    using onnx_test::ModelWriter;
    const fs::path file = folder_.write("return.onnx", ModelWriter()
                                                           .add_input("x", ElementType::float32, {"n"})
                                                           .add_input("s", ElementType::float32, {1})
                                                           .add_output("x", ElementType::float32, {"n"})
                                                           .add_output("t", ElementType::float32, {1})
                                                           .add_node("Neg", {"s"}, {"t"})
                                                           .bytes());
    LoadOptions options;
    options.provider = "cpu";
    options.intra_threads = 1;
    options.isolation = Isolation::process;
    options.sandbox = Sandbox::on;
    options.memory_bytes = std::uint64_t{128} << 20;
    return Runtime(file, options);
  }

  static void return_mib(const Runtime& runtime, std::int64_t mib) {
    const std::int64_t count = (mib << 20) / static_cast<std::int64_t>(sizeof(float));
    Tensor x = Tensor::allocate(ElementType::float32, {count});
    x.mutable_as<float>().back() = static_cast<float>(mib);
    const NamedValues results = runtime.infer({{"x", std::move(x)}, {"s", floats({1}, {1})}});
    const auto returned = results.front().second.tensor()->as<float>();
    ASSERT_EQ(std::ssize(returned), count);
    EXPECT_EQ(returned.back(), static_cast<float>(mib));
  }
};

// Memory for results stays taken until the worker ends. Each of these results fits, and all together do not.
TEST_F(WorkerResults, ThatNoLongerFitAreRepeatedOnANewWorker) {
  if (test::has_sanitizer) GTEST_SKIP() << "sanitizers keep memory of their own";
  const Runtime runtime = returning();
  const std::vector<Message>& notes = runtime.verdict().notes;
  const auto names_limit = [](const std::string& note) { return note.find("results at most") != std::string::npos; };
  if (std::ranges::none_of(notes, names_limit)) GTEST_SKIP() << "no limit of memory here";
  const int first = runtime.worker()->process_id;
  // More than half as much again: more than the memory of the run before.
  std::int64_t mib = 40;
  for (; runtime.worker()->restarts == 0; mib = mib * 8 / 5) {
    ASSERT_LT(mib, 2000);
    ASSERT_NO_THROW(return_mib(runtime, mib)) << mib;
  }
  const WorkerStatus status = *runtime.worker();
  EXPECT_EQ(status.restarts, 1U);
  EXPECT_EQ(status.repeated_runs, 1U);
  EXPECT_EQ(status.lost_runs, 0U);
  EXPECT_NE(status.process_id, first);
  EXPECT_EQ(status.last_end, "the worker of 'return' was killed: the memory for the results of its runs was used up");
  // Another one so soon would start after a delay: the run is refused alone.
  std::optional<ErrorCode> refusal;
  for (; !refusal && mib < 4000; mib = mib * 8 / 5) {
    try {
      return_mib(runtime, mib);
    } catch (const Error& error) {
      refusal = error.code();
    }
  }
  EXPECT_EQ(refusal, ErrorCode::resource_exhausted);
  EXPECT_EQ(runtime.worker()->restarts, 1U);
  ASSERT_NO_THROW(return_mib(runtime, 40));
}

}  // namespace
}  // namespace gpux

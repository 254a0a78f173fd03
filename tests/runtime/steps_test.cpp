#include "runtime/session/steps.h"

#include <gmock/gmock.h>

#include "base/temporary_folder.h"
#include "gpux/error.h"
#include "onnx/model_writer.h"
#include "runtime/cpu_runtime.h"
#include "runtime/scheduling/session_replica.h"

namespace gpux::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

SignatureEntry entry(const std::string& name, ElementType type, std::vector<Dimension> dimensions) {
  SignatureEntry made;
  made.name = name;
  made.type.element = type;
  made.type.dimensions = std::move(dimensions);
  return made;
}

SignatureEntry floats_of(const std::string& name, std::optional<std::int64_t> width = std::nullopt) {
  return entry(name, ElementType::float32, {{std::nullopt, "batch"}, {width, ""}});
}

std::vector<std::string> names_of(const std::vector<SignatureEntry>& entries) {
  std::vector<std::string> names;
  for (const SignatureEntry& each : entries) names.push_back(each.name);
  return names;
}

TEST(Steps, CallersGiveWhatNoStepGives) {
  const Signature model{{floats_of("x", 4), floats_of("mask")}, {floats_of("y"), floats_of("hidden")}};
  const Signature before{{floats_of("raw"), floats_of("mask")}, {floats_of("x"), floats_of("scale")}};
  const Signature after{{floats_of("y"), floats_of("scale"), floats_of("threshold")}, {floats_of("boxes")}};

  const Signature alone = with_steps(model, nullptr, nullptr);
  EXPECT_THAT(names_of(alone.inputs), ElementsAre("x", "mask"));
  EXPECT_THAT(names_of(alone.outputs), ElementsAre("y", "hidden"));
  const Signature first = with_steps(model, &before, nullptr);
  EXPECT_THAT(names_of(first.inputs), ElementsAre("raw", "mask"));
  EXPECT_THAT(names_of(first.outputs), ElementsAre("y", "hidden"));
  const Signature last = with_steps(model, nullptr, &after);
  EXPECT_THAT(names_of(last.inputs), ElementsAre("x", "mask", "scale", "threshold"));
  EXPECT_THAT(names_of(last.outputs), ElementsAre("boxes"));
  const Signature both = with_steps(model, &before, &after);
  EXPECT_THAT(names_of(both.inputs), ElementsAre("raw", "mask", "threshold"));
  EXPECT_THAT(names_of(both.outputs), ElementsAre("boxes"));
}

TEST(Steps, RefuseWhatDoesNotGoTogether) {
  const Signature model{{floats_of("x", 4)}, {floats_of("y")}};
  const auto said = [&](const Signature* before, const Signature* after) -> std::string {
    try {
      (void)with_steps(model, before, after);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_config);
      return error.message();
    }
    return "nothing";
  };
  const Signature other_name{{floats_of("raw")}, {floats_of("z")}};
  EXPECT_THAT(said(&other_name, nullptr), HasSubstr("preprocessing.custom: it gives z, and the model takes x"));
  const Signature other_size{{floats_of("raw")}, {floats_of("x", 5)}};
  EXPECT_THAT(said(&other_size, nullptr), HasSubstr("'x' is float32[batch, 5] as it gives it, and the model takes "));
  const Signature other_type{{floats_of("raw")}, {entry("x", ElementType::int64, {{}, {4, ""}})}};
  EXPECT_THAT(said(&other_type, nullptr), HasSubstr("'x' is int64[?, 4]"));
  EXPECT_THAT(said(nullptr, &other_name), HasSubstr("postprocessing.custom: the model gives y, and it takes raw"));
  const Signature twice{{entry("x", ElementType::string, {{}}), floats_of("y")}, {floats_of("z")}};
  EXPECT_THAT(said(nullptr, &twice), HasSubstr("input 'x' is asked for as float32[batch, 4] and as string[?]"));
}

class StepsOfARuntime : public CpuRuntime {
 protected:
  // y = x * x, between x = raw + raw and boxes = y + scale.
  void SetUp() override {
    CpuRuntime::SetUp();
    const onnx_test::Dimensions sizes{"batch", 2};
    const auto write = [&](const char* name, const onnx_test::ModelWriter& model) {
      return folder_.write(name, model.bytes());
    };
    model_ = write("model.onnx", onnx_test::ModelWriter()
                                     .add_input("x", ElementType::float32, sizes)
                                     .add_output("y", ElementType::float32, sizes)
                                     .add_node("Mul", {"x", "x"}, {"y"}));
    options_.provider = "cpu";
    options_.before = write("before.onnx", onnx_test::ModelWriter()
                                               .add_input("raw", ElementType::float32, sizes)
                                               .add_output("x", ElementType::float32, sizes)
                                               .add_output("scale", ElementType::float32, sizes)
                                               .add_node("Add", {"raw", "raw"}, {"x"})
                                               .add_node("Neg", {"raw"}, {"scale"}));
    options_.after = write("after.onnx", onnx_test::ModelWriter()
                                             .add_input("y", ElementType::float32, sizes)
                                             .add_input("scale", ElementType::float32, sizes)
                                             .add_output("sum", ElementType::float32, sizes)
                                             .add_output("boxes", ElementType::float32, sizes)
                                             .add_node("Add", {"y", "scale"}, {"boxes"})
                                             .add_node("Sub", {"y", "scale"}, {"sum"}));
  }

  test::TemporaryFolder folder_;
  std::filesystem::path model_;
  LoadOptions options_;
};

TEST_F(StepsOfARuntime, RunOneAfterAnother) {
  const Runtime runtime(model_, options_);
  EXPECT_THAT(names_of(runtime.info().signature.inputs), ElementsAre("raw"));
  EXPECT_THAT(names_of(runtime.info().signature.outputs), ElementsAre("sum", "boxes"));
  const NamedValues given{{"raw", floats({1, 2}, {1, 3})}};
  const NamedValues all = runtime.infer(given);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].first, "sum");
  EXPECT_THAT(all[0].second.tensor()->as<float>(), ElementsAre(5, 39));
  EXPECT_THAT(all[1].second.tensor()->as<float>(), ElementsAre(3, 33));
  const NamedValues one = runtime.infer(given, {.timeout = std::chrono::seconds(30), .outputs = {"boxes"}});
  ASSERT_EQ(one.size(), 1U);
  EXPECT_THAT(one[0].second.tensor()->as<float>(), ElementsAre(3, 33));
  EXPECT_EQ(runtime.benchmark(given, {.runs = 3, .warmup_runs = 1}).runs, 3U);
  const std::vector<NamedValues> items{given, {{"raw", floats({1, 2}, {2, 0})}}};
  EXPECT_THAT(runtime.batch_infer(items)[1][1].second.tensor()->as<float>(), ElementsAre(14, 0));
  EXPECT_THROW((void)runtime.infer({{"x", floats({1, 2}, {1, 3})}}), Error);
}

TEST_F(StepsOfARuntime, MayStandAlone) {
  LoadOptions first = options_;
  first.after.clear();
  EXPECT_THAT(Runtime(model_, first).infer({{"raw", floats({1, 2}, {1, 3})}})[0].second.tensor()->as<float>(),
              ElementsAre(4, 36));
  LoadOptions last = options_;
  last.before.clear();
  const NamedValues outputs =
      Runtime(model_, last).infer({{"x", floats({1, 2}, {1, 3})}, {"scale", floats({1, 2}, {1, 1})}});
  EXPECT_THAT(outputs[1].second.tensor()->as<float>(), ElementsAre(2, 10));
}

// It would run without its steps.
TEST_F(StepsOfARuntime, RefuseModelsThatUpdateCachesInPlace) {
  const Runtime runtime(model_, options_);
  SessionReplica replica(runtime);
  try {
    (void)replica.run_in_place({{"raw", floats({1, 2}, {1, 3})}}, {}, "boxes");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_THAT(error.message(), HasSubstr("models before or after it are not supported"));
  }
}

TEST_F(StepsOfARuntime, ThatCannotBeLoadedAreNamed) {
  LoadOptions options = options_;
  options.before = folder_.write("none.onnx", "none");
  EXPECT_THROW(Runtime(model_, options), Error);
  options.before = folder_.path() / "missing.onnx";
  try {
    const Runtime runtime(model_, options);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_THAT(error.message(), HasSubstr("missing.onnx"));
  }
}

}  // namespace
}  // namespace gpux::runtime

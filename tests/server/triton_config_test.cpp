#include "server/models/triton_config.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpux/error.h"

namespace gpux::server {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

TritonConfig text(const std::string& config) {
  return parse_triton_config(config, TritonForm::text, "config.pbtxt");
}

std::string problem_of(const std::string& config, TritonForm form = TritonForm::text) {
  try {
    (void)parse_triton_config(config, form, "config.pbtxt");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_config);
    return error.message();
  }
  return {};
}

TEST(TritonConfig, IsReadAsTextAndAsJson) {
  const TritonConfig config = text(R"(
    name: "densenet"
    platform: "onnxruntime_onnx"
    max_batch_size: 8
    input [ { name: "data_0" data_type: TYPE_FP32 format: FORMAT_NCHW dims: [ 3, 224, 224 ] } ]
    output [ { name: "fc6_1" data_type: TYPE_FP32 dims: [ 1000 ] label_filename: "labels.txt" } ]
    instance_group [ { count: 2 kind: KIND_CPU } ]
    dynamic_batching { preferred_batch_size: [ 4, 8 ] max_queue_delay_microseconds: 1600
                       default_queue_policy { max_queue_size: 7 } }
    version_policy: { specific: { versions: [ 1, 3 ] } }
    default_model_filename: "densenet.onnx"
  )");
  EXPECT_EQ(config.name, "densenet");
  EXPECT_EQ(config.model_file, "densenet.onnx");
  EXPECT_EQ(config.provider, "cpu");
  EXPECT_EQ(config.serving.batch_size, 8);
  EXPECT_EQ(config.serving.workers, "2");
  EXPECT_EQ(config.serving.max_queue_delay, 2ms);
  EXPECT_EQ(config.serving.max_queue, 7);
  ASSERT_TRUE(config.versions);
  EXPECT_THAT(config.versions->versions, ElementsAre("1", "3"));
  EXPECT_THAT(config.without_effect, ElementsAre("dynamic_batching.preferred_batch_size", "label_filename"));
  EXPECT_THAT(config.inputs.at(0).sizes, ElementsAre(3, 224, 224));

  const TritonConfig json = parse_triton_config(
      R"({"max_batch_size": 0, "backend": "onnxruntime", "version_policy": {"latest": {"num_versions": 2}},
          "instance_group": [{"kind": "KIND_GPU"}], "dynamic_batching": {"max_queue_delay_microseconds": "0"},
          "optimization": {"execution_accelerators": {"gpu_execution_accelerator": [{"name": "tensorrt"}]}}})",
      TritonForm::json, "config");
  EXPECT_EQ(json.serving.batch_size, 1);
  EXPECT_FALSE(json.has_batch_dimension);
  EXPECT_EQ(json.provider, "tensorrt,cuda,cpu");
  EXPECT_EQ(json.versions->count, 2);
  EXPECT_EQ(json.serving.max_queue_delay, 0ms);
  const auto provider_of = [&](const std::string& kind, const std::string& list, const std::string& name) {
    return text("instance_group [ { kind: KIND_" + kind + " } ] optimization { execution_accelerators { " + list +
                "_execution_accelerator [ { name: \"" + name + "\" } ] } }");
  };
  EXPECT_EQ(provider_of("CPU", "cpu", "openvino").provider, "openvino,cpu");
  EXPECT_EQ(provider_of("CPU", "cpu", "encoder").provider, "encoder,cpu");
  EXPECT_EQ(provider_of("CPU", "cpu", "cpu").provider, "cpu");
  EXPECT_EQ(provider_of("GPU", "gpu", "migraphx").provider, "migraphx,cpu");
  EXPECT_EQ(provider_of("CPU", "gpu", "tensorrt").provider, "cpu");
  EXPECT_THAT(provider_of("CPU", "gpu", "tensorrt").without_effect,
              ElementsAre("execution_accelerators.gpu_execution_accelerator"));
  // What it does not say is as it was.
  ListedModel listed;
  listed.serving.batch_size = 5;
  listed.provider = "openvino";
  EXPECT_EQ(with_config(listed, text("")).serving.batch_size, 5);
  EXPECT_EQ(with_config(listed, text("")).provider, "openvino");
  EXPECT_EQ(with_config(listed, json).serving.batch_size, 1);
}

TEST(TritonConfig, RefusesByNameWhatGpuxHasNot) {
  struct Case {
    const char* config;
    const char* problem;
  };

  const std::vector<Case> cases{
      {"max_batch_size: x", "config.pbtxt:1:"},
      {"name: \"a", "config.pbtxt:1:"},
      {"sequence_batching {}", "sequence_batching"},
      {"ensemble_scheduling { step [] }", "ensemble_scheduling"},
      {"input [ { name: \"a\" reshape: { shape: [ ] } } ]", "reshape"},
      {"parameters: { key: \"a\" value: { string_value: \"1\" } }", "parameters"},
      {"backend: \"tensorrt\"", "backend is 'tensorrt'; onnxruntime is accepted"},
      {"platform: \"tensorflow_savedmodel\"", "onnxruntime_onnx is accepted"},
      {"max_batch_size: -1", "max_batch_size is -1"},
      {"instance_group [ { count: 1 }, { count: 2 } ]", "several groups"},
      {"instance_group [ { count: 2000 } ]", "1 to 1024"},
      {"instance_group [ { gpus: [ 0 ] } ]", "gpus"},
      {"dynamic_batching { preserve_ordering: true }", "preserve_ordering"},
      {"dynamic_batching { default_queue_policy { timeout_action: DELAY } }", "timeout_action"},
      {"dynamic_batching { max_queue_delay_microseconds: 60000001 }", "at most 60000000"},
      {"dynamic_batching { priority_levels: 2 }", "priority_levels"},
      {"input [ { name: \"a\" allow_ragged_batch: true } ]", "allow_ragged_batch"},
      {"model_transaction_policy { decoupled: true }", "decoupled"},
      {"response_cache { enable: true }", "--response-cache"},
      {"default_model_filename: \"../other.onnx\"", "the name of an .onnx file"},
      {"default_model_filename: \"model.plan\"", "the name of an .onnx file"},
      {"version_policy { specific {} }", "names no version"},
      {"optimization { execution_accelerators { gpu_execution_accelerator [ { name: \"auto_mixed_precision\" } ] } }",
       "is not supported; accepted: "},
  };
  for (const Case& one : cases) EXPECT_THAT(problem_of(one.config), HasSubstr(one.problem)) << one.config;
  EXPECT_THAT(problem_of("{\"sequence_batching\": {}}", TritonForm::json), HasSubstr("sequence_batching"));
  EXPECT_THAT(problem_of("[1]", TritonForm::json), HasSubstr("config.pbtxt: "));
  EXPECT_THAT(problem_of("{", TritonForm::json), HasSubstr("config.pbtxt: "));
}

TEST(TritonConfig, IsComparedWithTheModel) {
  const auto tensor = [](const std::string& name, ElementType type, std::vector<Dimension> sizes) {
    SignatureEntry entry;
    entry.name = name;
    entry.type.kind = ValueKind::tensor;
    entry.type.element = type;
    entry.type.dimensions = std::move(sizes);
    return entry;
  };
  Signature signature;
  signature.inputs.push_back(tensor("x", ElementType::float32, {{.name = "batch"}, {.size = 3}, {.name = "n"}}));
  signature.outputs.push_back(tensor("y", ElementType::int64, {{.name = "batch"}}));

  struct Case {
    const char* config;
    const char* problem;  // null: it fits
  };

  const std::vector<Case> cases{
      {"", nullptr},
      {"max_batch_size: 4 input [ { name: \"x\" data_type: TYPE_FP32 dims: [ 3, -1 ] } ]", nullptr},
      {"max_batch_size: 4 input [ { name: \"x\" data_type: TYPE_FP32 dims: [ -1, 7 ] } ]", nullptr},
      {"input [ { name: \"x\" data_type: TYPE_FP32 dims: [ -1, 3, -1 ] } ]", nullptr},
      {"max_batch_size: 4 output [ { name: \"y\" data_type: TYPE_INT64 dims: [ 1 ] } ]", nullptr},
      {"input [ { name: \"x\" data_type: TYPE_FP32 dims: [ 3, -1 ] } ]", "has the sizes [3, -1], and [-1, 3, -1]"},
      {"max_batch_size: 4 input [ { name: \"x\" data_type: TYPE_FP32 dims: [ 4, -1 ] } ]",
       "[3, -1] in the model, without its batch dimension"},
      {"input [ { name: \"z\" data_type: TYPE_FP32 } ]", "the model has no input 'z'; it has: x"},
      {"output [ { name: \"x\" data_type: TYPE_FP32 } ]", "the model has no output 'x'; it has: y"},
      {"input [ { name: \"x\" data_type: TYPE_FP16 dims: [ -1, 3, -1 ] } ]",
       "is TYPE_FP16, and TYPE_FP32 in the model"},
  };
  for (const Case& one : cases) {
    std::string problem;
    try {
      require_match(text(one.config), signature, "config.pbtxt");
    } catch (const Error& error) {
      problem = error.message();
    }
    if (one.problem == nullptr) {
      EXPECT_EQ(problem, "") << one.config;
    } else {
      EXPECT_THAT(problem, HasSubstr(one.problem)) << one.config;
    }
  }
}

}  // namespace
}  // namespace gpux::server

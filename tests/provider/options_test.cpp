#include "provider/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/spelling.h"
#include "gpux/error.h"

namespace gpux::provider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string text_of(const OptionList& options) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : options) parts.push_back(name + "=" + value);
  return join(parts, " ");
}

ResolvedOptions resolve(const char* provider, const OptionList& given, const CommonOptions& common = {},
                        bool as_plugin = false, const std::vector<Device>& devices = {}) {
  const ProviderRow* row = find_row(provider);
  if (row == nullptr) throw std::runtime_error(provider);
  return resolve_options(*row, given, common, as_plugin, devices);
}

Error failure_of(const char* provider, const OptionList& given, const CommonOptions& common = {},
                 bool as_plugin = false, const std::vector<Device>& devices = {}) {
  try {
    const ResolvedOptions options = resolve(provider, given, common, as_plugin, devices);
    return {ErrorCode::internal, "accepted: " + text_of(options.passed)};
  } catch (const Error& error) {
    return error;
  }
}

const std::vector<Device> processor{{.kind = "cpu", .name = "a processor", .vendor = {}, .index = 0}};
const std::vector<Device> graphics{{.kind = "gpu", .name = "GPU", .vendor = "Intel", .index = 0},
                                   {.kind = "cpu", .name = "a processor", .vendor = {}, .index = 1}};
const std::vector<Device> two_cards{{.kind = "gpu", .name = "GPU.0", .vendor = "Intel", .index = 0},
                                    {.kind = "gpu", .name = "GPU.1", .vendor = "Intel", .index = 1},
                                    {.kind = "cpu", .name = "a processor", .vendor = {}, .index = 2}};

// Every option that the documents of GPUX and its neighbours show, as they show it.
TEST(Options, OfTheDocumentsArePassed) {
  struct Case {
    const char* provider;
    const char* name;
    const char* value;
    const char* passed;
  };

  const Case cases[] = {
      {"CUDAExecutionProvider", "device_id", "0", "device_id=0"},
      {"cuda", "arena_extend_strategy", "kNextPowerOfTwo", "arena_extend_strategy=kNextPowerOfTwo"},
      {"cuda", "arena_extend_strategy", "kSameAsRequested", "arena_extend_strategy=kSameAsRequested"},
      {"cuda", "gpu_mem_limit", "2147483648", "gpu_mem_limit=2147483648"},
      {"cuda", "gpu_mem_limit", "2GiB", "gpu_mem_limit=2147483648"},
      {"cuda", "cudnn_conv_algo_search", "EXHAUSTIVE", "cudnn_conv_algo_search=EXHAUSTIVE"},
      {"cuda", "cudnn_conv_algo_search", "heuristic", "cudnn_conv_algo_search=HEURISTIC"},
      {"cuda", "do_copy_in_default_stream", "True", "do_copy_in_default_stream=1"},
      {"cuda", "do_copy_in_default_stream", "false", "do_copy_in_default_stream=0"},
      {"cuda", "cudnn_conv_use_max_workspace", "1", "cudnn_conv_use_max_workspace=1"},
      {"TensorrtExecutionProvider", "device_id", "0", "device_id=0"},
      {"tensorrt", "trt_max_workspace_size", "2147483648", "trt_max_workspace_size=2147483648"},
      {"tensorrt", "trt_max_workspace_size", "1GiB", "trt_max_workspace_size=1073741824"},
      {"tensorrt", "trt_fp16_enable", "True", "trt_fp16_enable=1"},
      {"tensorrt", "trt_int8_enable", "False", "trt_int8_enable=0"},
      {"tensorrt", "trt_engine_cache_enable", "True", "trt_engine_cache_enable=1"},
      {"tensorrt", "trt_engine_cache_path", "./trt_cache", "trt_engine_cache_path=./trt_cache"},
      {"tensorrt", "trt_profile_min_shapes", "x:1x128", "trt_profile_min_shapes=x:1x128"},
      {"ROCMExecutionProvider", "device_id", "0", "device_id=0"},
      {"CoreMLExecutionProvider", "MLComputeUnits", "ALL", "MLComputeUnits=ALL"},
      {"coreml", "MLComputeUnits", "CPUAndGPU", "MLComputeUnits=CPUAndGPU"},
      {"coreml", "ModelFormat", "MLProgram", "ModelFormat=MLProgram"},
      {"OpenVINOExecutionProvider", "num_of_threads", "8", "num_of_threads=8"},
      {"openvino", "device_type", "GPU", "device_type=GPU"},
      {"openvino", "device_type", "AUTO:GPU,CPU", "device_type=AUTO:GPU,CPU"},
      {"openvino", "cache_dir", "/cache", "cache_dir=/cache"},
      {"openvino", "precision", "ACCURACY", "precision=ACCURACY"},
      {"openvino", "disable_dynamic_shapes", "1", "disable_dynamic_shapes=true"},
      {"DmlExecutionProvider", "device_id", "0", "device_id=0"},
      {"directml", "performance_preference", "high_performance", "performance_preference=high_performance"},
      {"webgpu", "preferredLayout", "nchw", "preferredLayout=NCHW"},
      {"webgpu", "powerPreference", "low-power", "powerPreference=low-power"},
      {"qnn", "htp_performance_mode", "burst", "htp_performance_mode=burst"},
      {"xnnpack", "intra_op_num_threads", "4", "intra_op_num_threads=4"},
  };
  for (const Case& c : cases) {
    const ResolvedOptions options = resolve(c.provider, {{c.name, c.value}});
    EXPECT_EQ(text_of(options.passed), c.passed) << c.provider << " " << c.name;
    EXPECT_THAT(options.notes, IsEmpty()) << c.provider << " " << c.name;
  }
}

TEST(Options, OfOlderReleasesAreTranslatedAndTold) {
  struct Case {
    const char* provider;
    const char* name;
    const char* value;
    const char* passed;
    const char* note;
  };

  const Case cases[] = {
      {"rocm", "gpu_mem_limit", "2147483648", "migraphx_mem_limit=2147483648",
       "migraphx: gpu_mem_limit became migraphx_mem_limit"},
      {"rocm", "arena_extend_strategy", "kSameAsRequested", "migraphx_arena_extend_strategy=kSameAsRequested",
       "migraphx: arena_extend_strategy became migraphx_arena_extend_strategy"},
      {"coreml", "MLComputeUnits", "CPU_AND_GPU", "MLComputeUnits=CPUAndGPU",
       "coreml: MLComputeUnits=CPU_AND_GPU became MLComputeUnits=CPUAndGPU"},
      {"coreml", "MLComputeUnits", "CPU_ONLY", "MLComputeUnits=CPUOnly",
       "coreml: MLComputeUnits=CPU_ONLY became MLComputeUnits=CPUOnly"},
      {"coreml", "coreml_flags", "0", "", "coreml: coreml_flags=0 became nothing (no flag is set)"},
      {"coreml", "coreml_flags", "0x12", "EnableOnSubgraphs=1 ModelFormat=MLProgram",
       "coreml: coreml_flags=0x12 became EnableOnSubgraphs=1, ModelFormat=MLProgram"},
      {"coreml", "coreml_flags", "4", "MLComputeUnits=CPUAndNeuralEngine",
       "coreml: coreml_flags=4 became MLComputeUnits=CPUAndNeuralEngine"},
      {"openvino", "device_type", "CPU_FP32", "device_type=CPU precision=FP32",
       "openvino: device_type=CPU_FP32 became device_type=CPU, precision=FP32"},
      {"openvino", "device_type", "GPU_FP32", "device_type=GPU precision=FP32",
       "openvino: device_type=GPU_FP32 became device_type=GPU, precision=FP32"},
      {"openvino", "device_type", "GPU_FP16", "device_type=GPU precision=FP16",
       "openvino: device_type=GPU_FP16 became device_type=GPU, precision=FP16"},
      {"openvino", "device_type", "GPU.1_FP16", "device_type=GPU.1 precision=FP16",
       "openvino: device_type=GPU.1_FP16 became device_type=GPU.1, precision=FP16"},
  };
  for (const Case& c : cases) {
    const ResolvedOptions options = resolve(c.provider, {{c.name, c.value}});
    EXPECT_EQ(text_of(options.passed), c.passed) << c.provider << " " << c.name;
    EXPECT_THAT(options.notes, ElementsAre(c.note));
  }
}

TEST(Options, ThatMeanNothingAreRefusedWithWhatWouldDo) {
  struct Case {
    const char* provider;
    const char* name;
    const char* value;
    const char* words;
  };

  const Case cases[] = {
      {"tensorrt", "trt_strict_type_constraints", "False", "use trt_layer_norm_fp32_fallback"},
      {"openvino", "device_id", "1", "use device_type, as in device_type=GPU.1"},
      {"cuda", "gpu_mem_limt", "1", "provider cuda: option 'gpu_mem_limt' is not known, did you mean 'gpu_mem_limit'?"},
      {"cuda", "trt_fp16_enable", "1", "is not known"},
      {"openvino", "devise_type", "CPU", "did you mean 'device_type'?"},
      {"webgpu", "prefferedLayout", "NHWC", "did you mean 'preferredLayout'?"},
      {"cpu", "use_arena", "1", "is not known; it has none"},
      {"cuda", "cudnn_conv_algo_search", "FAST", "is 'FAST'; accepted: EXHAUSTIVE, HEURISTIC, DEFAULT"},
      {"cuda", "device_id", "first", "is 'first'; accepted: an integer"},
      {"cuda", "device_id", "1x", "accepted: an integer"},
      {"cuda", "device_id", "", "accepted: an integer"},
      {"cuda", "use_tf32", "maybe", "is 'maybe'; accepted: true, false"},
      {"cuda", "gpu_mem_limit", "much", "a number of bytes, or a size like 2GB"},
      {"coreml", "coreml_flags", "64", "accepted: a sum of the flags"},
      {"coreml", "coreml_flags", "", "accepted: a sum of the flags"},
      {"coreml", "coreml_flags", "1 2", "accepted: a sum of the flags"},
      {"rocm", "gpu_mem_limit", "much", "a number of bytes, or a size like 2GB"},
      {"openvino", "model_priority", "HIGHEST", "accepted: DEFAULT, LOW, MEDIUM, HIGH"},
      {"cuda", "device", "first", "option 'device' is 'first'; accepted: a number"},
      {"cuda", "precision", "fp64", "accepted: fp32, tf32, fp16, bf16, int8, int8-bf16"},
      {"cuda", "precision", "fp16", "is 'fp16'; accepted: fp32, tf32"},
      {"webgpu", "precision", "fp16", "has no counterpart there"},
      {"encoder", "precision", "fp16", "is 'fp16'; accepted: fp32, bf16, int8, int8-bf16"},
      {"openvino", "precision", "int8", "is 'int8'; accepted: fp32, bf16"},
      {"webgpu", "cache_directory", "/cache", "has no counterpart there"},
      {"cuda", "threads", "4", "has no counterpart there"},
      {"webgpu", "memory", "1GB", "set gpu.memory"},
      {"cpu", "device", "1", "has no counterpart there"},
  };
  for (const Case& c : cases) {
    const Error error = failure_of(c.provider, {{c.name, c.value}});
    EXPECT_EQ(error.code(), ErrorCode::usage) << c.provider << " " << c.name;
    EXPECT_THAT(error.message(), HasSubstr(c.words)) << c.provider << " " << c.name;
    EXPECT_THAT(error.message(), HasSubstr(c.name));
  }
}

TEST(CommonOptions, BecomeEachProvidersOwn) {
  struct Case {
    const char* provider;
    CommonOptions common;
    const char* passed;
    bool memory_limited = false;
  };

  const Case cases[] = {
      {"cuda", {.device = 1}, "device_id=1"},
      {"tensorrt", {.device = 1}, "device_id=1"},
      {"webgpu", {.device = 0}, ""},
      {"webgpu", {.device = 1}, "adapterIndex=1"},
      {"openvino", {.device = 1}, "device_type=GPU.1"},
      {"cpu", {.device = 0}, ""},
      {"cuda", {.memory_bytes = 1024}, "gpu_mem_limit=1024", true},
      {"migraphx", {.memory_bytes = 1024}, "migraphx_mem_limit=1024", true},
      {"cann", {.memory_bytes = 1024}, "npu_mem_limit=1024", true},
      {"tensorrt", {.memory_bytes = 1024}, ""},
      {"webgpu", {.memory_bytes = 1024}, ""},
      {"tensorrt", {.precision = "fp16"}, "trt_fp16_enable=1"},
      {"tensorrt", {.precision = "bf16"}, "trt_bf16_enable=1"},
      {"tensorrt", {.precision = "int8"}, "trt_int8_enable=1"},
      {"tensorrt", {.precision = "fp32", .tf32_is_off = true}, ""},
      {"tensorrt", {.precision = "tf32"}, ""},
      {"cuda", {.precision = "fp32"}, "use_tf32=0"},
      {"cuda", {.precision = "tf32"}, "use_tf32=1"},
      {"qnn", {.precision = "fp32"}, "enable_htp_fp16_precision=0"},
      {"coreml",
       {.precision = "fp32"},
       "ModelFormat=MLProgram MLComputeUnits=CPUAndGPU AllowLowPrecisionAccumulationOnGPU=0"},
      {"cann", {.precision = "fp32"}, "precision_mode=must_keep_origin_dtype"},
      {"webgpu", {.precision = "fp32"}, ""},
      {"migraphx", {.precision = "fp16"}, "migraphx_fp16_enable=1"},
      {"qnn", {.precision = "fp16"}, "enable_htp_fp16_precision=1"},
      {"openvino", {.precision = "fp32"}, "precision=FP32"},
      {"encoder", {.precision = "int8-bf16"}, "precision=int8-bf16"},
      {"openvino", {.precision = "bf16"}, R"(load_config={"CPU":{"INFERENCE_PRECISION_HINT":"bf16"}})"},
      {"tensorrt",
       {.cache_directory = "/c"},
       "trt_engine_cache_enable=1 trt_engine_cache_path=/c trt_timing_cache_enable=1 trt_timing_cache_path=/c"},
      {"tensorrt-rtx", {.cache_directory = "/c"}, "nv_runtime_cache_path=/c enable_cuda_graph=0"},
      {"migraphx", {.cache_directory = "/c"}, "migraphx_model_cache_dir=/c"},
      {"coreml", {.cache_directory = "/c"}, "ModelCacheDirectory=/c"},
      {"openvino", {.cache_directory = "/c"}, "cache_dir=/c"},
      {"openvino", {.threads = 3}, "num_of_threads=3"},
      {"xnnpack", {.threads = 3}, "intra_op_num_threads=3"},
      {"cpu", {.threads = 3}, ""},
      {"cuda", {.threads = 3}, ""},
  };
  for (const Case& c : cases) {
    const ResolvedOptions options = resolve(c.provider, {}, c.common);
    EXPECT_EQ(text_of(options.passed), c.passed) << c.provider;
    EXPECT_EQ(options.memory_limited, c.memory_limited) << c.provider;
    EXPECT_THAT(options.unenforced, IsEmpty()) << c.provider;
  }
}

TEST(CommonOptions, WithoutACounterpartAreTold) {
  EXPECT_THAT(resolve("webgpu", {}, {.precision = "fp16"}).unenforced,
              ElementsAre("webgpu: precision has no counterpart there and is not enforced"));
  EXPECT_THAT(resolve("cuda", {}, {.precision = "fp16"}).unenforced,
              ElementsAre("cuda computes in fp32, tf32, not in fp16: precision is not enforced"));
  EXPECT_THAT(resolve("vitisai", {}, {.precision = "fp32"}).unenforced,
              ElementsAre("vitisai: precision has no counterpart there and is not enforced"));
  EXPECT_THAT(resolve("tensorrt", {}, {.precision = "fp32"}).unenforced,
              ElementsAre("tensorrt computes float32 in tf32, and has no option against that: precision fp32 is not "
                          "enforced; set NVIDIA_TF32_OVERRIDE=0 in the environment"));
  EXPECT_THAT(resolve("webgpu", {}, {.cache_directory = "/c"}).unenforced, ElementsAre(HasSubstr("cache_directory")));
  EXPECT_THAT(resolve("cpu", {}, {.device = 1}).unenforced, ElementsAre(HasSubstr("device")));
  EXPECT_THAT(resolve("openvino", {}, {.precision = "int8"}).unenforced,
              ElementsAre("openvino computes in fp32, bf16, not in int8: precision is not enforced"));
  EXPECT_THAT(resolve("encoder", {}, {.precision = "fp16"}).unenforced,
              ElementsAre("encoder computes in fp32, bf16, int8, int8-bf16, not in fp16: precision is not enforced"));
  for (const char* other : {"cpu", "openvino", "tensorrt", "migraphx", "cuda", "qnn"}) {
    EXPECT_THAT(resolve(other, {}, {.precision = "int8-bf16"}).unenforced, ElementsAre(HasSubstr("precision")));
  }
}

TEST(Precisions, AreWhatAProviderCanBeToldBesideWhatIsSaid) {
  struct Case {
    const char* provider;
    OptionList given;
    std::vector<std::string> precisions;
  };

  const Case cases[] = {{"encoder", {}, {"fp32", "bf16", "int8", "int8-bf16"}},
                        {"encoder", {{"precision", "bf16"}}, {}},
                        {"openvino", {}, {"fp32", "bf16"}},
                        {"openvino", {{"device_type", "GPU"}}, {"fp32", "fp16"}},
                        {"openvino", {{"precision", "ACCURACY"}}, {}},
                        {"openvino", {{"load_config", "{}"}}, {}},
                        {"tensorrt", {}, {"tf32", "fp16", "bf16"}},
                        {"tensorrt", {{"trt_fp16_enable", "1"}}, {"tf32", "bf16"}},
                        {"qnn", {}, {"fp32", "fp16"}},
                        {"cuda", {}, {"fp32", "tf32"}},
                        {"cuda", {{"use_tf32", "0"}}, {}},
                        {"coreml", {}, {"fp32"}},
                        {"migraphx", {}, {"fp32", "fp16", "bf16"}},
                        {"vitisai", {}, {}},
                        {"webgpu", {}, {}},
                        {"cpu", {}, {}}};
  for (const Case& c : cases) EXPECT_EQ(resolve(c.provider, c.given).precisions, c.precisions) << c.provider;
  // What a plugin's devices are is known once it is open.
  const std::vector<std::string> either{"fp32", "bf16", "fp16"}, processor{"fp32", "bf16"};
  EXPECT_EQ(resolve("openvino", {}, {}, true).precisions, either);
  EXPECT_EQ(resolve("openvino", {{"device_type", "CPU"}}, {}, true).precisions, processor);
  EXPECT_EQ(resolve("openvino", {}, {}, true, {{.kind = "cpu", .name = {}, .vendor = {}}}).precisions, processor);
}

Device gpu_of(const char* architecture) {
  return {.kind = "gpu", .name = {}, .vendor = {}, .architecture = architecture};
}

// What is said of a float32 model is what the options come to, whoever gave them.
TEST(Precisions, AreToldAsTheyAreComputed) {
  struct Case {
    const char* provider;
    OptionList given;
    CommonOptions common;
    std::vector<Device> devices;
    const char* computed;
  };

  const std::vector<Device> turing{gpu_of("sm_75")}, hopper{gpu_of("sm_90")};
  const Case cases[] = {
      {"cuda", {}, {}, {}, "tf32"},
      {"cuda", {}, {}, hopper, "tf32"},
      {"cuda", {}, {}, turing, "fp32"},
      {"cuda", {{"use_tf32", "0"}}, {}, hopper, "fp32"},
      {"cuda", {}, {.precision = "fp32"}, hopper, "fp32"},
      {"cuda", {{"use_tf32", "1"}}, {.precision = "fp32"}, hopper, "tf32"},
      {"cuda", {}, {.tf32_is_off = true}, hopper, "fp32"},
      {"tensorrt", {}, {}, {}, "tf32"},
      {"tensorrt", {}, {.precision = "fp32"}, {}, "tf32"},
      {"tensorrt", {}, {.precision = "fp32", .tf32_is_off = true}, {}, "fp32"},
      {"tensorrt", {{"trt_fp16_enable", "1"}}, {}, {}, "fp16"},
      {"tensorrt", {{"trt_fp16_enable", "1"}, {"trt_bf16_enable", "1"}}, {}, {}, "bf16/fp16"},
      {"tensorrt-rtx", {}, {}, {}, "tf32"},
      {"migraphx", {}, {}, {}, "fp32"},
      {"migraphx", {}, {.precision = "fp16"}, {}, "fp16"},
      {"qnn", {}, {}, {}, "fp16"},
      {"qnn", {}, {.precision = "fp32"}, {}, "fp32"},
      {"qnn", {{"backend_type", "cpu"}}, {}, {}, "fp32"},
      {"qnn", {{"backend_type", "gpu"}}, {}, {}, ""},
      {"coreml", {}, {}, {}, "fp16"},
      {"coreml", {{"MLComputeUnits", "CPUOnly"}}, {}, {}, "fp32"},
      {"coreml", {{"ModelFormat", "MLProgram"}}, {}, {}, "fp32"},
      {"coreml", {{"ModelFormat", "NeuralNetwork"}}, {.precision = "fp32"}, {}, "fp16"},
      {"coreml", {}, {.precision = "fp32"}, {}, "fp32"},
      {"cann", {}, {}, {}, "fp16"},
      {"acl", {{"enable_fast_math", "1"}}, {}, {}, "bf16"},
      {"nnapi", {{"use_fp16", "1"}}, {}, {}, "fp16"},
      {"mlx", {}, {}, {}, ""},
      {"vitisai", {}, {}, {}, ""},
      {"openvino", {}, {}, processor, "fp32"},
      {"openvino", {}, {}, graphics, "fp16"},
      {"openvino", {}, {.precision = "fp32"}, graphics, "fp32"},
      {"openvino", {}, {.precision = "bf16"}, processor, "bf16"},
      {"openvino", {{"load_config", "/some/file"}}, {}, processor, ""},
      {"encoder", {}, {.precision = "int8"}, {}, "int8"},
      {"encoder", {}, {}, {}, "fp32"},
      {"webgpu", {}, {}, {}, "fp32"},
      {"cpu", {}, {}, {}, "fp32"},
  };
  for (const Case& c : cases) {
    const ResolvedOptions options = resolve(c.provider, c.given, c.common, false, c.devices);
    EXPECT_EQ(options.computes_float32_in, c.computed) << c.provider << " " << text_of(options.passed);
    const bool is_kept = c.common.precision.empty() || c.common.precision == c.computed;
    EXPECT_EQ(options.unenforced.empty(), is_kept) << c.provider << " " << text_of(options.passed);
    EXPECT_TRUE(options.precision.empty() || options.precision == c.computed) << c.provider;
  }
  // Its plugin takes bfloat16 on processors that have it.
  EXPECT_EQ(resolve("openvino", {}, {}, true, processor).computes_float32_in, "");
  EXPECT_EQ(resolve("openvino", {}, {.precision = "fp32"}, true, processor).computes_float32_in, "fp32");
}

// Such answers would be those of an earlier input.
TEST(Options, ThatGiveWrongAnswersAreRefusedByName) {
  struct Case {
    const char* provider;
    const char* name;
    const char* value;
    const char* reason;
  };

  const Case cases[] = {{"cuda", "enable_cuda_graph", "1", "replays a recorded run"},
                        {"cuda", "enable_cuda_graph", "true", "replays a recorded run"},
                        {"tensorrt", "trt_cuda_graph_enable", "1", "replays a recorded run"},
                        {"tensorrt-rtx", "enable_cuda_graph", "1", "replays a recorded run"},
                        {"webgpu", "enableGraphCapture", "1", "replays a recorded run"},
                        {"openvino", "enable_causallm", "true", "keeps the keys and values"},
                        {"qnn", "backend_type", "saver", "computes nothing"}};
  for (const Case& c : cases) {
    const Error error = failure_of(c.provider, {{c.name, c.value}});
    EXPECT_EQ(error.code(), ErrorCode::usage) << c.provider;
    EXPECT_THAT(error.message(), HasSubstr(std::string("option '") + c.name + "' is refused")) << c.provider;
    EXPECT_THAT(error.message(), HasSubstr(c.reason)) << c.provider;
  }
  EXPECT_EQ(text_of(resolve("cuda", {{"enable_cuda_graph", "0"}}).passed), "enable_cuda_graph=0");
  EXPECT_EQ(reason_against("session.disable_cpu_ep_fallback", "1"), "");
  for (const char* key : {"ep.cudaexecutionprovider.enable_cuda_graph", "ep.dml.enable_graph_capture",
                          "ep.webgpuexecutionprovider.enableGraphCapture", "hip_graph_enable"}) {
    EXPECT_THAT(reason_against(key, "1"), HasSubstr("replays a recorded run")) << key;
    EXPECT_EQ(reason_against(key, "0"), "") << key;
  }
}

const std::vector<Device> two_gpus{{.kind = "gpu", .name = "H100", .vendor = {}, .index = 0},
                                   {.kind = "gpu", .name = {}, .vendor = {}, .index = 1}};

TEST(Device, IsPassedOnAndKnown) {
  struct Case {
    const char* provider;
    OptionList given;
    CommonOptions common;
    bool as_plugin;
    const char* passed;
    unsigned used;
  };

  const Case cases[] = {{"cuda", {}, {}, false, "", 0},
                        {"cuda", {}, {.device = 1}, false, "device_id=1", 1},
                        {"cuda", {{"device_id", "1"}}, {}, false, "device_id=1", 1},
                        {"cuda", {{"device_id", "1"}}, {.device = 0}, false, "device_id=1", 1},
                        // A plugin is given the device itself.
                        {"cuda", {}, {.device = 1}, true, "", 1},
                        {"cuda", {{"device_id", "1"}}, {}, true, "", 1},
                        {"tensorrt-rtx", {}, {.device = 1}, true, "enable_cuda_graph=0", 1},
                        {"migraphx", {}, {.device = 1}, false, "device_id=1", 1},
                        {"webgpu", {}, {.device = 1}, true, "adapterIndex=1", 1}};
  for (const Case& c : cases) {
    const ResolvedOptions options = resolve(c.provider, c.given, c.common, c.as_plugin, two_gpus);
    EXPECT_EQ(text_of(options.passed), c.passed) << c.provider;
    EXPECT_EQ(options.used_device, c.used) << c.provider;
    EXPECT_EQ(options.device.value_or(c.used), c.used) << c.provider;
  }
}

TEST(Device, ThatThereIsNotIsRefusedWithThoseThatThereAre) {
  for (const bool as_plugin : {false, true}) {
    const Error error = failure_of("cuda", {}, {.device = 2}, as_plugin, two_gpus);
    EXPECT_EQ(error.code(), ErrorCode::provider_unavailable);
    EXPECT_EQ(error.message(), "provider cuda: there is no device 2; accepted: 0 (H100), 1");
  }
  EXPECT_EQ(failure_of("migraphx", {{"device_id", "5"}}, {}, false, two_gpus).message(),
            "provider migraphx: there is no device 5; accepted: 0 (H100), 1");
}

TEST(CommonOptions, GiveWayToTheProvidersOwn) {
  EXPECT_EQ(text_of(resolve("cuda", {{"device_id", "2"}}, {.device = 1}).passed), "device_id=2");
  EXPECT_EQ(text_of(resolve("cuda", {{"device", "2"}}, {.device = 1}).passed), "device_id=2");
  EXPECT_EQ(text_of(resolve("cuda", {{"gpu_mem_limit", "5"}}, {.memory_bytes = 9}).passed), "gpu_mem_limit=5");
  EXPECT_EQ(text_of(resolve("cuda", {{"memory", "2KiB"}}, {.memory_bytes = 9}).passed), "gpu_mem_limit=2048");
  EXPECT_EQ(text_of(resolve("openvino", {{"num_of_threads", "2"}}, {.threads = 9}).passed), "num_of_threads=2");
  EXPECT_EQ(text_of(resolve("openvino", {{"precision", "FP32"}}, {.precision = "bf16"}).passed), "precision=FP32");
  EXPECT_EQ(text_of(resolve("openvino", {{"precision", "ACCURACY"}}, {.precision = "fp32"}).passed),
            "precision=ACCURACY");
  EXPECT_EQ(text_of(resolve("tensorrt", {{"trt_fp16_enable", "0"}}, {.precision = "fp16"}).passed),
            "trt_fp16_enable=0");
  EXPECT_EQ(text_of(resolve("tensorrt", {{"trt_engine_cache_path", "/own"}}, {.cache_directory = "/c"}).passed),
            "trt_engine_cache_path=/own trt_engine_cache_enable=1 trt_timing_cache_enable=1 trt_timing_cache_path=/c");
  EXPECT_EQ(text_of(resolve("openvino", {{"cache_dir", "/own"}}, {.cache_directory = "/c"}).passed), "cache_dir=/own");
}

TEST(OpenVino, IsToldTheDeviceThatWasFound) {
  EXPECT_EQ(text_of(resolve("openvino", {}, {}, false, processor).passed), "device_type=CPU");
  EXPECT_EQ(text_of(resolve("openvino", {}, {}, false, graphics).passed), "device_type=GPU");
  EXPECT_EQ(text_of(resolve("openvino", {}, {.device = 1}, false, graphics).passed), "device_type=CPU");
  EXPECT_EQ(text_of(resolve("openvino", {}, {.device = 1}, false, two_cards).passed), "device_type=GPU.1");
  EXPECT_EQ(text_of(resolve("openvino", {{"device_type", "CPU"}}, {}, false, graphics).passed), "device_type=CPU");
  const Error error = failure_of("openvino", {}, {.device = 2}, false, graphics);
  EXPECT_EQ(error.code(), ErrorCode::provider_unavailable);
  EXPECT_EQ(error.message(), "provider openvino: there is no device 2; accepted: 0 (GPU), 1 (a processor)");
}

TEST(OpenVino, KnowsPrecisionsByDevice) {
  EXPECT_EQ(text_of(resolve("openvino", {}, {.precision = "fp16"}, false, graphics).passed),
            "device_type=GPU precision=FP16");
  EXPECT_THAT(resolve("openvino", {}, {.precision = "bf16"}, false, graphics).unenforced,
              ElementsAre(HasSubstr("precision")));
  // Its processors would refuse FP16 when the session is made.
  EXPECT_THAT(resolve("openvino", {}, {.precision = "fp16"}, false, processor).unenforced,
              ElementsAre(HasSubstr("precision")));
}

TEST(OpenVino, AsAPluginTakesOneConfiguration) {
  const ResolvedOptions options =
      resolve("openvino", {{"num_streams", "2"}, {"enable_qdq_optimizer", "true"}},
              {.precision = "fp32", .cache_directory = "/c\"d", .threads = 4}, true, processor);
  EXPECT_EQ(text_of(options.passed),
            R"(enable_qdq_optimizer=true load_config={"CPU":{"NUM_STREAMS":"2","INFERENCE_PRECISION_HINT":"f32",)"
            R"("CACHE_DIR":"/c\"d","INFERENCE_NUM_THREADS":"4"}})");
  EXPECT_EQ(options.device, 0U);
  EXPECT_EQ(text_of(resolve("openvino", {{"precision", "ACCURACY"}}, {}, true).passed),
            R"(load_config={"CPU":{"EXECUTION_MODE_HINT":"ACCURACY"}})");
  EXPECT_THAT(failure_of("openvino", {{"load_config", "{}"}, {"num_streams", "2"}}, {}, true).message(),
              HasSubstr("cannot be combined"));
  EXPECT_EQ(resolve("openvino", {{"device_type", "CPU"}}, {}, true, two_cards).device, 2U);
  EXPECT_EQ(resolve("openvino", {{"device_type", "GPU.1"}}, {}, true, two_cards).device, 1U);
  EXPECT_EQ(failure_of("openvino", {{"device_type", "NPU"}}, {}, true, two_cards).message(),
            "provider openvino: there is no device 'NPU' here; accepted: GPU.0, GPU.1, CPU");
}

}  // namespace
}  // namespace gpux::provider

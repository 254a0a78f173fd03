#include "provider/table.h"

#include <algorithm>
#include <array>

#include "base/spelling.h"

namespace gpux::provider {
namespace {

using Way = ort::ProviderAppend::Way;
using enum OptionType;

constexpr std::uint16_t nvidia = 0x10de;
constexpr std::uint16_t amd = 0x1002;

std::vector<OptionRow> cuda_options() {
  return {{"device_id", integer},
          {"gpu_mem_limit", size},
          {"arena_extend_strategy", choice, {"kNextPowerOfTwo", "kSameAsRequested"}},
          {"cudnn_conv_algo_search", choice, {"EXHAUSTIVE", "HEURISTIC", "DEFAULT"}},
          {"do_copy_in_default_stream", boolean},
          {"cudnn_conv_use_max_workspace", boolean},
          {"cudnn_conv1d_pad_to_nc1d", boolean},
          {"enable_cuda_graph", boolean},
          {"enable_skip_layer_norm_strict_mode", boolean},
          {"fuse_conv_bias", boolean},
          {"prefer_nhwc", boolean},
          {"sdpa_kernel", integer},
          {"tunable_op_enable", boolean},
          {"tunable_op_tuning_enable", boolean},
          {"tunable_op_max_tuning_duration_ms", integer},
          {"use_ep_level_unified_stream", boolean},
          {"use_tf32", boolean}};
}

std::vector<OptionRow> tensorrt_options() {
  return {{"device_id", integer},
          {"trt_max_workspace_size", size},
          {"trt_max_partition_iterations", integer},
          {"trt_min_subgraph_size", integer},
          {"trt_fp16_enable", boolean},
          {"trt_bf16_enable", boolean},
          {"trt_int8_enable", boolean},
          {"trt_int8_calibration_table_name", path},
          {"trt_int8_use_native_calibration_table", boolean},
          {"trt_dla_enable", boolean},
          {"trt_dla_core", integer},
          {"trt_engine_cache_enable", boolean},
          {"trt_engine_cache_path", path},
          {"trt_engine_cache_prefix", path},
          {"trt_engine_hw_compatible", boolean},
          {"trt_dump_subgraphs", boolean},
          {"trt_timing_cache_enable", boolean},
          {"trt_timing_cache_path", path},
          {"trt_force_timing_cache", boolean},
          {"trt_force_sequential_engine_build", boolean},
          {"trt_context_memory_sharing_enable", boolean},
          {"trt_layer_norm_fp32_fallback", boolean},
          {"trt_detailed_build_log", boolean},
          {"trt_build_heuristics_enable", boolean},
          {"trt_sparsity_enable", boolean},
          {"trt_builder_optimization_level", integer},
          {"trt_auxiliary_streams", integer},
          {"trt_tactic_sources"},
          {"trt_extra_plugin_lib_paths", path},
          {"trt_profile_min_shapes"},
          {"trt_profile_max_shapes"},
          {"trt_profile_opt_shapes"},
          {"trt_cuda_graph_enable", boolean},
          {"trt_dump_ep_context_model", boolean},
          {"trt_ep_context_file_path", path},
          {"trt_ep_context_embed_mode", integer},
          {"trt_weight_stripped_engine_enable", boolean},
          {"trt_onnx_model_folder_path", path},
          {"trt_op_types_to_exclude"}};
}

std::vector<OptionRow> tensorrt_rtx_options() {
  return {{"device_id", integer},
          {"nv_max_workspace_size", size},
          {"nv_max_shared_mem_size", size},
          {"nv_profile_min_shapes"},
          {"nv_profile_max_shapes"},
          {"nv_profile_opt_shapes"},
          {"nv_multi_profile_enable", boolean},
          {"nv_runtime_cache_path", path},
          {"nv_dump_subgraphs", boolean},
          {"nv_detailed_build_log", boolean},
          {"nv_op_types_to_exclude"},
          {"nv_persistent_context_memory", boolean},
          {"nv_weight_streaming_budget", size},
          {"nv_use_external_data_initializer", boolean},
          {"enable_cuda_graph", boolean}};
}

std::vector<OptionRow> migraphx_options() {
  return {{"device_id", integer},
          {"migraphx_fp16_enable", boolean},
          {"migraphx_bf16_enable", boolean},
          {"migraphx_fp8_enable", boolean},
          {"migraphx_int8_enable", boolean},
          {"migraphx_int8_calibration_table_name", path},
          {"migraphx_int8_use_native_calibration_table", boolean},
          {"migraphx_exhaustive_tune", boolean},
          {"migraphx_mem_limit", size},
          {"migraphx_arena_extend_strategy", choice, {"kNextPowerOfTwo", "kSameAsRequested"}},
          {"migraphx_model_cache_dir", path}};
}

std::vector<OptionRow> coreml_options() {
  return {{"ModelFormat", choice, {"NeuralNetwork", "MLProgram"}},
          {"MLComputeUnits", choice, {"ALL", "CPUAndNeuralEngine", "CPUAndGPU", "CPUOnly"}},
          {"RequireStaticInputShapes", boolean},
          {"EnableOnSubgraphs", boolean},
          {"SpecializationStrategy", choice, {"Default", "FastPrediction"}},
          {"ProfileComputePlan", boolean},
          {"AllowLowPrecisionAccumulationOnGPU", boolean},
          {"ModelCacheDirectory", path}};
}

std::vector<OptionRow> openvino_options() {
  return {{"device_type"},
          {"precision", choice, {"FP32", "FP16", "ACCURACY"}},
          {"cache_dir", path},
          {"num_streams", integer},
          {"num_of_threads", integer},
          {"model_priority", choice, {"DEFAULT", "LOW", "MEDIUM", "HIGH"}},
          {"load_config", path},
          {"reshape_input"},
          {"layout"},
          {"device_luid"},
          {"enable_opencl_throttling", boolean},
          {"disable_dynamic_shapes", boolean},
          {"enable_qdq_optimizer", boolean},
          {"enable_causallm", boolean}};
}

std::vector<OptionRow> qnn_options() {
  return {{"backend_type", choice, {"htp", "cpu", "gpu", "saver", "ir"}},
          {"backend_path", path},
          {"htp_performance_mode",
           choice,
           {"default", "burst", "balanced", "high_performance", "high_power_saver", "low_balanced", "low_power_saver",
            "power_saver", "extreme_power_saver", "sustained_high_performance"}},
          {"htp_graph_finalization_optimization_mode", choice, {"0", "1", "2", "3"}},
          {"enable_htp_fp16_precision", boolean},
          {"vtcm_mb", integer},
          {"soc_model"},
          {"htp_arch"},
          {"device_id", integer},
          {"offload_graph_io_quantization", boolean},
          {"enable_htp_shared_memory_allocator", boolean},
          {"qnn_context_priority", choice, {"low", "normal", "normal_high", "high"}},
          {"profiling_level", choice, {"off", "basic", "detailed"}},
          {"profiling_file_path", path},
          {"rpc_control_latency", integer}};
}

std::vector<OptionRow> webgpu_options() {
  return {{"preferredLayout", choice, {"NHWC", "NCHW"}},
          {"enableGraphCapture", boolean},
          {"enableInt64", boolean},
          {"deviceId", integer},
          {"adapterIndex", integer},
          {"powerPreference", choice, {"high-performance", "low-power"}},
          {"dawnBackendType", choice, {"Vulkan", "D3D12"}},
          {"preserveDevice", boolean},
          {"storageBufferCacheMode", choice, {"disabled", "lazyRelease", "simple", "bucket"}},
          {"uniformBufferCacheMode", choice, {"disabled", "lazyRelease", "simple", "bucket"}},
          {"queryResolveBufferCacheMode", choice, {"disabled", "lazyRelease", "simple", "bucket"}},
          {"defaultBufferCacheMode", choice, {"disabled", "lazyRelease", "simple", "bucket"}},
          {"validationMode", choice, {"disabled", "wgpuOnly", "basic", "full"}},
          {"forceCpuNodeNames"},
          {"maxStorageBufferBindingSize", size}};
}

std::vector<ProviderRow> make_table() {
  return {
      {.id = "tensorrt",
       .description = "NVIDIA TensorRT: engines built for one GPU",
       .kind = "gpu",
       .aliases = {"trt"},
       .systems = {"linux", "windows"},
       .built_in_name = "TensorrtExecutionProvider",
       .way = Way::tensorrt,
       .bridge = "tensorrt",
       .opened_later = {"libnvinfer.so.10", "libcudnn.so.9"},
       .compilers = {"libnvinfer.so"},
       .vendor_ids = {nvidia},
       .hardware = "NVIDIA GPU",
       .remedy = "gpux providers install tensorrt",
       .chain = {"cuda"},
       .compiles_each_size = true,
       .computes_float32_in = "tf32",
       .options = tensorrt_options()},
      {.id = "tensorrt-rtx",
       .description = "NVIDIA TensorRT for RTX: engines compiled on the user's GPU",
       .kind = "gpu",
       .aliases = {"trt-rtx", "nvtensorrtrtx", "nv-tensorrt-rtx"},
       .systems = {"linux", "windows"},
       .built_in_name = "NvTensorRTRTXExecutionProvider",
       .plugin_names = {"NvTensorRTRTXExecutionProvider"},
       .append_name = "NvTensorRtRtx",
       .bridge = "nv_tensorrt_rtx",
       .plugins = {"libonnxruntime_providers_nv_tensorrt_rtx"},
       .oldest_core = "1.24",
       .compilers = {"libtensorrt_rtx.so"},
       .vendor_ids = {nvidia},
       .hardware = "NVIDIA GPU",
       .remedy = "gpux providers install tensorrt-rtx",
       .chain = {"cuda"},
       .compiles_each_size = true,
       .computes_float32_in = "tf32",
       .options = tensorrt_rtx_options()},
      {.id = "cuda",
       .description = "NVIDIA CUDA",
       .kind = "gpu",
       .aliases = {"nvidia"},
       .systems = {"linux", "windows"},
       .built_in_name = "CUDAExecutionProvider",
       .plugin_names = {"CUDAExecutionProvider", "CudaPluginExecutionProvider"},
       .way = Way::cuda,
       .bridge = "cuda",
       .plugins = {"libonnxruntime_providers_cuda_plugin"},
       .oldest_core = "1.24.4",
       .opened_later = {"libcudnn.so.9"},
       .vendor_ids = {nvidia},
       .hardware = "NVIDIA GPU",
       .remedy = "gpux providers install cuda",
       .has_fused_attention = true,
       .computes_float32_in = "tf32",
       .options = cuda_options()},
      {.id = "migraphx",
       .description = "AMD MIGraphX on ROCm",
       .kind = "gpu",
       .aliases = {"rocm", "amd", "amdgpu"},
       .systems = {"linux", "windows"},
       .built_in_name = "MIGraphXExecutionProvider",
       .plugin_names = {"MIGraphXExecutionProvider", "AMDGPUExecutionProvider"},
       .append_name = "MIGraphX",
       .bridge = "migraphx",
       .plugins = {"libonnxruntime_providers_migraphx_plugin", "libonnxruntime_providers_amdgpu"},
       .compilers = {"libmigraphx.so"},
       .vendor_ids = {amd},
       .hardware = "AMD GPU",
       .remedy = "gpux providers install migraphx; it needs AMD's ROCm",
       .compiles_each_size = true,
       .options = migraphx_options()},
      {.id = "coreml",
       .description = "Apple CoreML: GPU and Neural Engine",
       .kind = "gpu",
       .aliases = {"apple"},
       .systems = {"macos"},
       .built_in_name = "CoreMLExecutionProvider",
       .append_name = "CoreML",
       .hardware = "Apple device",
       .remedy = "pip install onnxruntime",
       .compiles_each_size = true,
       .computes_float32_in = "fp16",
       .options = coreml_options()},
      {.id = "directml",
       .description = "Microsoft DirectML: any DirectX 12 GPU",
       .kind = "gpu",
       .aliases = {"dml"},
       .systems = {"windows"},
       .built_in_name = "DmlExecutionProvider",
       .append_name = "DML",
       .hardware = "DirectX 12 device",
       .remedy = "pip install onnxruntime-directml",
       .options = {{"device_id", integer},
                   {"performance_preference", choice, {"default", "high_performance", "minimum_power"}},
                   {"device_filter", choice, {"gpu", "npu", "any"}},
                   {"disable_metacommands", boolean}}},
      {.id = "openvino",
       .description = "Intel OpenVINO: Intel GPUs and NPUs, and processors",
       .kind = "gpu",
       .aliases = {"intel"},
       .systems = {"linux", "windows"},
       .built_in_name = "OpenVINOExecutionProvider",
       .plugin_names = {"OpenVINOExecutionProvider"},
       .way = Way::openvino,
       .bridge = "openvino",
       .plugins = {"libonnxruntime_providers_openvino_plugin"},
       .oldest_core = "1.23",
       .remedy = "gpux providers install openvino",
       .compiles_each_size = true,
       .options = openvino_options()},
      {.id = "webgpu",
       .description = "WebGPU: any GPU with Vulkan, Metal or DirectX 12",
       .kind = "gpu",
       .aliases = {"vulkan", "metal", "dx12"},
       .systems = {"linux", "windows", "macos"},
       .built_in_name = "WebGpuExecutionProvider",
       .plugin_names = {"WebGpuExecutionProvider"},
       .append_name = "WebGPU",
       .plugins = {"libonnxruntime_providers_webgpu"},
       .oldest_core = "1.24.4",
       .opened_later = {"libvulkan.so.1"},
       .remedy = "gpux providers install webgpu",
       .has_fused_attention = true,
       .options = webgpu_options()},
      {.id = "mlx",
       .description = "Apple MLX: GPUs of Apple's processors",
       .kind = "gpu",
       .systems = {"macos"},
       .plugin_names = {"MLXExecutionProvider"},
       .plugins = {"libonnxruntime_mlx_ep"},
       .oldest_core = "1.31",
       .hardware = "Apple device",
       .remedy = "pip install onnxruntime-ep-mlx",
       .computes_float32_in = ""},
      {.id = "qnn",
       .description = "Qualcomm QNN: Hexagon NPUs",
       .kind = "npu",
       .aliases = {"qualcomm"},
       .systems = {"windows", "android", "linux"},
       .built_in_name = "QNNExecutionProvider",
       .plugin_names = {"QNNExecutionProvider"},
       .append_name = "QNN",
       .bridge = "qnn",
       .plugins = {"libonnxruntime_providers_qnn_plugin", "libonnxruntime_providers_qnn"},
       .oldest_core = "1.24.1",
       .hardware = "Qualcomm NPU",
       .remedy = "gpux providers install qnn",
       .compiles_each_size = true,
       .computes_float32_in = "fp16",
       .options = qnn_options()},
      {.id = "vitisai",
       .description = "AMD Vitis AI: Ryzen AI NPUs",
       .kind = "npu",
       .aliases = {"ryzenai"},
       .systems = {"windows", "linux"},
       .built_in_name = "VitisAIExecutionProvider",
       .append_name = "VitisAI",
       .bridge = "vitisai",
       .hardware = "AMD Ryzen AI NPU",
       .remedy = "install AMD's Ryzen AI software, which brings an ONNX Runtime with VitisAI",
       .chain = {"directml"},
       .computes_float32_in = "",
       .options = {{"config_file", path}, {"cache_dir", path}, {"cache_key"}, {"log_level"}, {"target"}}},
      {.id = "encoder",
       .description = "gpux's own: text encoders on processors",
       .kind = "cpu",
       .aliases = {"gpux-encoder"},
       .systems = {"linux"},
       .plugin_names = {"GpuxEncoderExecutionProvider"},
       .plugins = {"libgpux_encoder_provider"},
       .remedy = "it comes with gpux: lib/gpux/providers beside the program",
       .works_on_callers_threads = true,
       .computes_no_padding = true,
       .options = {{"precision", choice, {"fp32", "bf16", "int8", "int8-bf16"}}}},
      {.id = "decoder",
       .description = "gpux's own: text generation on processors",
       .kind = "cpu",
       .aliases = {"gpux-decoder"},
       .systems = {"linux"},
       .plugin_names = {"GpuxDecoderExecutionProvider"},
       .plugins = {"libgpux_decoder_provider"},
       .remedy = "it comes with gpux: lib/gpux/providers beside the program",
       .works_on_callers_threads = true,
       .gives_all_logits = true,
       .reads_half_caches = true,
       .options = {{"precision", choice, {"fp32", "bf16", "int8"}}}},
      {.id = "xnnpack",
       .description = "XNNPACK: processors, mobile first",
       .kind = "cpu",
       .systems = {"linux", "windows", "macos", "android"},
       .built_in_name = "XnnpackExecutionProvider",
       .append_name = "XNNPACK",
       .remedy = "use an ONNX Runtime built with XNNPACK and set GPUX_ONNXRUNTIME to it",
       .options = {{"intra_op_num_threads", integer}}},
      {.id = "dnnl",
       .description = "Intel oneDNN: processors",
       .kind = "cpu",
       .aliases = {"onednn"},
       .systems = {"linux", "windows"},
       .built_in_name = "DnnlExecutionProvider",
       .way = Way::dnnl,
       .bridge = "dnnl",
       .remedy = "use an ONNX Runtime built with oneDNN and set GPUX_ONNXRUNTIME to it",
       .options = {{"use_arena", boolean}}},
      {.id = "acl",
       .description = "Arm Compute Library: Arm processors",
       .kind = "cpu",
       .systems = {"linux", "android"},
       .built_in_name = "ACLExecutionProvider",
       .way = Way::acl,
       .remedy = "use an ONNX Runtime built with the Arm Compute Library and set GPUX_ONNXRUNTIME to it",
       .options = {{"enable_fast_math", boolean}}},
      {.id = "nnapi",
       .description = "Android NNAPI: GPUs, NPUs and DSPs of Android devices",
       .kind = "npu",
       .systems = {"android"},
       .built_in_name = "NnapiExecutionProvider",
       .way = Way::nnapi,
       .remedy = "use the ONNX Runtime of the package onnxruntime-android",
       .options = {{"use_fp16", boolean}, {"use_nchw", boolean}, {"cpu_disabled", boolean}, {"cpu_only", boolean}}},
      {.id = "cann",
       .description = "Huawei CANN: Ascend NPUs",
       .kind = "npu",
       .aliases = {"ascend", "huawei"},
       .systems = {"linux"},
       .built_in_name = "CANNExecutionProvider",
       .way = Way::cann,
       .bridge = "cann",
       .vendor_ids = {0x19e5},
       .hardware = "Huawei Ascend NPU",
       .remedy = "gpux providers install cann",
       .computes_float32_in = "fp16",
       .options = {{"device_id", integer},
                   {"npu_mem_limit", size},
                   {"arena_extend_strategy", choice, {"kNextPowerOfTwo", "kSameAsRequested"}},
                   {"enable_cann_graph", boolean},
                   {"dump_graphs", boolean},
                   {"dump_om_model", boolean},
                   {"precision_mode"},
                   {"op_select_impl_mode"},
                   {"optypelist_for_implmode"}}},
      {.id = "cpu",
       .description = "ONNX Runtime's own kernels: any processor",
       .kind = "cpu",
       .systems = {"linux", "windows", "macos", "android"},
       .built_in_name = "CPUExecutionProvider",
       .remedy = "gpux providers install cpu",
       .works_on_callers_threads = true,
       .options = {}},
  };
}

// Spellings of other tools and of removed providers, beside the real names.
struct Spelling {
  std::string_view spelling;
  std::string_view id;
};

constexpr std::array<Spelling, 8> spellings{{{"rocmexecutionprovider", "migraphx"},
                                             {"directmlexecutionprovider", "directml"},
                                             {"tensorrtrtx", "tensorrt-rtx"},
                                             {"tensorrt_rtx", "tensorrt-rtx"},
                                             {"qnnexecutionprovider", "qnn"},
                                             {"core-ml", "coreml"},
                                             {"direct-ml", "directml"},
                                             {"open-vino", "openvino"}}};

}  // namespace

std::span<const ProviderRow> table() {
  static const std::vector<ProviderRow> rows = make_table();
  return rows;
}

const ProviderRow* find_row(std::string_view name) {
  if (name.empty()) return nullptr;
  std::string wanted = lower(name);
  for (const Spelling& spelling : spellings) {
    if (spelling.spelling == wanted) wanted = spelling.id;
  }
  for (const ProviderRow& row : table()) {
    if (row.id == wanted || lower(row.built_in_name) == wanted) return &row;
    for (const std::string_view plugin : row.plugin_names) {
      if (lower(plugin) == wanted) return &row;
    }
    for (const std::string_view alias : row.aliases) {
      if (alias == wanted) return &row;
    }
  }
  return nullptr;
}

bool has_option(const ProviderRow& row, std::string_view name) {
  return std::ranges::find(row.options, name, &OptionRow::name) != row.options.end();
}

std::string other_systems(const ProviderRow& row) {
  return "runs on " + join(std::vector<std::string>(row.systems.begin(), row.systems.end())) + " only";
}

std::vector<std::string> accepted_names() {
  std::vector<std::string> names{"auto", "fastest", "gpu", "npu"};
  for (const ProviderRow& row : table()) names.emplace_back(row.id);
  return names;
}

}  // namespace gpux::provider

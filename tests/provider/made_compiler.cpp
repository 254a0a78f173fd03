// Stands for TensorRT for RTX, which is on no machine of ours: a plugin of its name that takes its options, compiles
// Add for the shapes that they name, keeps what it compiled in the folder that they name, and fails in runs of other
// shapes. GPUX_MADE_COMPILER is a file to which it appends what it was given and did, a line each.
// GPUX_MADE_COMPILER_REFUSES makes a session with shapes fail.
#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <onnxruntime_cxx_api.h>

namespace {

namespace fs = std::filesystem;

constexpr const char* provider_name = "NvTensorRTRTXExecutionProvider";
constexpr const char* option_prefix = "ep.nvtensorrtrtxexecutionprovider.";

template <typename Work>
OrtStatus* as_status(Work&& work) noexcept {
  try {
    work();
    return nullptr;
  } catch (const Ort::Exception& error) {
    return Ort::GetApi().CreateStatus(error.GetOrtErrorCode(), error.what());
  } catch (const std::exception& error) {
    return Ort::GetApi().CreateStatus(ORT_EP_FAIL, error.what());
  }
}

void note(const std::string& line) {
  if (const char* file = std::getenv("GPUX_MADE_COMPILER")) std::ofstream(file, std::ios::app) << line << "\n";
}

std::string text_of(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

using Options = std::map<std::string, std::string>;

Options options_of(const OrtSessionOptions* session) {
  OrtKeyValuePairs* entries = nullptr;
  Ort::ThrowOnError(Ort::GetApi().GetSessionOptionsConfigEntries(session, &entries));
  Options options;
  for (const auto& [key, value] : Ort::KeyValuePairs(entries).GetKeyValuePairs()) {
    if (key.starts_with(option_prefix)) options[key.substr(std::string(option_prefix).size())] = value;
  }
  return options;
}

// x + c, where c has the last dimension of x.
class Sum : public OrtNodeComputeInfo {
 public:
  explicit Sum(std::string rows_of) : OrtNodeComputeInfo{}, largest_(std::move(rows_of)) {
    ort_version_supported = ORT_API_VERSION;
    CreateState = [](OrtNodeComputeInfo* self, OrtNodeComputeContext*, void** state) noexcept -> OrtStatus* {
      *state = self;
      return nullptr;
    };
    Compute = [](OrtNodeComputeInfo*, void* state, OrtKernelContext* context) noexcept {
      return as_status([=] { static_cast<Sum*>(static_cast<OrtNodeComputeInfo*>(state))->run(context); });
    };
    ReleaseState = [](OrtNodeComputeInfo*, void*) noexcept {};
  }

 private:
  void run(OrtKernelContext* context) const {
    const Ort::KernelContext kernel(context);
    Ort::ConstValue left = kernel.GetInput(0), right = kernel.GetInput(1);
    if (left.GetTensorTypeAndShapeInfo().GetElementCount() < right.GetTensorTypeAndShapeInfo().GetElementCount()) {
      std::swap(left, right);
    }
    const std::vector<std::int64_t> shape = left.GetTensorTypeAndShapeInfo().GetShape();
    note("run " + text_of(shape));
    if (!largest_.empty() && shape.front() > std::stoll(largest_)) {
      throw Ort::Exception("cannot set the dynamic dimensions of a binding", ORT_EP_FAIL);
    }
    const std::size_t period = right.GetTensorTypeAndShapeInfo().GetElementCount();
    Ort::UnownedValue output = kernel.GetOutput(0, shape.data(), shape.size());
    const std::size_t count = output.GetTensorTypeAndShapeInfo().GetElementCount();
    const float *a = left.GetTensorData<float>(), *b = right.GetTensorData<float>();
    auto* sum = output.GetTensorMutableData<float>();
    for (std::size_t i = 0; i < count; ++i) sum[i] = a[i] + b[i % period];
  }

  std::string largest_;
};

class Provider : public OrtEp {
 public:
  explicit Provider(Options options) : OrtEp{}, options_(std::move(options)) {
    ort_version_supported = ORT_API_VERSION;
    GetName = [](const OrtEp*) noexcept { return provider_name; };
    GetCapability = [](OrtEp*, const OrtGraph* graph, OrtEpGraphSupportInfo* support) noexcept {
      return as_status([=] {
        for (const Ort::ConstNode& node : Ort::ConstGraph(graph).GetNodes()) {
          if (node.GetOperatorType() != "Add") continue;
          const OrtNode* claimed = node;
          OrtNodeFusionOptions fusion{};
          fusion.ort_version_supported = ORT_API_VERSION;
          Ort::ThrowOnError(Ort::GetEpApi().EpGraphSupportInfo_AddNodesToFuse(support, &claimed, 1, &fusion));
        }
      });
    };
    Compile = [](OrtEp* self, const OrtGraph**, const OrtNode**, std::size_t count, OrtNodeComputeInfo** made,
                 OrtNode**) noexcept { return as_status([=] { static_cast<Provider*>(self)->compile(count, made); }); };
    ReleaseNodeComputeInfos = [](OrtEp*, OrtNodeComputeInfo** made, std::size_t count) noexcept {
      for (std::size_t i = 0; i < count; ++i) delete static_cast<Sum*>(made[i]);
    };
  }

 private:
  [[nodiscard]] std::string option(const std::string& name) const {
    const auto found = options_.find(name);
    return found == options_.end() ? std::string() : found->second;
  }

  void compile(std::size_t count, OrtNodeComputeInfo** made) const {
    const std::string largest = option("nv_profile_max_shapes");
    if (!largest.empty() && std::getenv("GPUX_MADE_COMPILER_REFUSES") != nullptr) {
      throw Ort::Exception("the profile cannot be applied", ORT_EP_FAIL);
    }
    const fs::path folder = option("nv_runtime_cache_path");
    const fs::path engine = folder / "sum.engine";
    if (!folder.empty() && fs::exists(engine)) {
      std::string content;
      std::getline(std::ifstream(engine), content);
      if (content != "an engine") throw Ort::Exception("the engine cannot be deserialized", ORT_EP_FAIL);
      note("read the engine");
    } else {
      note("compiled for " + option("nv_profile_min_shapes") + " " + option("nv_profile_opt_shapes") + " " + largest);
      if (!folder.empty()) std::ofstream(engine) << "an engine";
    }
    // "x:4x3": the rows.
    const std::size_t colon = largest.find(':');
    const std::string rows = colon == std::string::npos
                                 ? std::string()
                                 : largest.substr(colon + 1, largest.find('x', colon + 1) - colon - 1);
    for (std::size_t i = 0; i < count; ++i) made[i] = std::make_unique<Sum>(rows).release();
  }

  Options options_;
};

class Factory : public OrtEpFactory {
 public:
  Factory() : OrtEpFactory{} {
    ort_version_supported = ORT_API_VERSION;
    GetName = [](const OrtEpFactory*) noexcept { return provider_name; };
    GetVendor = [](const OrtEpFactory*) noexcept { return "gpux"; };
    GetVersion = [](const OrtEpFactory*) noexcept { return "0.1.0"; };
    GetVendorId = [](const OrtEpFactory*) noexcept { return std::uint32_t{0}; };
    GetSupportedDevices = [](OrtEpFactory* self, const OrtHardwareDevice* const* devices, std::size_t count,
                             OrtEpDevice** supported, std::size_t room, std::size_t* supported_count) noexcept {
      return as_status([=] {
        *supported_count = 0;
        for (std::size_t i = 0; i < count && *supported_count < std::min<std::size_t>(room, 1); ++i) {
          Ort::ConstHardwareDevice device(devices[i]);
          if (device.Type() != OrtHardwareDeviceType_CPU) continue;
          const Ort::KeyValuePairs metadata, options;
          supported[(*supported_count)++] =
              Ort::EpDevice(*self, device, metadata.GetConst(), options.GetConst()).release();
        }
      });
    };
    CreateEp = [](OrtEpFactory*, const OrtHardwareDevice* const*, const OrtKeyValuePairs* const*, std::size_t,
                  const OrtSessionOptions* session, const OrtLogger*, OrtEp** provider) noexcept {
      return as_status([=] {
        *provider = nullptr;
        Options options = options_of(session);
        for (const auto& [name, value] : options) note("option " + name + "=" + value);
        *provider = std::make_unique<Provider>(std::move(options)).release();
      });
    };
    // Its memory is the host's.
    CreateAllocator = [](OrtEpFactory*, const OrtMemoryInfo*, const OrtKeyValuePairs*,
                         OrtAllocator** allocator) noexcept -> OrtStatus* {
      *allocator = nullptr;
      return nullptr;
    };
    ReleaseAllocator = [](OrtEpFactory*, OrtAllocator*) noexcept {};
    CreateDataTransfer = [](OrtEpFactory*, OrtDataTransferImpl** transfer) noexcept -> OrtStatus* {
      *transfer = nullptr;
      return nullptr;
    };
    ReleaseEp = [](OrtEpFactory*, OrtEp* provider) noexcept { delete static_cast<Provider*>(provider); };
  }
};

}  // namespace

extern "C" {

__attribute__((visibility("default"))) OrtStatus* CreateEpFactories(const char*, const OrtApiBase* base,
                                                                    const OrtLogger*, OrtEpFactory** factories,
                                                                    std::size_t, std::size_t* count) noexcept {
  Ort::InitApi(base->GetApi(ORT_API_VERSION));
  return as_status([=] {
    factories[0] = std::make_unique<Factory>().release();
    *count = 1;
  });
}

__attribute__((visibility("default"))) OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) noexcept {
  delete static_cast<Factory*>(factory);
  return nullptr;
}

}  // extern "C"

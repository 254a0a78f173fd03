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

#include "base/made_plugin.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;

constexpr const char* option_prefix = "ep.nvtensorrtrtxexecutionprovider.";

using test::as_status;

void note(const std::string& line) {
  if (const char* file = std::getenv("GPUX_MADE_COMPILER")) std::ofstream(file, std::ios::app) << line << "\n";
}

std::string text_of(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text.append(text.empty() ? "" : "x").append(std::to_string(size));
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
  static constexpr const char* name = "NvTensorRTRTXExecutionProvider";

  explicit Provider(const OrtSessionOptions* session) : OrtEp{}, options_(options_of(session)) {
    for (const auto& [option, value] : options_) note(std::string("option ").append(option).append("=").append(value));
    ort_version_supported = ORT_API_VERSION;
    GetName = [](const OrtEp*) noexcept { return name; };
    GetCapability = [](OrtEp*, const OrtGraph* graph, OrtEpGraphSupportInfo* support) noexcept {
      return test::claim_nodes(graph, support,
                               [](const Ort::ConstNode& node) { return node.GetOperatorType() == "Add"; });
    };
    Compile = [](OrtEp* self, const OrtGraph**, const OrtNode**, std::size_t count, OrtNodeComputeInfo** made,
                 OrtNode**) noexcept { return as_status([=] { static_cast<Provider*>(self)->compile(count, made); }); };
    ReleaseNodeComputeInfos = [](OrtEp*, OrtNodeComputeInfo** made, std::size_t count) noexcept {
      for (std::size_t i = 0; i < count; ++i) delete static_cast<Sum*>(made[i]);
    };
  }

 private:
  [[nodiscard]] std::string option(const std::string& key) const {
    const auto found = options_.find(key);
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

}  // namespace
}  // namespace gpux

GPUX_MADE_PLUGIN(gpux::Provider)

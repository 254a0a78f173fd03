#include "plugin/fused_node.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <mutex>

#include "plugin/status.h"

namespace gpux_cpu {

FusedNode::FusedNode() : OrtNodeComputeInfo{} {
  ort_version_supported = ORT_API_VERSION;
  CreateState = create_state;
  Compute = compute_callback;
  ReleaseState = release_state;
}

OrtStatus* ORT_API_CALL FusedNode::create_state(OrtNodeComputeInfo* self, OrtNodeComputeContext* /*context*/,
                                                void** state) noexcept {
  *state = self;
  return nullptr;
}

OrtStatus* ORT_API_CALL FusedNode::compute_callback(OrtNodeComputeInfo* /*self*/, void* state,
                                                    OrtKernelContext* context) noexcept {
  return as_status(
      [state, context] { static_cast<FusedNode*>(static_cast<OrtNodeComputeInfo*>(state))->compute(context); });
}

void ORT_API_CALL FusedNode::release_state(OrtNodeComputeInfo* /*self*/, void* /*state*/) noexcept {}

std::size_t index_of(const std::string& name, const std::vector<Ort::ConstValueInfo>& values) {
  const auto found =
      std::ranges::find_if(values, [&](const Ort::ConstValueInfo& value) { return value.GetName() == name; });
  if (found == values.end()) throw Ort::Exception("the fused node has no '" + name + "'", ORT_EP_FAIL);
  return static_cast<std::size_t>(found - values.begin());
}

const std::int64_t* as_int64(const Ort::ConstValue& value, std::vector<std::int64_t>& scratch) {
  const auto type = value.GetTensorTypeAndShapeInfo();
  if (type.GetElementType() != ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32) return value.GetTensorData<std::int64_t>();
  const auto* const data = value.GetTensorData<std::int32_t>();
  scratch.assign(data, data + type.GetElementCount());
  return scratch.data();
}

ParallelFor session_threads(const OrtKernelContext* context) {
  return [context](std::size_t parts, const std::function<void(std::size_t)>& work) {
    struct Shared {
      const std::function<void(std::size_t)>& work;
      std::mutex mutex;
      std::exception_ptr failure;
    } shared{work, {}, nullptr};

    // Nothing may be thrown through ONNX Runtime's threads.
    const auto run = [](void* data, std::size_t part) noexcept {
      auto& all = *static_cast<Shared*>(data);
      try {
        all.work(part);
      } catch (...) {
        const std::lock_guard lock(all.mutex);
        if (!all.failure) all.failure = std::current_exception();
      }
    };
    Ort::ThrowOnError(Ort::GetApi().KernelContext_ParallelFor(context, run, parts, 0, &shared));
    if (shared.failure) std::rethrow_exception(shared.failure);
  };
}

}  // namespace gpux_cpu

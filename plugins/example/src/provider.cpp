#include "provider.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "boundary.h"
#include "engines.h"
#include "memory.h"
#include "multiply.h"

namespace gpux_example {
namespace {

constexpr std::chrono::milliseconds waiting_step{2};

// Of all sessions of the process, and for good.
std::atomic<bool> device_is_lost{false};

/// What ONNX Runtime keeps of one fused Mul.
class FusedMultiply : public OrtNodeComputeInfo {
 public:
  FusedMultiply(Provider& provider, std::size_t left_input, std::size_t right_input)
      : OrtNodeComputeInfo{}, provider_(provider), left_input_(left_input), right_input_(right_input) {
    ort_version_supported = ORT_API_VERSION;
    CreateState = create_state;
    Compute = compute;
    ReleaseState = release_state;
  }

 private:
  static OrtStatus* ORT_API_CALL create_state(OrtNodeComputeInfo* self, OrtNodeComputeContext* /*context*/,
                                              void** state) noexcept {
    *state = self;
    return nullptr;
  }

  static OrtStatus* ORT_API_CALL compute(OrtNodeComputeInfo* /*self*/, void* state,
                                         OrtKernelContext* context) noexcept {
    return as_status([state, context] {
      const auto* fused = static_cast<FusedMultiply*>(static_cast<OrtNodeComputeInfo*>(state));
      fused->provider_.compute(context, fused->left_input_, fused->right_input_);
    });
  }

  static void ORT_API_CALL release_state(OrtNodeComputeInfo* /*self*/, void* /*state*/) noexcept {}

  Provider& provider_;
  std::size_t left_input_;
  std::size_t right_input_;
};

/// A fused node lists each of its values once, in the order of first use, so positions are found by name.
std::size_t position_of(const std::string& name, const std::vector<Ort::ConstValueInfo>& inputs) {
  const auto found =
      std::ranges::find_if(inputs, [&name](const Ort::ConstValueInfo& input) { return input.GetName() == name; });
  if (found == inputs.end()) throw Ort::Exception("the fused node has no input '" + name + "'", ORT_EP_FAIL);
  return static_cast<std::size_t>(std::distance(inputs.begin(), found));
}

std::unique_ptr<FusedMultiply> fuse(Provider& provider, const OrtGraph* graph, const OrtNode* fused_node) {
  const std::vector<Ort::ConstNode> nodes = Ort::ConstGraph(graph).GetNodes();
  if (nodes.size() != 1) throw Ort::Exception("expected one node in a fused graph", ORT_EP_FAIL);
  const std::vector<Ort::ConstValueInfo> operands = nodes.front().GetInputs();
  const std::vector<Ort::ConstValueInfo> inputs = Ort::ConstNode(fused_node).GetInputs();
  return std::make_unique<FusedMultiply>(provider, position_of(operands.at(0).GetName(), inputs),
                                         position_of(operands.at(1).GetName(), inputs));
}

}  // namespace

Provider::Provider(Failure failure, std::string release_file, std::size_t device)
    : OrtEp{}, failure_(failure), release_file_(std::move(release_file)), device_(device) {
  ort_version_supported = ORT_API_VERSION;
  GetName = get_name;
  GetCapability = get_capability;
  Compile = compile;
  ReleaseNodeComputeInfos = release_compute_infos;
  CreateAllocator = create_allocator;
  SetDynamicOptions = set_dynamic_options;
  if (runs_one_at_a_time()) {
    OnRunStart = on_run_start;
    OnRunEnd = on_run_end;
  }
}

const char* Provider::get_name(const OrtEp* /*self*/) noexcept {
  return provider_name;
}

OrtStatus* Provider::get_capability(OrtEp* self, const OrtGraph* graph, OrtEpGraphSupportInfo* support) noexcept {
  return as_status([=] { static_cast<Provider*>(self)->claim(graph, support); });
}

void Provider::claim(const OrtGraph* graph, OrtEpGraphSupportInfo* support) const {
  if (failure_.kind == Failure::Kind::capability) fail_on_command("capability");
  if (failure_.kind == Failure::Kind::claim_nothing) return;
  for (const Ort::ConstNode& node : Ort::ConstGraph(graph).GetNodes()) {
    if (!can_multiply(node)) continue;
    const OrtNode* claimed = node;
    OrtNodeFusionOptions options{};
    options.ort_version_supported = ORT_API_VERSION;
    Ort::ThrowOnError(Ort::GetEpApi().EpGraphSupportInfo_AddNodesToFuse(support, &claimed, 1, &options));
  }
}

OrtStatus* Provider::compile(OrtEp* self, const OrtGraph** graphs, const OrtNode** fused_nodes, std::size_t count,
                             OrtNodeComputeInfo** compute_infos, OrtNode** /*context_nodes*/) noexcept {
  return as_status([=] {
    auto& provider = *static_cast<Provider*>(self);
    if (provider.failure_.kind == Failure::Kind::compile) fail_on_command("compile");
    if (provider.failure_.kind == Failure::Kind::crash_compile) std::raise(SIGSEGV);
    if (provider.failure_.kind == Failure::Kind::hang_compile) provider.wait_until_released();
    std::vector<std::unique_ptr<FusedMultiply>> fused;
    fused.reserve(count);
    for (std::size_t index = 0; index < count; ++index) {
      fused.push_back(fuse(provider, graphs[index], fused_nodes[index]));
    }
    // Handed over only when all are there: what a failed call leaves in the array is released by nobody.
    for (std::size_t index = 0; index < count; ++index) compute_infos[index] = fused[index].release();
  });
}

void Provider::release_compute_infos(OrtEp* /*self*/, OrtNodeComputeInfo** compute_infos, std::size_t count) noexcept {
  for (std::size_t index = 0; index < count; ++index) delete static_cast<FusedMultiply*>(compute_infos[index]);
}

OrtStatus* Provider::create_allocator(OrtEp* self, const OrtMemoryInfo* memory_info,
                                      OrtAllocator** allocator) noexcept {
  return as_status([=] {
    const Failure& failure = static_cast<Provider*>(self)->failure_;
    const bool limited = failure.kind == Failure::Kind::out_of_memory &&
                         Ort::ConstMemoryInfo(memory_info).GetDeviceMemoryType() == OrtDeviceMemoryType_DEFAULT;
    *allocator = std::make_unique<Allocator>(memory_info, limited ? failure.number : unlimited_memory).release();
  });
}

OrtStatus* Provider::on_run_start(OrtEp* self, const OrtRunOptions* /*options*/) noexcept {
  static_cast<Provider*>(self)->run_.acquire();
  return nullptr;
}

OrtStatus* Provider::on_run_end(OrtEp* self, const OrtRunOptions* /*options*/, bool /*sync_stream*/) noexcept {
  static_cast<Provider*>(self)->run_.release();
  return nullptr;
}

OrtStatus* Provider::set_dynamic_options(OrtEp* self, const char* const* keys, const char* const* values,
                                         std::size_t count) noexcept {
  return as_status([=] {
    for (std::size_t index = 0; index < count; ++index) {
      // ONNX Runtime shows each option to every provider of the session: other keys are for others.
      if (std::string_view(keys[index]) != "cancel") continue;
      const std::string_view value = values[index];
      if (value != "0" && value != "1") {
        throw Ort::Exception("dynamic option 'cancel' is '" + std::string(value) + "'; accepted: 0, 1",
                             ORT_INVALID_ARGUMENT);
      }
      static_cast<Provider*>(self)->cancelled_ = value == "1";
    }
  });
}

void Provider::compute(OrtKernelContext* context, std::size_t left_input, std::size_t right_input) {
  const BusyEngine busy(device_, Engine::compute);
  misbehave();
  busy.wait_for_computation([this] { stop_if_cancelled(); });
  multiply(context, left_input, right_input);
}

void Provider::misbehave() {
  const std::uint64_t computation = ++computations_;
  switch (failure_.kind) {
    case Failure::Kind::run:
      if (computation == failure_.number) fail_on_command("run:" + std::to_string(computation));
      return;
    case Failure::Kind::device_lost:
      if (computation >= failure_.number) device_is_lost = true;
      if (device_is_lost) fail_on_command("device-lost:" + std::to_string(failure_.number) + ": the device is lost");
      return;
    case Failure::Kind::crash:
      if (computation == failure_.number) std::raise(SIGSEGV);
      return;
    case Failure::Kind::hang:
      wait_until_released();
      return;
    case Failure::Kind::slow:
      wait_for_milliseconds(failure_.number);
      return;
    case Failure::Kind::broken:
      if (computation >= failure_.number && !is_released()) fail_on_command("broken:" + std::to_string(computation));
      return;
    default:
      return;
  }
}

bool Provider::is_released() const {
  std::error_code unreadable;
  return !release_file_.empty() && std::filesystem::exists(release_file_, unreadable);
}

void Provider::wait_until_released() const {
  while (!is_released()) {
    stop_if_cancelled();
    std::this_thread::sleep_for(waiting_step);
  }
}

void Provider::wait_for_milliseconds(std::uint64_t milliseconds) const {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  for (auto now = std::chrono::steady_clock::now(); now < end; now = std::chrono::steady_clock::now()) {
    stop_if_cancelled();
    std::this_thread::sleep_for(std::min<std::chrono::steady_clock::duration>(waiting_step, end - now));
  }
}

void Provider::stop_if_cancelled() const {
  if (cancelled_) throw Ort::Exception(std::string(provider_name) + ": computation cancelled", ORT_EP_FAIL);
}

}  // namespace gpux_example

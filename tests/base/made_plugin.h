#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>

#include <onnxruntime_cxx_api.h>

namespace gpux::test {

/// Runs `work` and makes a status of what it throws.
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

/// Lets each of the claimed nodes be a fused node of its own.
template <typename Claims>
OrtStatus* claim_nodes(const OrtGraph* graph, OrtEpGraphSupportInfo* support, const Claims& claims) noexcept {
  return as_status([&] {
    for (const Ort::ConstNode& node : Ort::ConstGraph(graph).GetNodes()) {
      if (!claims(node)) continue;
      const OrtNode* claimed = node;
      OrtNodeFusionOptions fusion{};
      fusion.ort_version_supported = ORT_API_VERSION;
      Ort::ThrowOnError(Ort::GetEpApi().EpGraphSupportInfo_AddNodesToFuse(support, &claimed, 1, &fusion));
    }
  });
}

/// A plugin's factory of execution providers, whose device is the CPU and whose memory is the host's. `Provider` is an
/// OrtEp with a constant `name`, made of a session's options (OrtSessionOptions).
template <typename Provider>
class MadeFactory : public OrtEpFactory {
 public:
  MadeFactory() : OrtEpFactory{} {
    ort_version_supported = ORT_API_VERSION;
    GetName = [](const OrtEpFactory*) noexcept { return Provider::name; };
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
        *provider = std::make_unique<Provider>(session).release();
      });
    };
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

}  // namespace gpux::test

/// The entry points of a plugin with one such factory.
#define GPUX_MADE_PLUGIN(Provider)                                                                                \
  extern "C" __attribute__((visibility("default"))) OrtStatus* CreateEpFactories(                                 \
      const char*, const OrtApiBase* base, const OrtLogger*, OrtEpFactory** factories, std::size_t,               \
      std::size_t* count) noexcept {                                                                              \
    Ort::InitApi(base->GetApi(ORT_API_VERSION));                                                                  \
    return gpux::test::as_status([=] {                                                                            \
      factories[0] = std::make_unique<gpux::test::MadeFactory<Provider>>().release();                             \
      *count = 1;                                                                                                 \
    });                                                                                                           \
  }                                                                                                               \
  extern "C" __attribute__((visibility("default"))) OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) noexcept { \
    delete static_cast<gpux::test::MadeFactory<Provider>*>(factory);                                              \
    return nullptr;                                                                                               \
  }

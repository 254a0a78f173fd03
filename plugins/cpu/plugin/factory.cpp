#include <cstddef>
#include <memory>
#include <string>

#include <onnxruntime_cxx_api.h>

#include "plugin/provider_description.h"
#include "plugin/session_settings.h"
#include "plugin/status.h"

namespace gpux_cpu {
namespace {

class Factory : public OrtEpFactory {
 public:
  Factory() : OrtEpFactory{} {
    ort_version_supported = ORT_API_VERSION;
    GetName = get_name;
    GetVendor = get_vendor;
    GetVersion = get_version;
    GetSupportedDevices = get_supported_devices;
    CreateEp = create_provider;
    ReleaseEp = release_provider;
    CreateDataTransfer = create_data_transfer;
  }

 private:
  static const char* ORT_API_CALL get_name(const OrtEpFactory* /*self*/) noexcept {
    return provider_description().name;
  }

  static const char* ORT_API_CALL get_vendor(const OrtEpFactory* /*self*/) noexcept { return "gpux"; }

  static const char* ORT_API_CALL get_version(const OrtEpFactory* /*self*/) noexcept {
    return provider_description().version;
  }

  static OrtStatus* ORT_API_CALL get_supported_devices(OrtEpFactory* self, const OrtHardwareDevice* const* devices,
                                                       std::size_t device_count, OrtEpDevice** supported,
                                                       std::size_t capacity, std::size_t* supported_count) noexcept {
    return as_status([=] {
      *supported_count = 0;
      for (std::size_t index = 0; index < device_count && *supported_count == 0 && capacity > 0; ++index) {
        Ort::ConstHardwareDevice device(devices[index]);
        if (device.Type() != OrtHardwareDeviceType_CPU) continue;
        Ort::KeyValuePairs metadata, options;
        metadata.Add("isa", std::string(provider_description().instruction_set()).c_str());
        options.Add("precision", "");
        supported[0] = Ort::EpDevice(*self, device, metadata.GetConst(), options.GetConst()).release();
        *supported_count = 1;
      }
    });
  }

  static OrtStatus* ORT_API_CALL create_provider(OrtEpFactory* /*self*/, const OrtHardwareDevice* const* /*devices*/,
                                                 const OrtKeyValuePairs* const* /*metadata*/, std::size_t device_count,
                                                 const OrtSessionOptions* options, const OrtLogger* logger,
                                                 OrtEp** provider) noexcept {
    return as_status([=] {
      *provider = nullptr;
      if (device_count != 1) throw Ort::Exception("expected one device", ORT_INVALID_ARGUMENT);
      *provider = provider_description().make(session_settings(options), options, logger).release();
    });
  }

  static void ORT_API_CALL release_provider(OrtEpFactory* /*self*/, OrtEp* provider) noexcept {
    delete static_cast<FusedProvider*>(provider);
  }

  static OrtStatus* ORT_API_CALL create_data_transfer(OrtEpFactory* /*self*/, OrtDataTransferImpl** transfer) noexcept {
    // Works in the host's own memory: there is nothing to copy.
    *transfer = nullptr;
    return nullptr;
  }
};

}  // namespace
}  // namespace gpux_cpu

extern "C" {

__attribute__((visibility("default"))) OrtStatus* CreateEpFactories(const char* /*registered_name*/,
                                                                    const OrtApiBase* api_base,
                                                                    const OrtLogger* /*logger*/,
                                                                    OrtEpFactory** factories, std::size_t capacity,
                                                                    std::size_t* factory_count) noexcept {
  const gpux_cpu::ProviderDescription& description = gpux_cpu::provider_description();
  const OrtApi* api = api_base->GetApi(ORT_API_VERSION);
  if (api == nullptr) {
    // The first version of the interface is in every ONNX Runtime and can at least carry the message.
    const std::string message =
        std::string(description.name) + " needs ONNX Runtime 1.23 or newer (its interface is too old)";
    return api_base->GetApi(1)->CreateStatus(ORT_FAIL, message.c_str());
  }
  Ort::InitApi(api);
  return gpux_cpu::as_status([&] {
    *factory_count = 0;
    // So that a wrong environment variable is reported at once.
    (void)description.instruction_set();
    if (capacity < 1) throw Ort::Exception("no room for a factory", ORT_INVALID_ARGUMENT);
    factories[0] = std::make_unique<gpux_cpu::Factory>().release();
    *factory_count = 1;
  });
}

__attribute__((visibility("default"))) OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) noexcept {
  delete static_cast<gpux_cpu::Factory*>(factory);
  return nullptr;
}

}  // extern "C"

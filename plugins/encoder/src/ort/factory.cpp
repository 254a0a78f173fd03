#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <onnxruntime_cxx_api.h>

#include "kernels/kernels.h"
#include "ort/context.h"
#include "ort/provider.h"
#include "ort/session_threads.h"
#include "ort/status.h"

namespace gpux_encoder {
namespace {

/// Session configuration holds the provider's options under its name in lower case.
constexpr std::string_view option_prefix = "ep.gpuxencoderexecutionprovider.";
constexpr const char* precision_option = "precision";

/// Throws Ort::Exception for an option that this provider does not know, or a value that it has not.
std::optional<Precision> precision_of_session(const OrtSessionOptions* options) {
  OrtKeyValuePairs* entries = nullptr;
  Ort::ThrowOnError(Ort::GetApi().GetSessionOptionsConfigEntries(options, &entries));
  std::string precision;
  for (const auto& [key, value] : Ort::KeyValuePairs(entries).GetKeyValuePairs()) {
    if (!key.starts_with(option_prefix)) continue;
    const std::string option = key.substr(option_prefix.size());
    if (option != precision_option) {
      throw Ort::Exception(std::string(provider_name) + " knows no option '" + option + "'; accepted: precision",
                           ORT_INVALID_ARGUMENT);
    }
    precision = value;
  }
  if (precision.empty()) return std::nullopt;
  const auto name = std::ranges::find(precision_names, precision);
  if (name != precision_names.end()) return static_cast<Precision>(name - precision_names.begin());
  throw Ort::Exception("option 'precision' is '" + precision + "'; accepted: fp32, bf16, int8, int8-bf16",
                       ORT_INVALID_ARGUMENT);
}

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
  static const char* ORT_API_CALL get_name(const OrtEpFactory* /*self*/) noexcept { return provider_name; }

  static const char* ORT_API_CALL get_vendor(const OrtEpFactory* /*self*/) noexcept { return "gpux"; }

  static const char* ORT_API_CALL get_version(const OrtEpFactory* /*self*/) noexcept { return ENCODER_VERSION; }

  static OrtStatus* ORT_API_CALL get_supported_devices(OrtEpFactory* self, const OrtHardwareDevice* const* devices,
                                                       std::size_t device_count, OrtEpDevice** supported,
                                                       std::size_t capacity, std::size_t* supported_count) noexcept {
    return as_status([=] {
      *supported_count = 0;
      for (std::size_t index = 0; index < device_count && *supported_count == 0 && capacity > 0; ++index) {
        Ort::ConstHardwareDevice device(devices[index]);
        if (device.Type() != OrtHardwareDeviceType_CPU) continue;
        Ort::KeyValuePairs metadata, options;
        metadata.Add("isa", std::string(kernels().name).c_str());
        options.Add(precision_option, "");
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
      *provider = std::make_unique<Provider>(precision_of_session(options), context_options(options),
                                             session_threads(options), logger)
                      .release();
    });
  }

  static void ORT_API_CALL release_provider(OrtEpFactory* /*self*/, OrtEp* provider) noexcept {
    delete static_cast<Provider*>(provider);
  }

  static OrtStatus* ORT_API_CALL create_data_transfer(OrtEpFactory* /*self*/, OrtDataTransferImpl** transfer) noexcept {
    // Works in the host's own memory: there is nothing to copy.
    *transfer = nullptr;
    return nullptr;
  }
};

}  // namespace
}  // namespace gpux_encoder

extern "C" {

__attribute__((visibility("default"))) OrtStatus* CreateEpFactories(const char* /*registered_name*/,
                                                                    const OrtApiBase* api_base,
                                                                    const OrtLogger* /*logger*/,
                                                                    OrtEpFactory** factories, std::size_t capacity,
                                                                    std::size_t* factory_count) noexcept {
  const OrtApi* api = api_base->GetApi(ORT_API_VERSION);
  if (api == nullptr) {
    // The first version of the interface is in every ONNX Runtime and can at least carry the message.
    return api_base->GetApi(1)->CreateStatus(
        ORT_FAIL, "GpuxEncoderExecutionProvider needs ONNX Runtime 1.23 or newer (its interface is too old)");
  }
  Ort::InitApi(api);
  return gpux_encoder::as_status([=] {
    *factory_count = 0;
    (void)gpux_encoder::kernels();  // so that a wrong GPUX_ENCODER_ISA is told at once
    if (capacity < 1) throw Ort::Exception("no room for a factory", ORT_INVALID_ARGUMENT);
    factories[0] = std::make_unique<gpux_encoder::Factory>().release();
    *factory_count = 1;
  });
}

__attribute__((visibility("default"))) OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) noexcept {
  delete static_cast<gpux_encoder::Factory*>(factory);
  return nullptr;
}

}  // extern "C"

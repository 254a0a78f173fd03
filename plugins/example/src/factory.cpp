#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <onnxruntime_cxx_api.h>

#include "boundary.h"
#include "copy_counts.h"
#include "engines.h"
#include "failure.h"
#include "memory.h"
#include "provider.h"

namespace gpux_example {
namespace {

/// Session configuration holds the provider's options under its name in lower case.
constexpr std::string_view option_prefix = "ep.gpuxexampleexecutionprovider.";
constexpr const char* fail_option = "fail";

constexpr const char* device_key = "device";  ///< of a device's metadata: its number, where there are several

std::size_t device_number(const OrtKeyValuePairs* metadata) {
  if (metadata == nullptr) return 0;
  const char* number = Ort::GetApi().GetKeyValue(metadata, device_key);
  return number == nullptr ? 0 : std::strtoul(number, nullptr, 10);
}

/// The failure that the session's options ask for, or else the environment. Throws Ort::Exception for an option that
/// this provider does not know, or a failure that lies before any option is read.
Failure failure_of_session(const OrtSessionOptions* options, std::size_t device) {
  OrtKeyValuePairs* entries = nullptr;
  Ort::ThrowOnError(Ort::GetApi().GetSessionOptionsConfigEntries(options, &entries));
  std::string command;
  for (const auto& [key, value] : Ort::KeyValuePairs(entries).GetKeyValuePairs()) {
    if (!key.starts_with(option_prefix)) continue;
    const std::string option = key.substr(option_prefix.size());
    if (option != fail_option) {
      throw Ort::Exception(std::string(provider_name) + " knows no option '" + option + "'; accepted: fail",
                           ORT_INVALID_ARGUMENT);
    }
    command = value;
  }
  if (command.empty()) return failure_from_environment(device);
  const Failure failure = parse_failure(command, "option 'fail'", device);
  using Kind = Failure::Kind;
  if (failure.kind == Kind::load || failure.kind == Kind::no_device || failure.kind == Kind::crash_load) {
    throw Ort::Exception(
        "option 'fail': '" + command +
            "' happens before options are read; set GPUX_EXAMPLE_FAIL before the library is registered",
        ORT_INVALID_ARGUMENT);
  }
  return failure;
}

std::string release_file_from_environment() {
  const char* file = std::getenv("GPUX_EXAMPLE_RELEASE");
  return file == nullptr ? "" : file;
}

/// Unless the environment variable GPUX_EXAMPLE_PINNED is "off".
bool has_pinned_memory() {
  const char* const given = std::getenv("GPUX_EXAMPLE_PINNED");
  const std::string_view text = given == nullptr ? "" : given;
  if (text.empty() || text == "on") return true;
  if (text == "off") return false;
  throw Ort::Exception("GPUX_EXAMPLE_PINNED is '" + std::string(text) + "'; accepted: on, off", ORT_INVALID_ARGUMENT);
}

constexpr std::size_t max_devices = 8;

/// How many devices the environment variable GPUX_EXAMPLE_DEVICES asks for. Throws Ort::Exception for what is no
/// number.
std::size_t device_count_from_environment() {
  const char* given = std::getenv("GPUX_EXAMPLE_DEVICES");
  const std::string_view text = given == nullptr ? "" : given;
  if (text.empty()) return 1;
  std::size_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc{} || end != text.data() + text.size() || count < 1 || count > max_devices) {
    throw Ort::Exception("GPUX_EXAMPLE_DEVICES is '" + std::string(text) + "'; accepted: 1 to 8", ORT_INVALID_ARGUMENT);
  }
  return count;
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
    GetVendorId = get_vendor_id;
    CreateAllocator = create_allocator;
    ReleaseAllocator = release_allocator;
    CreateDataTransfer = create_data_transfer;
    for (std::size_t device = 0; device < max_devices; ++device) {
      memories_.push_back(describe_memory(device));
      pinned_memories_.push_back(describe_pinned_memory(device));
    }
  }

 private:
  static const char* ORT_API_CALL get_name(const OrtEpFactory* /*self*/) noexcept { return provider_name; }

  static const char* ORT_API_CALL get_vendor(const OrtEpFactory* /*self*/) noexcept { return "gpux"; }

  static const char* ORT_API_CALL get_version(const OrtEpFactory* /*self*/) noexcept { return EXAMPLE_VERSION; }

  static std::uint32_t ORT_API_CALL get_vendor_id(const OrtEpFactory* /*self*/) noexcept { return vendor_id; }

  static OrtStatus* ORT_API_CALL get_supported_devices(OrtEpFactory* self, const OrtHardwareDevice* const* devices,
                                                       std::size_t device_count, OrtEpDevice** supported,
                                                       std::size_t room, std::size_t* supported_count) noexcept {
    return as_status([=] {
      *supported_count = 0;
      if (failure_from_environment().kind == Failure::Kind::no_device) return;
      Ort::KeyValuePairs options;
      options.Add(fail_option, "");
      const std::size_t wanted = std::min(device_count_from_environment(), room);
      for (std::size_t index = 0; index < device_count && *supported_count == 0; ++index) {
        Ort::ConstHardwareDevice device(devices[index]);
        if (device.Type() != OrtHardwareDeviceType_CPU) continue;
        for (; *supported_count < wanted; ++*supported_count) {
          Ort::KeyValuePairs metadata;
          const std::string number = std::to_string(*supported_count);
          if (wanted > 1) metadata.Add("name", ("example device " + number).c_str());
          if (wanted > 1) metadata.Add(device_key, number.c_str());
          Ort::EpDevice listed(*self, device, metadata.GetConst(), options.GetConst());
          const Ort::MemoryInfo& memory = static_cast<Factory*>(self)->memories_[*supported_count];
          Ort::ThrowOnError(Ort::GetEpApi().EpDevice_AddAllocatorInfo(listed, memory));
          if (has_pinned_memory()) {
            const Ort::MemoryInfo& pinned = static_cast<Factory*>(self)->pinned_memories_[*supported_count];
            Ort::ThrowOnError(Ort::GetEpApi().EpDevice_AddAllocatorInfo(listed, pinned));
          }
          supported[*supported_count] = listed.release();
        }
      }
    });
  }

  static OrtStatus* ORT_API_CALL create_provider(OrtEpFactory* /*self*/, const OrtHardwareDevice* const* /*devices*/,
                                                 const OrtKeyValuePairs* const* metadata, std::size_t device_count,
                                                 const OrtSessionOptions* options, const OrtLogger* /*logger*/,
                                                 OrtEp** provider) noexcept {
    return as_status([=] {
      *provider = nullptr;
      if (device_count != 1) throw Ort::Exception("expected one device", ORT_INVALID_ARGUMENT);
      const std::size_t device = device_number(metadata[0]);
      const Failure failure = failure_of_session(options, device);
      if (failure.kind == Failure::Kind::create) fail_on_command("create");
      if (failure.kind == Failure::Kind::crash_create) std::raise(SIGSEGV);
      *provider = std::make_unique<Provider>(failure, release_file_from_environment(), device).release();
    });
  }

  static void ORT_API_CALL release_provider(OrtEpFactory* /*self*/, OrtEp* provider) noexcept {
    delete static_cast<Provider*>(provider);
    write_copy_counts();
  }

  /// What the host uses outside of sessions. A session's own allocator, with its own limit, comes from its provider.
  static OrtStatus* ORT_API_CALL create_allocator(OrtEpFactory* /*self*/, const OrtMemoryInfo* memory_info,
                                                  const OrtKeyValuePairs* /*options*/,
                                                  OrtAllocator** allocator) noexcept {
    return as_status([=] { *allocator = std::make_unique<Allocator>(memory_info, unlimited_memory).release(); });
  }

  static void ORT_API_CALL release_allocator(OrtEpFactory* /*self*/, OrtAllocator* allocator) noexcept {
    delete static_cast<Allocator*>(allocator);
  }

  static OrtStatus* ORT_API_CALL create_data_transfer(OrtEpFactory* /*self*/, OrtDataTransferImpl** transfer) noexcept {
    return as_status([=] { *transfer = std::make_unique<DataTransfer>().release(); });
  }

  std::vector<Ort::MemoryInfo> memories_, pinned_memories_;
};

}  // namespace
}  // namespace gpux_example

extern "C" {

__attribute__((visibility("default"))) OrtStatus* CreateEpFactories(const char* /*registered_name*/,
                                                                    const OrtApiBase* api_base,
                                                                    const OrtLogger* /*logger*/,
                                                                    OrtEpFactory** factories, std::size_t room,
                                                                    std::size_t* factory_count) noexcept {
  const OrtApi* api = api_base->GetApi(ORT_API_VERSION);
  if (api == nullptr) {
    // The first version of the interface is in every ONNX Runtime and can at least carry the message.
    return api_base->GetApi(1)->CreateStatus(
        ORT_FAIL, "GpuxExampleExecutionProvider needs ONNX Runtime 1.23 or newer (its interface is too old)");
  }
  Ort::InitApi(api);
  return gpux_example::as_status([=] {
    *factory_count = 0;
    const gpux_example::Failure::Kind failure = gpux_example::failure_from_environment().kind;
    if (failure == gpux_example::Failure::Kind::load) gpux_example::fail_on_command("load");
    if (failure == gpux_example::Failure::Kind::crash_load) std::raise(SIGSEGV);
    // So that a wrong one is an error at once.
    (void)gpux_example::device_count_from_environment();
    (void)gpux_example::speed_from_environment();
    (void)gpux_example::has_pinned_memory();
    (void)gpux_example::runs_one_at_a_time();
    if (room < 1) throw Ort::Exception("no room for a factory", ORT_INVALID_ARGUMENT);
    factories[0] = std::make_unique<gpux_example::Factory>().release();
    *factory_count = 1;
  });
}

__attribute__((visibility("default"))) OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) noexcept {
  delete static_cast<gpux_example::Factory*>(factory);
  return nullptr;
}

/// For hosts that count copies, found by its name: fills in copy_counts(). Any thread may call.
__attribute__((visibility("default"))) void GpuxExampleCopies(std::uint64_t* counts) noexcept {
  const gpux_example::CopyCounts all = gpux_example::copy_counts();
  std::ranges::copy(all, counts);
}

}  // extern "C"

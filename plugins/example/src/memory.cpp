#include "memory.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

#include "boundary.h"
#include "copy_counts.h"
#include "engines.h"
#include "provider.h"

namespace gpux_example {
namespace {

constexpr OrtMemoryInfoDeviceType device_type = OrtMemoryInfoDeviceType_NPU;
constexpr std::size_t alignment = 64;

/// Stands before each block, in a space that keeps the block aligned.
struct Header {
  std::size_t bytes;
};

static_assert(sizeof(Header) <= alignment);

bool is_own(const OrtMemoryDevice* memory, OrtDeviceMemoryType type) {
  const OrtEpApi& api = Ort::GetEpApi();
  return api.MemoryDevice_GetDeviceType(memory) == device_type && api.MemoryDevice_GetVendorId(memory) == vendor_id &&
         api.MemoryDevice_GetMemoryType(memory) == type;
}

bool is_device(const OrtMemoryDevice* memory) {
  return is_own(memory, OrtDeviceMemoryType_DEFAULT);
}

bool is_pinned(const OrtMemoryDevice* memory) {
  return is_own(memory, OrtDeviceMemoryType_HOST_ACCESSIBLE);
}

bool is_host(const OrtMemoryDevice* memory) {
  return Ort::GetEpApi().MemoryDevice_GetDeviceType(memory) == OrtMemoryInfoDeviceType_CPU || is_pinned(memory);
}

Ort::MemoryInfo describe(const char* name, std::size_t device, OrtDeviceMemoryType type) {
  return {name, device_type, vendor_id, static_cast<std::uint32_t>(device), type, alignment, OrtDeviceAllocator};
}

void copy(const OrtValue* from, OrtValue* to) {
  const Ort::ConstValue source(from);
  const Ort::UnownedValue target(to);
  const std::size_t bytes = source.GetTensorSizeInBytes();
  if (target.GetTensorSizeInBytes() != bytes) throw Ort::Exception("copy between two sizes", ORT_INVALID_ARGUMENT);
  if (bytes == 0) return;
  const auto* in = static_cast<const unsigned char*>(source.GetTensorRawData());
  auto* out = static_cast<unsigned char*>(const_cast<void*>(target.GetTensorRawData()));
  // ONNX Runtime hands on what an allocator could not give.
  if (in == nullptr || out == nullptr) fail_for_memory(bytes);
  const bool from_device = is_on_device(from);
  const OrtMemoryDevice* const device = Ort::GetEpApi().Value_GetMemoryDevice(from_device ? from : to);
  const OrtMemoryDevice* const host = Ort::GetEpApi().Value_GetMemoryDevice(from_device ? to : from);
  if (from_device == is_on_device(to)) {
    count_copy(CopyDirection::between_devices, bytes, false);
    std::memcpy(out, in, bytes);
  } else {
    const BusyEngine busy(Ort::GetEpApi().MemoryDevice_GetDeviceId(device),
                          from_device ? Engine::copy_out : Engine::copy_in);
    count_copy(from_device ? CopyDirection::from_device : CopyDirection::to_device, bytes, is_pinned(host));
    busy.wait_for_bytes(bytes);
    std::transform(in, in + bytes, out, [](unsigned char byte) { return static_cast<unsigned char>(~byte); });
  }
}

}  // namespace

Ort::MemoryInfo describe_memory(std::size_t device) {
  return describe("gpux example device", device, OrtDeviceMemoryType_DEFAULT);
}

Ort::MemoryInfo describe_pinned_memory(std::size_t device) {
  return describe("gpux example pinned", device, OrtDeviceMemoryType_HOST_ACCESSIBLE);
}

bool is_on_device(const OrtValue* value) {
  return is_device(Ort::GetEpApi().Value_GetMemoryDevice(value));
}

void fail_for_memory(std::size_t bytes) {
  throw Ort::Exception(
      std::string(provider_name) + ": out of memory: the device has no room for " + std::to_string(bytes) + " bytes",
      ORT_EP_FAIL);
}

Allocator::Allocator(const OrtMemoryInfo* info, std::size_t limit_bytes)
    : OrtAllocator{},
      info_(info),
      is_pinned_(Ort::ConstMemoryInfo(info).GetDeviceMemoryType() == OrtDeviceMemoryType_HOST_ACCESSIBLE),
      limit_bytes_(limit_bytes) {
  version = ORT_API_VERSION;
  Alloc = allocate;
  Free = free;
  Info = Allocator::info;
}

void* Allocator::allocate(OrtAllocator* self, std::size_t size) noexcept {
  auto& memory = *static_cast<Allocator*>(self);
  if (size == 0) return nullptr;
  std::size_t used = memory.used_bytes_;
  do {
    if (size > memory.limit_bytes_ - used) return nullptr;
  } while (!memory.used_bytes_.compare_exchange_weak(used, used + size));
  auto* block = static_cast<std::byte*>(::operator new(alignment + size, std::align_val_t(alignment), std::nothrow));
  if (block == nullptr) {
    memory.used_bytes_ -= size;
    return nullptr;
  }
  new (block) Header{size};
  count_allocation(size, memory.is_pinned_);
  return block + alignment;
}

void Allocator::free(OrtAllocator* self, void* address) noexcept {
  if (address == nullptr) return;
  std::byte* block = static_cast<std::byte*>(address) - alignment;
  static_cast<Allocator*>(self)->used_bytes_ -= reinterpret_cast<const Header*>(block)->bytes;
  ::operator delete(block, std::align_val_t(alignment));
}

const OrtMemoryInfo* Allocator::info(const OrtAllocator* self) noexcept {
  return static_cast<const Allocator*>(self)->info_;
}

DataTransfer::DataTransfer() : OrtDataTransferImpl{} {
  ort_version_supported = ORT_API_VERSION;
  Release = release;
  CanCopy = can_copy;
  CopyTensors = copy_tensors;
}

void DataTransfer::release(OrtDataTransferImpl* self) noexcept {
  delete static_cast<DataTransfer*>(self);
}

bool DataTransfer::can_copy(const OrtDataTransferImpl* /*self*/, const OrtMemoryDevice* from,
                            const OrtMemoryDevice* to) noexcept {
  return (is_device(from) && (is_device(to) || is_host(to))) || (is_host(from) && is_device(to));
}

OrtStatus* DataTransfer::copy_tensors(OrtDataTransferImpl* /*self*/, const OrtValue** from, OrtValue** to,
                                      OrtSyncStream** /*streams*/, std::size_t count) noexcept {
  return as_status([=] {
    for (std::size_t index = 0; index < count; ++index) copy(from[index], to[index]);
  });
}

}  // namespace gpux_example

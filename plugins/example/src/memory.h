#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <onnxruntime_cxx_api.h>

namespace gpux_example {

/// The number that tells this maker's memory from others'.
inline constexpr std::uint32_t vendor_id = 0x67707578;
inline constexpr std::size_t unlimited_memory = std::numeric_limits<std::size_t>::max();

/// Simulated device memory is host memory in which every bit is inverted: reading or writing it without a copy by
/// DataTransfer, as if it were host memory, gives wrong numbers.
inline float load(const float* device_address) {
  return std::bit_cast<float>(~std::bit_cast<std::uint32_t>(*device_address));
}

inline void store(float value, float* device_address) {
  *device_address = std::bit_cast<float>(~std::bit_cast<std::uint32_t>(value));
}

/// Describes the memory of the device of this number (from 0).
Ort::MemoryInfo describe_memory(std::size_t device);

/// Describes the host memory that this device copies from and to, as pinned memory of a GPU. Nothing is inverted in it.
Ort::MemoryInfo describe_pinned_memory(std::size_t device);

/// Whether the value is in the memory of one of this provider's devices.
bool is_on_device(const OrtValue* value);

/// Throws Ort::Exception: the device has no memory for so many bytes.
[[noreturn]] void fail_for_memory(std::size_t bytes);

/// Gives out pretended device memory or pinned memory, `limit_bytes` at most at a time; null beyond. ONNX Runtime calls
/// it from several threads at once.
class Allocator : public OrtAllocator {
 public:
  /// `info` describes the memory and outlives the allocator.
  Allocator(const OrtMemoryInfo* info, std::size_t limit_bytes);
  ~Allocator() = default;
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

 private:
  static void* ORT_API_CALL allocate(OrtAllocator* self, std::size_t size) noexcept;
  static void ORT_API_CALL free(OrtAllocator* self, void* address) noexcept;
  static const OrtMemoryInfo* ORT_API_CALL info(const OrtAllocator* self) noexcept;

  const OrtMemoryInfo* info_;
  bool is_pinned_;
  std::size_t limit_bytes_;
  std::atomic<std::size_t> used_bytes_{0};
};

/// Copies tensors between the host and the devices, and between devices. Has no state: any thread may call.
class DataTransfer : public OrtDataTransferImpl {
 public:
  DataTransfer();

 private:
  static void ORT_API_CALL release(OrtDataTransferImpl* self) noexcept;
  static bool ORT_API_CALL can_copy(const OrtDataTransferImpl* self, const OrtMemoryDevice* from,
                                    const OrtMemoryDevice* to) noexcept;
  static OrtStatus* ORT_API_CALL copy_tensors(OrtDataTransferImpl* self, const OrtValue** from, OrtValue** to,
                                              OrtSyncStream** streams, std::size_t count) noexcept;
};

}  // namespace gpux_example

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gpux/device_tensor.h"
#include "gpux/tensor.h"
#include "ort/api.h"
#include "ort/block_pool.h"

namespace gpux::ort {

/// Copies of a session's values so far. Any thread may call.
class CopyCounters {
 public:
  void count_to_device(std::size_t bytes, bool is_pinned = false) noexcept;
  void count_from_device(std::size_t bytes, bool is_pinned = false) noexcept;
  [[nodiscard]] TransferCounts counts() const noexcept;

 private:
  std::array<std::atomic<std::uint64_t>, 6> counts_{};
};

/// A value of ONNX Runtime, and the block of a pool that it is in; null: its memory is its own.
struct StagedValue {
  std::shared_ptr<std::byte> block;  // before the value, which refers to it
  Ort::Value value{nullptr};
};

/// Copies a session's values to and from its device outside of runs, by way of pinned host memory, in memory that is
/// used again. Any thread may call. Must not outlive the session.
class Staging {
 public:
  /// Tensors below this go to and from the device without pinned memory: drivers copy them to memory of their own at
  /// once (CUDA does up to 64 KiB), and the run need not wait.
  static constexpr std::size_t min_pinned_bytes = std::size_t{64} * 1024;

  /// `pinned`: memory of the host for copies to and from `device`, with its allocator of the environment. Both infos
  /// must outlive this.
  Staging(Ort::Session& session, const Ort::ConstMemoryInfo& device, const Ort::ConstMemoryInfo& pinned,
          OrtAllocator* pinned_allocator);

  /// A tensor of the device; without a value where it has no memory, or the tensor no bytes.
  [[nodiscard]] StagedValue device_value(ElementType type, const Shape& shape) const;

  /// Frees the memory of the device that is kept for later runs; false: there is none.
  bool free_kept() const noexcept { return device_pool_->free_kept(); }

  /// The tensors, none of strings, on the device. One without a value had no memory there. Throws Ort::Exception.
  [[nodiscard]] std::vector<StagedValue> copy_in(std::span<const Tensor* const> tensors, CopyCounters& counters) const;

  /// The tensors of the device on the host. Throws Ort::Exception.
  [[nodiscard]] std::vector<Tensor> copy_out(std::span<const OrtValue* const> values, CopyCounters& counters) const;

 private:
  [[nodiscard]] std::shared_ptr<std::byte> pinned_block(std::size_t bytes) const;

  Ort::ConstMemoryInfo device_, pinned_;
  std::shared_ptr<BlockPool> device_pool_, pinned_pool_;
};

}  // namespace gpux::ort

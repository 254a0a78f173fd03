#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "generation/key_value_cache.h"
#include "gpux/device_tensor.h"
#include "gpux/runtime.h"
#include "runtime/scheduling/session_replica.h"

namespace gpux::generation {

/// Keys and values of several rows on a device: of each array of a CacheLayout [rows, heads, capacity, head_size].
using DeviceArrays = std::vector<DeviceTensor>;

/// Copies rows of keys and values on a device, by models of its own (Gather and Concat) on the provider that runs the
/// decoder: a provider's memory has no addresses that gpux could count with. Where the provider does not take these
/// operators, the copies go by way of the host. Not thread-safe.
class CacheMover {
 public:
  /// `options`: what loads a model onto the device. Errors of Runtime's constructor; storage.
  CacheMover(const CacheLayout& layout, const LoadOptions& options);

  /// New arrays of `rows.size()` rows with `capacity` positions: rows of one or two sources, by number, those of the
  /// second behind those of the first. What is beyond a source's positions repeats its last. Errors of
  /// Runtime::infer().
  [[nodiscard]] DeviceArrays gather(std::span<const DeviceArrays* const> sources, std::span<const std::size_t> rows,
                                    std::size_t capacity);

 private:
  /// A model that is loaded, and runs in it.
  struct Model {
    Model(const std::filesystem::path& file, const LoadOptions& options) : runtime(file, options), session(runtime) {}

    Runtime runtime;
    runtime::SessionReplica session;
  };

  std::vector<std::unique_ptr<Model>> models_;  // for one source, and for two
};

}  // namespace gpux::generation

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/machine.h"
#include "gpux/verdict.h"
#include "provider/options.h"
#include "provider/table.h"

namespace gpux::provider {

/// All that an engine, the code that a provider compiles for a model, is made for.
struct EngineKey {
  std::string provider;       ///< id
  std::string model;          ///< digest of the model
  std::string version;        ///< version of the provider's library and its ONNX Runtime
  std::string driver;         ///< driver of the device; empty: not known, or none
  std::string device;         ///< name
  std::string architecture;   ///< compute capability, "sm_90"
  std::string options;        ///< as passed to the provider, without those of the cache
  std::string shape_profile;  ///< the shapes that it is compiled for, as passed

  bool operator==(const EngineKey&) const = default;
};

/// The name of the key's folder: hexadecimal digits. Pure.
std::string folder_name(const EngineKey& key);

/// "the driver changed from 570.1 to 580.2": what differs, as the reason to compile again. Empty where nothing does.
/// Pure.
std::string difference(const EngineKey& kept, const EngineKey& wanted);

/// The key of a session on the provider with these options. `model`: its digest; `library` and `core`: of the provider,
/// with versions. Pure.
EngineKey engine_key(const ProviderRow& row, const std::string& model, const std::string& version,
                     const ResolvedOptions& options, const std::optional<Device>& device);

/// What compiles, as a part of a key: the ONNX Runtime's version, and the provider's library and `compilers` by name,
/// size and time of change. The version alone where there are no such files.
std::string compiled_by(const std::string& core_version, const std::filesystem::path& library,
                        std::span<const std::filesystem::path> compilers = {});

/// The row's compilers that this process has loaded, where links lead to, sorted. A provider that was confirmed has
/// them loaded.
std::vector<std::filesystem::path> loaded_compilers(const ProviderRow& row);

/// The value of --cache-dir for the folder that gpux makes, also for providers for which it makes none by itself.
inline constexpr std::string_view own_engine_folder = "auto";

/// Whether the provider keeps engines in a folder that it is told. Pure.
bool can_keep_engines(const ProviderRow& row);

/// Whether it starts sooner with an engine that was kept. OpenVINO compiles for a processor in less time than it takes
/// to read one. Pure.
bool gains_by_engines(const ProviderRow& row, const std::optional<Device>& device);

/// Whether it can, and what the user `given` it leaves it to gpux to tell a folder. Pure.
bool takes_engine_folder(const ProviderRow& row, bool as_plugin, const OptionList& given);

/// Whether the option is one that only says where and how engines are kept.
bool is_cache_option(std::string_view name);

/// A folder of the cache, for one key.
struct EngineFolder {
  std::filesystem::path path;  ///< empty: none could be made
  bool is_warm = false;        ///< something was compiled there before
  std::string reason;          ///< why it is compiled again, though it was for another key; may be empty
};

/// Engines in $GPUX_HOME/cache/engines/PROVIDER/KEY, each with a record of its key. Any number of processes may use one
/// at a time.
class EngineCache {
 public:
  /// `limit_bytes`: of all engines together.
  EngineCache(std::filesystem::path root, std::uint64_t limit_bytes) : root_(std::move(root)), limit_(limit_bytes) {}

  /// The cache of the machine; empty where GPUX_ENGINE_CACHE_SIZE is 0. Error usage where that is no size.
  static std::optional<EngineCache> of(const Machine& machine);

  /// The key's folder, made if need be. Before one is made, the engines that were not used for the longest time go,
  /// until the others fit the limit; never one that was used in the last ten minutes. Nothing is thrown: without a
  /// folder the provider compiles as it would without a cache.
  [[nodiscard]] EngineFolder open(const EngineKey& key) const;

 private:
  std::filesystem::path root_;
  std::uint64_t limit_;
};

/// Removes what was compiled into a folder of the cache; the record stays.
void discard_engines(const std::filesystem::path& folder);

/// Digest of the content of a model's files, of which the first is the ONNX file. Each is read once by a process.
/// Errors of reading.
std::string model_digest(std::span<const std::filesystem::path> files);

}  // namespace gpux::provider

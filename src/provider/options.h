#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gpux/verdict.h"
#include "provider/shape_profile.h"
#include "provider/table.h"

namespace gpux::provider {

using OptionList = std::vector<std::pair<std::string, std::string>>;

/// What a user can ask of any provider, translated for each.
struct CommonOptions {
  std::optional<unsigned> device;             ///< index among the provider's devices
  std::optional<std::uint64_t> memory_bytes;  ///< limit on device memory
  std::string precision;                      ///< as of LoadOptions, but "any"
  std::string cache_directory;                ///< for compiled engines; empty: none
  std::optional<unsigned> threads;            ///< threads of the provider's own pool
  /// That engines are compiled for, as of shape_profile.h; empty: any. For providers that take them.
  std::string shapes;
  bool tf32_is_off = false;  ///< NVIDIA's libraries compute no TF32: NVIDIA_TF32_OVERRIDE=0 is set
};

/// Options ready to be passed.
struct ResolvedOptions {
  OptionList passed;                    ///< by ONNX Runtime's names
  std::vector<std::string> notes;       ///< translated: old name → new name
  std::vector<std::string> unenforced;  ///< common options that have no counterpart there, as sentences
  std::string precision;                ///< that was set for the provider; empty: none
  std::string computes_float32_in;      ///< with these options; empty: not known
  std::vector<std::string> precisions;  ///< that it could be told to compute a float32 model in, "fp32" among them,
                                        ///< without more from the user; empty where there is no choice
  bool memory_limited = false;          ///< the provider enforces memory_bytes itself
  std::optional<unsigned> device;       ///< plugins: which device, counted among the provider's
  std::optional<unsigned> used_device;  ///< which of the devices the session is on; empty: not known
  std::vector<ShapeRange> shapes;       ///< that a run's inputs may have; empty: any
  Message shapes_note;                  ///< for the verdict, where the provider holds nodes; may be empty
};

/// Whether the provider compiles for ranges of shapes, and has an option for them. Pure.
bool takes_shapes(const ProviderRow& row, bool as_plugin);

/// Checks and translates the options of one provider. `given` are by ONNX Runtime's or the common names (device,
/// memory, precision, cache_directory, threads, shapes); they win over `common`. `as_plugin`: the provider comes as a
/// plugin. Error usage that names the option, and what would be accepted, where it is not known or has no meaning
/// there. A common option that a provider has no counterpart for is refused where `given` names it, and told in
/// `unenforced` where `common` does; `threads` are then the session's, which ONNX Runtime enforces. `devices`: what the
/// provider can use here, for options that differ between processors and others; empty: not known. Error
/// provider_unavailable where a device is asked for that is not among them.
ResolvedOptions resolve_options(const ProviderRow& row, const OptionList& given, const CommonOptions& common,
                                bool as_plugin, std::span<const Device> devices = {});

/// Reads one of the common options into `common`. False where `name` is none of them.
/// Error usage where the value is not valid.
bool read_common_option(const std::string& name, const std::string& value, CommonOptions& common);

/// The reason for which the option must not be used, for any provider and as a session's configuration entry
/// ("ep.cudaexecutionprovider.enable_cuda_graph"), too: the answers would be wrong. Empty where there is none. Pure.
std::string reason_against(std::string_view name, std::string_view value);

/// Whether the option names a place of this machine: by its type, and by the value for a provider that is not in the
/// table.
bool names_a_place(std::string_view provider, std::string_view name, std::string_view value);

}  // namespace gpux::provider

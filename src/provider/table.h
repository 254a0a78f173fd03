#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ort/session.h"

namespace gpux::provider {

enum class OptionType : std::uint8_t {
  boolean,
  integer,
  size,
  text,
  choice,
  path,  ///< a path on this machine that is read, written or opened as a library
};

/// One option of a provider, by ONNX Runtime's name.
struct OptionRow {
  std::string_view name;
  OptionType type = OptionType::text;
  std::vector<std::string_view> choices = {};
};

/// All that gpux knows of an execution provider before it looks at the machine.
struct ProviderRow {
  std::string_view id;
  std::string_view description;
  std::string_view kind;  ///< "gpu", "npu", "cpu"
  std::vector<std::string_view> aliases = {};
  std::vector<std::string_view> systems = {};
  std::string_view built_in_name = {};  ///< ONNX Runtime's name where it is compiled in or reached by a bridge
  std::vector<std::string_view> plugin_names = {};  ///< its names as a plugin: of this and of older releases
  ort::ProviderAppend::Way way = ort::ProviderAppend::Way::by_name;
  std::string_view append_name = {};                ///< what ProviderAppend::Way::by_name wants
  std::string_view bridge = {};                     ///< libonnxruntime_providers_<bridge>.so
  std::vector<std::string_view> plugins = {};       ///< file names of plugin libraries without ".so", beside the
                                                    ///< bridge's: what a file is, it exports
  std::string_view oldest_core = {};                ///< oldest ONNX Runtime that its plugin works with
  std::vector<std::string_view> opened_later = {};  ///< libraries the provider opens by name when it is used
  std::vector<std::string_view> compilers = {};     ///< libraries beside its own that make its engines, by the
                                                    ///< beginning of their file's name
  std::vector<std::uint16_t> vendor_ids = {};       ///< PCI vendors one of which must be there; empty: any
  std::string_view hardware = {};                   ///< that hardware, for messages
  std::string_view remedy = {};                     ///< how to get it
  std::vector<std::string_view> chain = {};         ///< the fallbacks of a request for it alone, before the CPU
  /// A session of one thread does all its work on the thread that calls it, so that replicas can share the processors.
  bool works_on_callers_threads = false;
  bool computes_no_padding = false;  ///< padding does not cost time
  bool compiles_each_size = false;   ///< for a shape that it has not met, except on processors
  /// It has kernels for MultiHeadAttention, SkipLayerNormalization and SkipSimplifiedLayerNormalization, which are
  /// faster than the nodes they replace: models get them when they are loaded (onnx/fused_attention.h).
  bool has_fused_attention = false;
  /// It gives the logits of each token of a run where they are requested (ort::RunHandle::logits_option), and they are
  /// bit for bit those of the token in a run of its own.
  bool gives_all_logits = false;
  /// Its attention reads keys and values of float16 as it reads those of float32, from half the memory.
  bool reads_half_caches = false;
  /// What it computes float32 in where no option says otherwise; empty: not known.
  std::string_view computes_float32_in = "fp32";
  std::vector<OptionRow> options = {};
};

/// Every provider, in the default order; the CPU last.
std::span<const ProviderRow> table();

/// By id, alias or ONNX Runtime's name, in any case of letters; null where none answers to it.
const ProviderRow* find_row(std::string_view name);

/// Whether the provider has an option of this name, of ONNX Runtime's.
bool has_option(const ProviderRow& row, std::string_view name);

/// "runs on macos only", for systems that the provider does not run on.
std::string other_systems(const ProviderRow& row);

/// What one would accept as a provider, for messages: ids, kinds and words.
std::vector<std::string> accepted_names();

}  // namespace gpux::provider

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpux/error.h"
#include "gpux/export.h"

namespace gpux {

/// A device a provider can use.
struct Device {
  std::string kind;  ///< "gpu", "npu" or "cpu"
  std::string name;  ///< the vendor's spelling; may be empty
  std::string vendor;
  std::uint32_t index = 0;         ///< among the provider's devices, as in the option `device`
  std::uint64_t memory_bytes = 0;  ///< the device's own memory; 0: not known, or none
  std::string driver = {};         ///< version of its driver; empty if not known
  std::string architecture = {};   ///< "sm_90", "gfx1100"; empty if not known
  std::string address = {};        ///< on the PCI bus: "0000:01:00.0"; empty if not known
};

/// The outcome of one provider of the request.
struct ProviderAttempt {
  /// Whether the provider was used, and if not, why.
  enum class Outcome : std::uint8_t {
    active,       ///< at least one node runs on it
    no_nodes,     ///< in the session, but holds no node
    unavailable,  ///< cannot be used on this machine
    failed,       ///< available, but no session could be created with it, or its GetCapability failed
    not_needed,   ///< another one was chosen first
  };
  std::string id;        ///< gpux's name ("cuda")
  std::string ort_name;  ///< ONNX Runtime's name, in the library's spelling
  std::string source;    ///< "built in", "bridge" or "plugin"; empty if it is not installed
  Outcome outcome = Outcome::unavailable;
  std::string reason;  ///< one sentence; empty if active
  Message remedy;      ///< what to do, as a command if possible; may be empty
  std::vector<Device> devices;
  std::optional<Device> device;  ///< the one of the devices that the session is on; empty if not known
  std::vector<std::pair<std::string, std::string>> options;  ///< passed to the provider
  std::uint64_t node_count = 0;
  double node_share = 0;    ///< share of all nodes of the session, 0 to 1
  bool other_core = false;  ///< available, but requires another ONNX Runtime than the open one
  /// The shapes that it compiled the model for: "input_ids:1x1..8x128..32x512" for each input, from the smallest to the
  /// largest. Runs with others are refused. Empty: any, or it compiles nothing.
  std::string shapes = {};
  std::string shapes_from = {};    ///< "option", or what they were derived from
  std::string engine_folder = {};  ///< where it keeps what it compiles; empty: nowhere, or not in gpux's cache
  bool has_kept_engine = false;    ///< something that it compiled before was in that folder
};

/// Name of the outcome: "active", "no_nodes", …
GPUX_API const char* to_string(ProviderAttempt::Outcome outcome) noexcept;

/// Where a model runs: the request, the providers tried, and the placement that the session reports.
struct Verdict {
  std::string requested;               ///< "auto", "cuda", "tensorrt,cuda,cpu", …
  std::string requested_from;          ///< "--provider", "GPUX_PROVIDER", "gpux.yml", "package", "default"
  std::vector<ProviderAttempt> tried;  ///< in order
  std::vector<std::string> active;     ///< ids of the providers that hold nodes, most nodes first
  std::uint64_t node_count = 0;        ///< nodes of the session after basic optimization
  /// Precision that the session computes in: that of the weights, or the one that the provider uses instead ("tf32",
  /// "fp16", …). Empty: the model has no weights, or the provider does not report it.
  std::string precision;
  bool placement_known = false;  ///< false: the runtime cannot report it; active has the appended providers
  bool fell_back = false;        ///< the first requested provider is not active
  std::vector<Message> notes;    ///< settings translated or not enforced, and the like
  std::string runtime_version;   ///< version of ONNX Runtime
  std::string runtime_path;
};

/// One line of text: "ran on cpu (9 of 9 nodes) in fp32; asked for cuda (--provider); not cuda: REASON (remedy: …);
/// NOTE". "in PRECISION", the reasons and the notes are omitted if there are none.
GPUX_API std::string to_line(const Verdict& verdict);
GPUX_API std::string to_line(const Verdict& verdict, const NameOfSubject& name_of);

/// The whole verdict as one JSON object.
GPUX_API std::string to_json(const Verdict& verdict);
GPUX_API std::string to_json(const Verdict& verdict, const NameOfSubject& name_of);

}  // namespace gpux

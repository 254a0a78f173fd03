#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "gpux/export.h"
#include "gpux/store.h"

namespace gpux {

/// When a full reference is downloaded.
enum class PullWhen : std::uint8_t {
  missing,  ///< unless it is stored
  always,   ///< also then, if the source has another version
  never,    ///< Error not_found unless it is stored
};

/// Which file of a source pull() takes, what it checks, and where it stores the model.
struct PullOptions {
  std::string name;       ///< NAME[:TAG] in the store; empty: the reference in lower case
  std::string file;       ///< the ONNX file of the repository that is the model; empty: the one that is found
  std::string precision;  ///< the ONNX file of the repository with these weights: "fp32", "fp16", "int8"; empty: fp32
  std::string reranker;  ///< "qwen3": the format in which a causal language model scores pairs; empty: as its card says
  std::string sha256;    ///< that a file from an address must have; empty: any
  /// A public key (PEM, P-256) that must have signed a package of a registry. Empty: trust.yml in the home decides, and
  /// a stored package whose signature was verified is replaced only by one with a signature of the same key.
  std::filesystem::path verify_key;
  unsigned connections = 8;           ///< transfers at the same time
  std::filesystem::path ca_file;      ///< trusted instead of the system's authorities; empty: the environment's
  std::vector<std::string> insecure;  ///< HOST or HOST:PORT whose certificates are not checked
  /// For pulls that somebody else asks for: connections are made to addresses of the internet alone, and to these
  /// hosts, HOST or HOST:PORT; elsewhere is Error permission. Empty: to any address.
  std::optional<std::vector<std::string>> only_public_and = {};
  std::filesystem::path home;  ///< the store; empty: GPUX_HOME, or ~/.gpux
};

/// How far the downloads of one pull are.
struct PullProgress {
  std::string file;     ///< the file that the last bytes belong to; empty at the beginning and the end
  std::string file_id;  ///< 64 hexadecimal digits for its content: its SHA-256 where the source gives it; may be empty
  std::uint64_t file_bytes = 0, file_done = 0;  ///< size of that file (0: unknown), and its bytes that have arrived
  std::uint64_t bytes = 0, done = 0;            ///< size of all files, and their bytes that are here
};

/// Callbacks of pull() and push(); both may be null. Called from any thread, one at a time.
struct PullListener {
  std::function<void(const PullProgress&)> on_progress;
  std::function<void(const std::string&)> on_message;  ///< one line
};

/// Result of pull(): the stored package, its source, and the bytes transferred.
struct PulledModel {
  StoredPackage package;
  std::string revision;              ///< the commit; empty where the source has none
  std::string file;                  ///< the ONNX file of the source; empty: its weights were converted
  std::string summary;               ///< what it makes: "384 dimensions", "classification"; empty: unchanged
  bool was_current = false;          ///< the stored package is what the source has: nothing was stored
  std::uint64_t received_bytes = 0;  ///< over the network
  std::uint64_t reused_bytes = 0;    ///< from an interrupted pull or the cache of huggingface_hub
};

/// Whether the text names a model on another machine: hf.co/ORG/NAME, hf:ORG/NAME, https://…, or
/// REGISTRY/REPOSITORY[:TAG][@sha256:DIGEST], where REGISTRY has a '.' or a port or is localhost. A path that exists is
/// none, and neither is a name alone.
GPUX_API bool is_full_reference(const std::string& model);

/// Downloads a model and stores it, ready to run: from the Hugging Face hub (hf.co/ORG/NAME[@REVISION], ORG/NAME),
/// where safetensors are converted, an ONNX file from an address (https://…/model.onnx, with #sha256=… checked), or a
/// package from an OCI registry, which stays as it is. Other models are loaded once, which proves that they run. An
/// interrupted pull is resumed by the next one. Errors: permission (gated, a wrong token), not_found (missing;
/// downloads are forbidden by GPUX_OFFLINE or HF_HUB_OFFLINE), network (also a rate limit and damaged data), storage
/// (also too little space), invalid_model and invalid_config (it is no model that gpux runs), usage, interrupted.
GPUX_API PulledModel pull(const std::string& reference, const PullOptions& options = {},
                          const PullListener& listener = {}, const std::stop_token& stop = {});

/// The name under which the model can be opened: a full reference is pulled first as `when` says, and becomes its name
/// in the store; any other text is returned unchanged and causes no network traffic. Errors as pull(); usage for
/// `always` where downloads are forbidden.
GPUX_API std::string pull_for_use(const std::string& model, PullWhen when, const PullOptions& options = {},
                                  const PullListener& listener = {}, const std::stop_token& stop = {});

}  // namespace gpux

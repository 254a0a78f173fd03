#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "server/store_changes/model_creation.h"
#include "server/store_changes/store_jobs.h"
#include "server/store_changes/uploads.h"

namespace gpux::server {

/// Whether and how requests may change the models that are stored.
struct StoreChangeOptions {
  bool serves_store = false;     ///< the server serves the models of the store by name: only then may they
  bool pulls_on_demand = false;  ///< a request for a model that is not stored pulls it
  /// HOST or HOST:PORT of this machine or a private network that requests may pull from and push to, besides the hub
  /// that HF_ENDPOINT names, at its port.
  std::vector<std::string> private_registries;
  std::size_t max_jobs = 2;    ///< pulls, pushes and creations at the same time
  std::filesystem::path home;  ///< of the store; empty: GPUX_HOME, or ~/.gpux
  UploadOptions uploads = {};
};

/// Refuses what is no HOST or HOST:PORT in lower case. Error usage that names the flag.
void require_registry_host(const std::string& host);

/// What requests do to the store. They name models as `gpux pull` takes them: of the hub, of registries, of addresses
/// of ONNX files; never a file or a folder of this machine, and no address of this machine or a private network but
/// the operator's. The credentials, the trust policy and GPUX_OFFLINE are the operator's, too. All members from any
/// thread.
class StoreChanges {
 public:
  StoreChanges(StoreChangeOptions options, Uploads::At at);

  [[nodiscard]] const StoreChangeOptions& options() const noexcept { return options_; }

  /// The name in the store, as it is served, of what a request calls so: a stored name, or a reference as pull() takes
  /// it. Empty where there is none. Error storage.
  [[nodiscard]] std::optional<std::string> served_name(const std::string& requested) const;

  /// The digest of the stored model that a request calls so, as served_name() finds it; empty where there is none, or
  /// it cannot be read.
  [[nodiscard]] std::string stored_digest(const std::string& requested) const;

  /// Whether the text is a reference that pull() takes.
  [[nodiscard]] static bool is_reference(const std::string& text) noexcept;

  /// Begin a job, or join that of the same reference or name, but for create(); give the ticket for
  /// StoreJobs::leave(). Errors of StoreJobs::start(), usage (the reference, the name). Those of the job, as of
  /// gpux::pull(), gpux::push() and create_model(), go to the listener.
  [[nodiscard]] std::uint64_t pull(const std::string& reference, StoreJobs::Listener listener);
  [[nodiscard]] std::uint64_t push(const std::string& name, StoreJobs::Listener listener);
  [[nodiscard]] std::uint64_t create(const ModelCreation& creation, StoreJobs::Listener listener);

  /// Gives a stored model another name. Errors not_found, usage (a name), storage.
  void copy(const std::string& source, const std::string& destination) const;

  /// Takes a name away, and the model with its last one. Errors not_found, storage.
  void remove(const std::string& name) const;

  [[nodiscard]] StoreJobs& jobs() noexcept { return jobs_; }

  [[nodiscard]] Uploads& uploads() noexcept { return uploads_; }

 private:
  [[nodiscard]] std::vector<std::string> reachable_hosts() const;
  [[nodiscard]] std::optional<StoredModel> find(const std::string& requested) const;

  const StoreChangeOptions options_;
  Uploads uploads_;
  StoreJobs jobs_;  // last: they use the rest
};

}  // namespace gpux::server

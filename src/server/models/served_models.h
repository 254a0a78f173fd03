#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/package_fingerprint.h"
#include "project/models_file.h"
#include "server/models/model_repository.h"
#include "server/models/serving_flags.h"
#include "server/models/triton_config.h"

namespace gpux::server {

/// Finds the models to serve, as the flags name them and the disk has them now: the models named, those that --models
/// lists, those in --repository, a folder of DIR/NAME/VERSION/model.onnx, of whose versions the policy chooses, and
/// those of the store, on demand.
class ServedModels {
 public:
  explicit ServedModels(ServingFlags flags) : flags_(std::move(flags)) {}

  /// A model that cannot be found has a source all the same, under the name and version that it had when it was last
  /// found: its load fails with the reason. Any thread. Errors usage (two of one name and version), and those of the
  /// list and of the repository's folder.
  std::vector<ModelSource> look();

  /// From now on the model has this configuration, the JSON of Triton's, in place of that of its folder; empty: it has
  /// that of its folder again. Returns what was said before. Any thread. Error invalid_config.
  std::optional<std::string> configure(const std::string& name, const std::optional<std::string>& json);

 private:
  // A configuration as it was written, and where.
  struct Configured {
    TritonConfig config;
    std::string text, place;
  };

  /// `configured`: of its folder; null: it has none. One of configure() comes before it.
  ModelSource source_of(ListedModel listed, const LocatedModel& located, const Configured* configured = nullptr);
  /// The configuration of a model in --repository; empty where it has none. Error invalid_config.
  [[nodiscard]] std::optional<Configured> configured_in(const std::filesystem::path& folder) const;
  ModelSource lost_source(const ListedModel& listed, const std::string& name, const std::string& version,
                          const Error& reason) const;
  ModelSource from_listed(const ListedModel& listed, const Store& store);
  void add_repository(const Store& store, std::vector<ModelSource>& sources);
  ModelSource from_repository(const std::filesystem::path& folder, const std::string& version, const Store& store,
                              const Configured* configured);
  void add_stored(const Store& store, std::vector<ModelSource>& sources) const;

  const ServingFlags flags_;
  std::mutex mutex_;
  std::map<std::string, std::pair<std::string, std::string>> last_names_;  // name and version, by what is listed
  std::map<std::string, Configured> configured_;                           // by configure()

  // Outlives this object where a source does.
  struct Fingerprints {
    std::mutex mutex;
    PackageFingerprints files;
  };

  std::shared_ptr<Fingerprints> fingerprints_ = std::make_shared<Fingerprints>();
};

/// Where to listen: a flag, or what the models' gpux.yml say where they agree, or 127.0.0.1:8080.
struct ListenAddress {
  std::string host;
  std::uint16_t port = 0;
};

/// Error invalid_config where two models say different things and no flag decides.
ListenAddress listen_address(const ServingFlags& flags, const ModelRepository& repository);

/// A line about the models on which --stop-grace and --max-restart-delay have no effect, as they run in this process;
/// empty: there is none, or neither was given. Error usage where they have an effect on no model.
std::string check_worker_flags(const ServingFlags& flags, const ModelRepository& repository);

/// The model of routes without a name: --default, or what --models says; empty: none.
std::string default_model(const ServingFlags& flags);

}  // namespace gpux::server

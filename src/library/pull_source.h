#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "gpux/pull.h"
#include "library/folder_import.h"
#include "library/model_reference.h"
#include "registry/download/downloader.h"
#include "registry/http/client.h"
#include "registry/hub/hub_reference.h"
#include "registry/hub/hub_settings.h"
#include "registry/oci/remote_reference.h"
#include "store/store.h"

namespace gpux {

/// Dependencies and options of a pull.
struct PullContext {
  const PullOptions& options;
  const PullListener& listener;
  Store& store;
  registry::Client& client;
  registry::HubSettings hub;

  void say(const std::string& line) const {
    if (listener.on_message) listener.on_message(line);
  }
};

/// How progress is shown, and the number of transfers.
registry::DownloadOptions download_options(const PullContext& context);

/// Tells where a model is loaded in this process to see whether it runs: only the gpux program has worker processes.
void say_where_checked(const PullContext& context);

/// Downloads the items into the folder `downloads`, and lays each out at its place: a link, in folders made for it.
/// What another pull of the same files takes away between the two is downloaded again.
registry::DownloadResult download_in_place(const PullContext& context, const std::filesystem::path& downloads,
                                           std::span<const registry::DownloadItem> items,
                                           std::span<const std::filesystem::path> places);

/// Makes `place` another name of the file; false where there is no such file. Error storage.
bool link_in_place(const std::filesystem::path& file, const std::filesystem::path& place);

/// Checks for free space. Error storage unless the file system of the folder has so much space left.
void require_space(const std::filesystem::path& folder, std::uint64_t bytes, const std::string& what);

PulledModel pull_from_hub(const registry::HubReference& reference, const Reference& name, const PullContext& context);
PulledModel pull_from_address(const AddressReference& reference, const Reference& name, const PullContext& context);

/// PullOptions::only_public_and as a client takes it.
inline std::optional<std::set<std::string>> hosts_of(const std::optional<std::vector<std::string>>& hosts) {
  return hosts ? std::optional(std::set<std::string>(hosts->begin(), hosts->end())) : std::nullopt;
}

/// A stored package as the public headers show it.
StoredPackage package_of(const StoredModel& model);

}  // namespace gpux

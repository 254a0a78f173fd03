#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include "gpux/pull.h"
#include "library/folder_import.h"
#include "registry/download/downloader.h"
#include "registry/http/client.h"
#include "registry/hub/hub_reference.h"
#include "registry/hub/hub_settings.h"
#include "registry/oci/remote_reference.h"
#include "store/store.h"

namespace gpux {

/// What a pull works with.
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

/// Error storage unless the file system of the folder has so much space left.
void require_space(const std::filesystem::path& folder, std::uint64_t bytes, const std::string& what);

/// A model at an address: the ONNX file alone.
struct AddressReference {
  std::string url;     ///< without a fragment
  std::string sha256;  ///< from "#sha256=…"; may be empty
};

/// Error usage for what is no address of an ONNX file.
AddressReference parse_address(const std::string& text);
Reference stored_name_of(const AddressReference& reference);

/// The repository's address, as the origin of a package.
std::string origin_of(const registry::HubReference& reference);
/// The address as the origin of a package, which others may read: without its query, which may hold a signature.
std::string origin_of(const AddressReference& reference);

PulledModel pull_from_hub(const registry::HubReference& reference, const Reference& name, const PullContext& context);
PulledModel pull_from_address(const AddressReference& reference, const Reference& name, const PullContext& context);

/// The package that a pull of this reference has stored. Empty where there is none of its name, or that one answers for
/// another repository, revision, file, address or digest, also where a registry's package has an address's name.
std::optional<StoredModel> find_pulled(const Store& store, const registry::HubReference& reference);
std::optional<StoredModel> find_pulled(const Store& store, const AddressReference& reference);
std::optional<StoredModel> find_pulled(const Store& store, const oci::RemoteReference& reference);

/// A stored package as the public headers show it.
StoredPackage package_of(const StoredModel& model);

}  // namespace gpux

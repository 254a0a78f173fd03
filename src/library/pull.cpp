#include "gpux/pull.h"

#include <filesystem>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/durability.h"
#include "base/files.h"
#include "base/home.h"
#include "base/in_quotes.h"
#include "base/machine.h"
#include "base/memory_size.h"
#include "base/own_program.h"
#include "base/spelling.h"
#include "base/storage_error.h"
#include "gpux/error.h"
#include "library/one_at_a_time.h"
#include "library/pull_source.h"
#include "library/registry_pull.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;

bool is_address(std::string_view text) {
  return text.starts_with("https://") || text.starts_with("http://");
}

// What looks like the name of a file is none: who mistypes one does not mean another machine.
bool is_registry_reference(std::string_view text) {
  if (text.ends_with(".onnx") || text.ends_with(".yml") || text.ends_with(".yaml") || text.ends_with('/')) return false;
  // NAME=REFERENCE of gpux serve.
  if (text.find('=') != std::string_view::npos) return false;
  return oci::names_registry(text) && !registry::is_hub_reference(text) && !is_address(text);
}

bool is_path(const std::string& text) {
  std::error_code error;
  return text.find('\0') == std::string::npos && fs::exists(text, error);
}

void refuse_for(const char* source, const std::initializer_list<std::pair<const char*, bool>>& given) {
  for (const auto& [flag, is_given] : given) {
    if (is_given) throw Error(ErrorCode::usage, fmt::format("{} is not for {}", flag, source));
  }
}

Store store_of(const PullOptions& options) {
  return Store(options.home.empty() ? home_folder() : options.home);
}

registry::ClientOptions client_options(const PullOptions& options, const PullListener& listener,
                                       const std::stop_token& stop) {
  return {.ca_file = options.ca_file,
          .tls_files_of = {},
          .insecure_hosts = {options.insecure.begin(), options.insecure.end()},
          .cancellation = Cancellation(stop),
          .on_retry = [say = listener.on_message](const std::string& reason, std::chrono::milliseconds delay) {
            if (say)
              say(fmt::format("{}; trying again in {:.1f} s", reason, std::chrono::duration<double>(delay).count()));
          }};
}

Reference name_for(const PullOptions& options, Reference derived) {
  return options.name.empty() ? std::move(derived) : parse_reference(options.name);
}

void refuse_offline(const std::string& reference) {
  const std::string variable = registry::offline_variable(Machine::this_one());
  if (variable.empty()) return;
  throw Error(ErrorCode::not_found, fmt::format("cannot download {}: {} forbids it", in_quotes(reference), variable));
}

}  // namespace

registry::DownloadOptions download_options(const PullContext& context) {
  registry::DownloadOptions options;
  options.connections = context.options.connections;
  options.on_note = context.listener.on_message;
  if (context.listener.on_progress) {
    options.on_progress = [&listener = context.listener](const registry::DownloadProgress& progress) {
      listener.on_progress({progress.file, progress.file_bytes, progress.file_done, progress.bytes, progress.done});
    };
  }
  return options;
}

void say_where_checked(const PullContext& context) {
  if (!worker_program().empty()) return;
  context.say("the model is loaded in this process, without a sandbox: 'gpux pull' loads it in a worker process");
}

bool link_in_place(const fs::path& file, const fs::path& place) {
  require_stored(make_folders(place.parent_path()), "make the folder", place.parent_path());
  std::error_code error;
  if (!fs::exists(file, error)) return false;
  fs::create_hard_link(file, place, error);
  if (error == std::errc::no_such_file_or_directory) return false;
  if (error) {
    error.clear();
    fs::create_symlink(fs::absolute(file), place, error);
  }
  require_stored(error, "make the link", place);
  return true;
}

registry::DownloadResult download_in_place(const PullContext& context, const fs::path& downloads,
                                           std::span<const registry::DownloadItem> items,
                                           std::span<const fs::path> places) {
  registry::DownloadResult sum;
  std::vector<registry::DownloadItem> left(items.begin(), items.end());
  std::vector<fs::path> left_places(places.begin(), places.end());
  for (int attempts_left = 10; attempts_left > 0; --attempts_left) {
    const registry::DownloadResult result =
        registry::download(context.client, downloads, left, download_options(context));
    sum.received_bytes += result.received_bytes;
    sum.resumed_bytes += result.resumed_bytes;
    std::vector<registry::DownloadItem> gone;
    std::vector<fs::path> gone_places;
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (link_in_place(result.files[i], left_places[i])) continue;
      gone.push_back(left[i]);
      gone_places.push_back(left_places[i]);
    }
    if (gone.empty()) return sum;
    left = std::move(gone);
    left_places = std::move(gone_places);
  }
  throw Error(ErrorCode::storage, fmt::format("{} is removed again and again from '{}' while it is stored",
                                              in_quotes(left.front().name), downloads.string()));
}

void require_space(const fs::path& folder, std::uint64_t bytes, const std::string& what) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  require_stored(error, "look at the file system of", folder);
  if (space.available >= bytes) return;
  throw Error(ErrorCode::storage,
              fmt::format("{} needs {} of disk space, and the file system of '{}' has {} left", what,
                          format_bytes(bytes), folder.string(), format_bytes(space.available)));
}

namespace {

template <typename Answers>
std::optional<StoredModel> find_if(const Store& store, const Reference& name, const Answers& answers) {
  std::optional<StoredModel> found = store.find(name);
  return found && answers(*found) ? std::move(found) : std::nullopt;
}

// Empty where it cannot be told: earlier versions recorded no revision, and gave one name to several.
std::optional<std::string> requested_revision(const StoredModel& model) {
  const std::string &recorded = model.package.origin.requested_revision, &tag = model.reference.tag;
  if (!recorded.empty()) return recorded;
  if (tag == "latest") return "";
  constexpr std::size_t limit_tag = 128;
  const bool is_ambiguous = tag.find('-') != std::string::npos || tag.starts_with('_') || tag.size() == limit_tag;
  return is_ambiguous ? std::nullopt : std::optional(tag);
}

// Whether the package has the name of the address that it came from.
bool is_of_address(const StoredModel& model) {
  const std::string& source = model.package.origin.source;
  if (model.pulled_from != source || !is_address(source) || registry::is_hub_reference(source)) return false;
  try {
    return stored_name_of(parse_address(source)) == model.reference;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::optional<StoredModel> find_pulled(const Store& store, const registry::HubReference& reference) {
  return find_if(store, registry::stored_name_of(reference), [&](const StoredModel& model) {
    const PackageOrigin& origin = model.package.origin;
    if (lower(origin.source) != lower(origin_of(reference))) return false;
    if (!reference.file.empty() && origin.file != reference.file) return false;
    if (!reference.quantization.empty()) return origin.file.ends_with(".gguf");
    return reference.is_stored_name || requested_revision(model) == reference.revision;
  });
}

std::optional<StoredModel> find_pulled(const Store& store, const AddressReference& reference) {
  return find_if(store, stored_name_of(reference), [&](const StoredModel& model) {
    const PackageManifest& package = model.package;
    if (package.origin.source != origin_of(reference)) return false;
    const StoredFile* const file = package.find(package.model_file);
    return reference.sha256.empty() || (file != nullptr && file->blob.digest == reference.sha256);
  });
}

std::optional<StoredModel> find_pulled(const Store& store, const oci::RemoteReference& reference) {
  return find_if(store, reference.stored_name(), [&](const StoredModel& model) {
    return (reference.digest.empty() || reference.digest == model.digest) && !is_of_address(model);
  });
}

bool is_full_reference(const std::string& model) {
  return (registry::is_hub_reference(model) || is_address(model) || is_registry_reference(model)) && !is_path(model);
}

namespace {

// In the form in which the store records them.
std::vector<std::string> keys_of(const fs::path& file) {
  if (file.empty()) return {};
  (void)oci::VerifyingKey::read(file);
  return public_keys_in(read_file(file, std::uint64_t{1} << 16));
}

PulledModel pull_package(const std::string& text, const PullOptions& options, const PullListener& listener,
                         const std::stop_token& stop) {
  refuse_for("packages of registries",
             {{"--file", !options.file.empty()},
              {"--precision", !options.precision.empty()},
              {"--reranker", !options.reranker.empty()},
              {"--sha256 (REGISTRY/REPOSITORY@sha256:DIGEST names a package)", !options.sha256.empty()}});
  RegistryPull request{.reference = oci::parse_remote_reference(text),
                       .names = {},
                       .access = {options.ca_file, {options.insecure.begin(), options.insecure.end()}},
                       .connections = options.connections,
                       .cancellation = Cancellation(stop),
                       .signature = {},
                       .former = {}};
  const Reference name = name_for(options, request.reference.stored_name());
  request.names = {name};
  refuse_offline(text);
  Store store = store_of(options);
  for (StoredModel& model : store.list()) {
    if (model.reference == name) request.former = std::move(model);
  }
  // Another repository's package has another signer.
  const bool is_next = repository_of(request.former.pulled_from) == repository_of(request.reference.text());
  if (!is_next) request.former.verified_by.clear();
  request.signature = required_signature(read_trust_policy(store.root()), request.reference.text(),
                                         keys_of(options.verify_key), request.former.verified_by);
  oci::TransferListener transfers;
  transfers.on_note = listener.on_message;
  if (listener.on_progress) {
    transfers.on_progress = [&listener](std::uint64_t done, std::uint64_t total) {
      listener.on_progress({.file = {}, .file_bytes = 0, .file_done = 0, .bytes = total, .done = done});
    };
  }
  const oci::PulledPackage pulled = pull_from_registry(request, store, transfers);
  std::string summary = counted(pulled.stored.package.files.size(), "file");
  if (!request.signature.keys.empty()) summary += ", signature verified";
  return {.package = package_of(pulled.stored),
          .revision = {},
          .file = pulled.stored.package.model_file,
          .summary = std::move(summary),
          .was_current = pulled.was_complete && request.former.digest == pulled.stored.digest,
          .received_bytes = pulled.received_bytes,
          .reused_bytes = pulled.reused_bytes};
}

/// Whether the package of the reference is in the store: under its name, with its digest if it has one, and `trusted`
/// as the user's policy asks for.
bool is_stored(const Store& store, const oci::RemoteReference& reference, bool trusted) {
  const std::optional<StoredModel> found = find_pulled(store, reference);
  return found && (!trusted || is_trusted(read_trust_policy(store.root()), *found));
}

// A name that `gpux images` prints may have a digest where the revision has other characters.
registry::HubReference as_stored(const Store& store, const registry::HubReference& named) {
  const auto found = named.is_stored_name ? find_pulled(store, named) : std::nullopt;
  if (!found) return named;
  registry::HubReference meant = named;
  meant.revision = found->package.origin.requested_revision;
  for (const std::string& file : {std::string(), found->package.origin.file}) {
    meant.file = file;
    if (registry::stored_name_of(meant) == found->reference) return meant;
  }
  return named;
}

}  // namespace

PulledModel pull(const std::string& reference, const PullOptions& options, const PullListener& given,
                 const std::stop_token& stop) {
  if (options.connections == 0 || options.connections > 64) {
    throw Error(ErrorCode::usage, fmt::format("{} connections: 1 to 64 are accepted", options.connections));
  }
  const PullListener listener = one_at_a_time(given);
  if (is_registry_reference(reference)) return pull_package(reference, options, listener, stop);
  refuse_for("models of hubs and addresses; packages of registries have signatures",
             {{"--verify-key", !options.verify_key.empty()}});
  Store store = store_of(options);
  registry::Client client(client_options(options, listener, stop));
  const auto context = [&] {
    return PullContext{options, listener, store, client, registry::read_hub_settings(Machine::this_one())};
  };
  if (is_address(reference) && !registry::is_hub_reference(reference)) {
    const AddressReference address = parse_address(reference);
    const Reference name = name_for(options, stored_name_of(address));
    refuse_offline(reference);
    return pull_from_address(address, name, context());
  }
  const registry::HubReference hub = as_stored(store, registry::parse_hub_reference(reference, true));
  if (!options.sha256.empty()) {
    throw Error(ErrorCode::usage, "--sha256 is for addresses; the hub gives the digests of its files");
  }
  const Reference name = name_for(options, registry::stored_name_of(hub));
  return pull_from_hub(hub, name, context());
}

std::string pull_for_use(const std::string& model, PullWhen when, const PullOptions& options,
                         const PullListener& listener, const std::stop_token& stop) {
  if (!is_full_reference(model)) return model;
  const std::string variable = registry::offline_variable(Machine::this_one());
  if (when == PullWhen::always && !variable.empty()) {
    throw Error(ErrorCode::usage, fmt::format("--pull always: {} forbids downloads", variable));
  }
  Reference name;
  bool is_here = false;
  if (is_registry_reference(model)) {
    const oci::RemoteReference remote = oci::parse_remote_reference(model);
    name = remote.stored_name();
    // One that is not trusted is pulled again, which looks for a signature; what may not be pulled is refused as it
    // opens.
    is_here = is_stored(store_of(options), remote, when != PullWhen::never);
  } else if (registry::is_hub_reference(model)) {
    const registry::HubReference hub = registry::parse_hub_reference(model);
    name = registry::stored_name_of(hub);
    is_here = find_pulled(store_of(options), hub).has_value();
  } else {
    const AddressReference address = parse_address(model);
    name = stored_name_of(address);
    is_here = find_pulled(store_of(options), address).has_value();
  }
  if (when != PullWhen::always && is_here) return name.text();
  // Offline, a model of the hub may be in the cache of huggingface_hub.
  const bool may_be_cached = registry::is_hub_reference(model) && when != PullWhen::never;
  if (when == PullWhen::never || (!variable.empty() && !may_be_cached)) {
    throw Error(ErrorCode::not_found,
                fmt::format("{} is not stored here, and {} forbids to download it; 'gpux pull {}' stores it",
                            in_quotes(model), variable.empty() ? "--pull never" : variable, model));
  }
  (void)pull(model, options, listener, stop);
  return name.text();
}

}  // namespace gpux

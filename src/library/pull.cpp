#include "gpux/pull.h"

#include <filesystem>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/durability.h"
#include "base/files.h"
#include "base/format_message.h"
#include "base/home.h"
#include "base/in_quotes.h"
#include "base/machine.h"
#include "base/memory_size.h"
#include "base/own_program.h"
#include "base/sha256.h"
#include "base/spelling.h"
#include "base/storage_error.h"
#include "gpux/error.h"
#include "library/one_at_a_time.h"
#include "library/pull_source.h"
#include "library/registry_pull.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;

void refuse_for(const char* source, const std::initializer_list<std::pair<Message, bool>>& given) {
  for (const auto& [setting, is_given] : given) {
    if (is_given) throw Error(ErrorCode::usage, format_message("{} is not for {}", setting, source));
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
          .only_public_and = hosts_of(options.only_public_and),
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
      listener.on_progress({.file = progress.file,
                            .file_id = is_sha256(progress.key) ? progress.key : std::string(),
                            .file_bytes = progress.file_bytes,
                            .file_done = progress.file_done,
                            .bytes = progress.bytes,
                            .done = progress.done});
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
  throw Error(ErrorCode::storage, format_message("{} is removed again and again from '{}' while it is stored",
                                                 in_quotes(left.front().name), file_at(downloads)));
}

void require_space(const fs::path& folder, std::uint64_t bytes, const std::string& what) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  require_stored(error, "look at the file system of", folder);
  if (space.available >= bytes) return;
  throw Error(ErrorCode::storage,
              format_message("{} needs {} of disk space, and the file system of '{}' has {} left", what,
                             format_bytes(bytes), file_at(folder), format_bytes(space.available)));
}

namespace {

// In the form in which the store records them.
std::vector<std::string> keys_of(const fs::path& file) {
  if (file.empty()) return {};
  (void)oci::VerifyingKey::read(file);
  return public_keys_in(read_file(file, std::uint64_t{1} << 16));
}

/// A call of pull().
struct PullCall {
  const std::string& text;
  const PullOptions& options;
  const PullListener& listener;
  const std::stop_token& stop;
};

PulledModel pull_from(const oci::RemoteReference& reference, const PullCall& call) {
  const auto& [text, options, listener, stop] = call;
  refuse_for(
      "packages of registries",
      {{{setting_named("file")}, !options.file.empty()},
       {{setting_named("precision")}, !options.precision.empty()},
       {{setting_named("reranker")}, !options.reranker.empty()},
       {{setting_named("sha256"), " (REGISTRY/REPOSITORY@sha256:DIGEST names a package)"}, !options.sha256.empty()}});
  RegistryPull request{.reference = reference,
                       .names = {},
                       .access = {options.ca_file,
                                  {options.insecure.begin(), options.insecure.end()},
                                  hosts_of(options.only_public_and)},
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
      listener.on_progress({.file = {}, .file_id = {}, .file_bytes = 0, .file_done = 0, .bytes = total, .done = done});
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

/// Whether the package of the reference is in the store: under its name, with its digest if it has one, and one of a
/// registry `trusted` as the user's policy asks for.
bool is_stored(const Store& store, const RemoteModel& model, bool trusted) {
  const auto found = std::visit([&](const auto& reference) { return find_pulled(store, reference); }, model);
  if (!found || !trusted || !std::holds_alternative<oci::RemoteReference>(model)) return found.has_value();
  return is_trusted(read_trust_policy(store.root()), *found);
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

/// The client of a hub or an address, and what else their pulls work with.
class DownloadingPull {
 public:
  explicit DownloadingPull(const PullCall& call)
      : call_(call), store_(store_of(call.options)), client_(client_options(call.options, call.listener, call.stop)) {
    refuse_for("models of hubs and addresses; packages of registries have signatures",
               {{{setting_named("verify_key")}, !call.options.verify_key.empty()}});
  }

  [[nodiscard]] Store& store() noexcept { return store_; }

  [[nodiscard]] PullContext context() {
    return {call_.options, call_.listener, store_, client_, registry::read_hub_settings(Machine::this_one())};
  }

 private:
  const PullCall& call_;
  Store store_;
  registry::Client client_;
};

PulledModel pull_from(const AddressReference& reference, const PullCall& call) {
  DownloadingPull pull(call);
  const Reference name = name_for(call.options, stored_name_of(reference));
  refuse_offline(call.text);
  return pull_from_address(reference, name, pull.context());
}

PulledModel pull_from(const registry::HubReference& reference, const PullCall& call) {
  DownloadingPull pull(call);
  const registry::HubReference hub = as_stored(pull.store(), reference);
  if (!call.options.sha256.empty()) {
    throw Error(ErrorCode::usage,
                format_message("{} is for addresses; the hub gives the digests of its files", setting_named("sha256")));
  }
  const Reference name = name_for(call.options, registry::stored_name_of(hub));
  return pull_from_hub(hub, name, pull.context());
}

}  // namespace

PulledModel pull(const std::string& reference, const PullOptions& options, const PullListener& given,
                 const std::stop_token& stop) {
  if (options.connections == 0 || options.connections > 64) {
    throw Error(ErrorCode::usage, fmt::format("{} connections: 1 to 64 are accepted", options.connections));
  }
  const PullListener listener = one_at_a_time(given);
  const PullCall call{reference, options, listener, stop};
  return std::visit([&](const auto& model) { return pull_from(model, call); }, model_to_pull(reference));
}

std::string pull_for_use(const std::string& model, PullWhen when, const PullOptions& options,
                         const PullListener& listener, const std::stop_token& stop) {
  const std::optional<RemoteModel> remote = remote_model(model);
  if (!remote) return model;
  const std::string variable = registry::offline_variable(Machine::this_one());
  if (when == PullWhen::always && !variable.empty()) {
    throw Error(ErrorCode::usage, format_message("{} always: {} forbids downloads", setting_named("pull"), variable));
  }
  const std::string name = stored_name_of(*remote).text();
  // One that is not trusted is pulled again, which looks for a signature; what may not be pulled is refused as it
  // opens.
  if (when != PullWhen::always && is_stored(store_of(options), *remote, when != PullWhen::never)) return name;
  // Offline, a model of the hub may be in the cache of huggingface_hub.
  const bool may_be_cached = std::holds_alternative<registry::HubReference>(*remote) && when != PullWhen::never;
  if (when == PullWhen::never || (!variable.empty() && !may_be_cached)) {
    throw Error(ErrorCode::not_found,
                format_message("{} is not stored here, and {} forbids to download it; 'gpux pull {}' stores it",
                               in_quotes(model),
                               variable.empty() ? Message{setting_named("pull"), " never"} : Message{variable}, model));
  }
  (void)pull(model, options, listener, stop);
  return name;
}

}  // namespace gpux

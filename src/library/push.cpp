#include "gpux/push.h"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/home.h"
#include "gpux/error.h"
#include "library/one_at_a_time.h"
#include "library/pull_source.h"
#include "model/locate.h"
#include "registry/oci/access.h"
#include "registry/oci/archive.h"
#include "registry/oci/push_package.h"
#include "store/store.h"

namespace gpux {
namespace {

constexpr std::uint64_t min_chunk_bytes = 65536;

Store store_in(const std::filesystem::path& home) {
  return Store(home.empty() ? home_folder() : home);
}

StoredModel model_to_push(const Reference& name, const Store& store) {
  if (std::optional<StoredModel> model = store.find(name)) return *std::move(model);
  throw Error(ErrorCode::not_found, fmt::format("no model '{}' is stored here; 'gpux tag MODEL {}' gives one this name",
                                                name.text(), name.text()));
}

std::vector<StoredPackage> packages_of(const std::vector<StoredModel>& models) {
  std::vector<StoredPackage> packages;
  for (const StoredModel& model : models) packages.push_back(package_of(model));
  return packages;
}

}  // namespace

PushedModel push(const std::string& name, const PushOptions& options, const PullListener& given,
                 const std::stop_token& stop) {
  const PullListener listener = one_at_a_time(given);
  if (options.chunk_bytes != 0 && options.chunk_bytes < min_chunk_bytes) {
    throw Error(ErrorCode::usage,
                fmt::format("chunks of {} bytes: {} or more are accepted", options.chunk_bytes, min_chunk_bytes));
  }
  const oci::RemoteReference target = oci::parse_remote_reference(name);
  const Store store = store_in(options.home);
  const StoredModel model = model_to_push(target.stored_name(), store);
  oci::PushOptions settings;
  if (options.chunk_bytes != 0) settings.repository.chunk_bytes = options.chunk_bytes;
  std::optional<oci::SigningKey> key;
  if (!options.sign_key.empty()) settings.signing_key = &key.emplace(oci::SigningKey::read(options.sign_key));
  const oci::Access access{
      options.ca_file, {options.insecure.begin(), options.insecure.end()}, hosts_of(options.only_public_and)};
  registry::ClientOptions client_options = oci::client_options(access, listener.on_message);
  client_options.cancellation = Cancellation(stop);
  registry::Client client(std::move(client_options));
  oci::Session session(client, target.registry, oci::CredentialStore(), {access.insecure_hosts, {}});
  oci::TransferListener transfers{.on_progress = {}, .on_note = listener.on_message};
  if (listener.on_progress) {
    transfers.on_progress = [&listener](std::uint64_t done, std::uint64_t total) {
      listener.on_progress({.file = {}, .file_id = {}, .file_bytes = 0, .file_done = 0, .bytes = total, .done = done});
    };
  }
  const oci::PushedPackage pushed = oci::push_package(session, model, target, store, settings, transfers);
  return {.name = target.text(),
          .digest = "sha256:" + pushed.digest,
          .existed = pushed.existed,
          .mounted = pushed.mounted,
          .sent = pushed.sent,
          .sent_bytes = pushed.sent_bytes,
          .signature_tag = pushed.signature_tag};
}

std::vector<StoredPackage> save_packages(const std::vector<std::string>& models, const std::filesystem::path& file,
                                         const std::filesystem::path& home) {
  const Store store = store_in(home);
  std::vector<StoredModel> found;
  for (const std::string& model : models) found.push_back(find_stored(parse_reference(model), store));
  oci::save_archive(store, found, file);
  return packages_of(found);
}

std::vector<StoredPackage> load_packages(const std::filesystem::path& file, const std::vector<std::string>& names,
                                         const std::filesystem::path& home) {
  std::vector<Reference> references;
  for (const std::string& name : names) references.push_back(parse_reference(name));
  Store store = store_in(home);
  return packages_of(oci::load_archive(store, file, references));
}

}  // namespace gpux

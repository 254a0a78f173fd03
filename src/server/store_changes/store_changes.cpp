#include "server/store_changes/store_changes.h"

#include <utility>
#include <variant>

#include <fmt/format.h>

#include "base/failure_of.h"
#include "base/format_message.h"
#include "base/home.h"
#include "base/in_quotes.h"
#include "base/log.h"
#include "base/machine.h"
#include "gpux/pull.h"
#include "gpux/push.h"
#include "library/model_reference.h"
#include "registry/http/url.h"
#include "registry/hub/hub_settings.h"

namespace gpux::server {
namespace {

StoreChangeOptions with_home(StoreChangeOptions options) {
  if (options.home.empty()) options.home = home_folder();
  options.uploads.home = options.home;
  return options;
}

// The library's reports of a transfer, as the status of a job.
PullListener listener_of(const StoreJobs::Tell& tell, std::string what) {
  return {.on_progress =
              [tell, what = std::move(what)](const PullProgress& progress) {
                if (progress.file.empty() && progress.bytes == 0) return;
                const bool is_of_file = !progress.file.empty() && progress.file_bytes != 0;
                tell({.text = is_of_file ? fmt::format("{} {}", what, progress.file) : what,
                      .digest = is_of_file && !progress.file_id.empty() ? "sha256:" + progress.file_id : std::string(),
                      .total = is_of_file ? progress.file_bytes : progress.bytes,
                      .completed = is_of_file ? progress.file_done : progress.done});
              },
          .on_message = [tell](const std::string& line) { tell({.text = line}); }};
}

// The whole error, which may name files of this machine, is for the operator.
template <typename Work>
void logged(const std::string& what, const Work& work) {
  const std::optional<Error> failure = failure_of(work);
  if (!failure) {
    log::info("{}: done", what);
    return;
  }
  log::warning("{}: {}", what, failure->message(log::subject_names()));
  throw Error(*failure);
}

}  // namespace

void require_registry_host(const std::string& host) {
  const bool is_host = !failure_of([&] {
    const registry::Url url = registry::parse_url("https://" + host + "/");
    if (url.authority() != host && fmt::format("{}:{}", url.host, url.port) != host) throw Error(ErrorCode::usage, "");
  });
  if (is_host) return;
  throw Error(ErrorCode::usage, format_message("{} {} is no host; HOST or HOST:PORT is accepted, in lower case",
                                               setting_named("private_registry"), in_quotes(host)));
}

StoreChanges::StoreChanges(StoreChangeOptions options, Uploads::At at)
    : options_(with_home(std::move(options))), uploads_(options_.uploads, std::move(at)), jobs_(options_.max_jobs) {}

std::vector<std::string> StoreChanges::reachable_hosts() const {
  std::vector<std::string> hosts = options_.private_registries;
  // With the port that it has or implies: not all the others of that host.
  const registry::Url hub = registry::parse_url(registry::read_hub_settings(Machine::this_one()).endpoint);
  hosts.push_back(fmt::format("{}:{}", hub.host, hub.port));
  return hosts;
}

bool StoreChanges::is_reference(const std::string& text) noexcept {
  return !failure_of([&] { (void)model_to_pull(text); });
}

namespace {

// Empty where the text is no name of the store.
std::optional<Reference> name_in(const std::string& text) {
  std::optional<Reference> name;
  (void)failure_of([&] { name = parse_reference(text); });
  return name;
}

}  // namespace

std::optional<StoredModel> StoreChanges::find(const std::string& requested) const {
  const Store store(options_.home);
  std::optional<StoredModel> found;
  const std::optional<Reference> name = name_in(requested);
  if (name) found = store.find(*name);
  if (found || !is_reference(requested)) return found;
  return std::visit([&](const auto& reference) { return find_pulled(store, reference); }, model_to_pull(requested));
}

std::optional<std::string> StoreChanges::served_name(const std::string& requested) const {
  const std::optional<StoredModel> found = find(requested);
  if (!found) return std::nullopt;
  return found->reference.tag == "latest" ? found->reference.name : found->reference.text();
}

std::string StoreChanges::stored_digest(const std::string& requested) const {
  std::string digest;
  (void)failure_of([&] {
    if (const std::optional<StoredModel> found = find(requested)) digest = found->digest;
  });
  return digest;
}

std::uint64_t StoreChanges::pull(const std::string& reference, StoreJobs::Listener listener) {
  (void)model_to_pull(reference);
  // As it is written: another digest, revision or file of the same model is another pull.
  return jobs_.start(
      JobKind::pull, reference,
      [this, reference](const std::stop_token& stop, const StoreJobs::Tell& tell) {
        logged(fmt::format("a request pulls {}", reference), [&] {
          PullOptions options;
          options.home = options_.home;
          options.only_public_and = reachable_hosts();
          (void)gpux::pull(reference, options, listener_of(tell, "pulling"), stop);
        });
      },
      std::move(listener));
}

std::uint64_t StoreChanges::push(const std::string& name, StoreJobs::Listener listener) {
  const std::string target = oci::parse_remote_reference(name).text();
  return jobs_.start(
      JobKind::push, target,
      [this, target](const std::stop_token& stop, const StoreJobs::Tell& tell) {
        logged(fmt::format("a request pushes {}", target), [&] {
          PushOptions options;
          options.home = options_.home;
          options.only_public_and = reachable_hosts();
          (void)gpux::push(target, options, listener_of(tell, "pushing " + target), stop);
        });
      },
      std::move(listener));
}

std::uint64_t StoreChanges::create(const ModelCreation& creation, StoreJobs::Listener listener) {
  const std::string name = parse_reference(creation.name).text();
  return jobs_.start(
      JobKind::create, name,
      [this, creation](const std::stop_token& stop, const StoreJobs::Tell& tell) {
        logged(fmt::format("a request creates {}", creation.name), [&] {
          Store store(options_.home);
          (void)create_model(creation, store, uploads_, stop, tell);
        });
      },
      std::move(listener));
}

void StoreChanges::copy(const std::string& source, const std::string& destination) const {
  const std::optional<StoredModel> found = find(source);
  if (!found) throw Error(ErrorCode::not_found, fmt::format("no model {} is stored", in_quotes(source)));
  Store(options_.home).tag(found->reference, parse_reference(destination));
  log::info("a request gives the stored model {} the name {}", found->reference.text(), destination);
}

void StoreChanges::remove(const std::string& name) const {
  const std::optional<StoredModel> found = find(name);
  if (!found) throw Error(ErrorCode::not_found, fmt::format("no model {} is stored", in_quotes(name)));
  (void)Store(options_.home).remove(found->reference);
  log::info("a request removes the stored model {}", found->reference.text());
}

}  // namespace gpux::server

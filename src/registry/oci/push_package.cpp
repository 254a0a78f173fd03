#include "registry/oci/push_package.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "base/sha256.h"
#include "base/start_thread.h"
#include "gpux/error.h"
#include "registry/oci/manifest.h"
#include "registry/oci/sign_package.h"

namespace gpux::oci {
namespace {

/// What is sent together: counts, and stops all at the first error.
class Sending {
 public:
  Sending(Repository& repository, const TransferListener& listener, std::uint64_t total)
      : repository_(repository), listener_(listener), total_(total) {}

  void run(const std::vector<UploadSource>& sources, unsigned connections, PushedPackage& pushed) {
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      for (std::size_t i = next++; i < sources.size() && !failure(); i = next++) send(sources[i], pushed);
    };
    {
      const std::size_t count = std::min<std::size_t>(std::max(1U, connections), sources.size());
      const std::vector<std::jthread> others = start_more_threads(std::max<std::size_t>(count, 1) - 1, work);
      work();
    }
    if (const std::exception_ptr error = failure()) std::rethrow_exception(error);
  }

 private:
  struct Stopped {};

  void send(const UploadSource& source, PushedPackage& pushed) {
    try {
      const Uploaded how = repository_.upload(source, [this](std::int64_t bytes) { add(bytes); });
      const std::lock_guard lock(mutex_);
      if (how == Uploaded::existed) ++pushed.existed;
      if (how == Uploaded::mounted) ++pushed.mounted;
      if (how != Uploaded::sent) return;
      ++pushed.sent;
      pushed.sent_bytes += source.blob.bytes;
    } catch (const Stopped&) {
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
  }

  void add(std::int64_t bytes) {
    if (failure()) throw Stopped();
    const std::lock_guard lock(listener_mutex_);
    done_ += bytes;
    if (listener_.on_progress)
      listener_.on_progress(static_cast<std::uint64_t>(std::max<std::int64_t>(done_, 0)), total_);
  }

  std::exception_ptr failure() {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

  Repository& repository_;
  const TransferListener& listener_;
  const std::uint64_t total_;
  std::int64_t done_ = 0;
  std::mutex mutex_, listener_mutex_;
  std::exception_ptr failure_;
};

std::vector<NamedContents> contents_of_registries(const Store& store) {
  std::vector<NamedContents> all;
  for (const StoredModel& model : store.list()) {
    if (!model.damage.empty() || !names_registry(model.reference.name)) continue;
    all.push_back({model.reference, references_of(store.manifest_of(model), model.reference.text()).blobs});
  }
  return all;
}

}  // namespace

std::string mount_source(const std::string& digest, const RemoteReference& target,
                         const std::vector<NamedContents>& models) {
  for (const NamedContents& model : models) {
    if (std::ranges::find(model.digests, digest) == model.digests.end()) continue;
    const RemoteReference other = parse_remote_reference(model.name.text());
    if (other.registry == target.registry && other.repository != target.repository) return other.repository;
  }
  return {};
}

PushedPackage push_package(Session& session, const StoredModel& model, const RemoteReference& target,
                           const Store& store, const PushOptions& options, const TransferListener& listener) {
  const std::string what = target.text();
  if (!target.digest.empty()) {
    throw Error(ErrorCode::usage,
                fmt::format("cannot push '{}': a tag is needed; the digest follows from the content", what));
  }
  const std::string manifest = store.manifest_of(model);
  const ImageManifest parsed =
      parse_image_manifest(manifest, fmt::format("the manifest of '{}'", model.reference.text()));
  const std::vector<NamedContents> models = contents_of_registries(store);
  std::vector<UploadSource> sources;
  std::uint64_t total = 0;
  for (const Descriptor& one : parsed.contents()) {
    if (const std::string damage = store.blobs().damage(one.blob); !damage.empty()) {
      throw Error(ErrorCode::storage, fmt::format("cannot push '{}': its content sha256:{} {}; build or pull it again",
                                                  model.reference.text(), one.blob.digest, damage));
    }
    sources.push_back(
        {store.blobs().path_of(one.blob.digest), one.blob, mount_source(one.blob.digest, target, models)});
    total += one.blob.bytes;
  }
  Repository repository(session, target.repository, options.repository);
  PushedPackage pushed;
  Sending(repository, listener, total).run(sources, options.connections, pushed);
  // Only now: a manifest never refers to what the registry lacks.
  repository.put_manifest(target.tag, manifest, parsed.media_type);
  pushed.digest = model.digest;
  if (options.signing_key == nullptr) return pushed;
  const Descriptor subject{parsed.media_type, parsed.artifact_type, {model.digest, manifest.size()}, {}, {}};
  sign_package(repository, subject, *options.signing_key);
  pushed.signature_tag = signature_tag(model.digest);
  return pushed;
}

}  // namespace gpux::oci

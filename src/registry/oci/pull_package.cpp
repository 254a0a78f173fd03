#include "registry/oci/pull_package.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "base/format_message.h"
#include "base/memory_size.h"
#include "base/start_thread.h"
#include "gpux/error.h"
#include "registry/oci/manifest.h"

namespace gpux::oci {
namespace {

// For the manifest, the index and the folders.
constexpr std::uint64_t spare_bytes = std::uint64_t{8} << 20;

/// A package as the registry describes it.
struct RemotePackage {
  std::string manifest;
  std::vector<Descriptor> contents;
};

FetchedDocument fetch(Repository& repository, const std::string& selector, const std::string& what) {
  std::optional<FetchedDocument> document = repository.find_manifest(selector);
  if (document) return *std::move(document);
  throw Error(ErrorCode::not_found,
              fmt::format("{} does not exist in the registry, or these credentials may not see it", what));
}

RemotePackage resolve(Repository& repository, FetchedDocument document, const std::string& what) {
  if (kind_of_document(document.text, what) == DocumentKind::index) {
    const Descriptor chosen = choose_model(parse_image_index(document.text, what), what);
    const std::string digest = "sha256:" + chosen.blob.digest;
    document = fetch(repository, digest, fmt::format("{}@{}", repository.text(), digest));
    if (kind_of_document(document.text, what) != DocumentKind::manifest) {
      throw Error(ErrorCode::network, fmt::format("{} is an index of indexes, which is not supported", what));
    }
  }
  // What is damaged is the registry's failure; only what is whole can be no package.
  const ImageManifest manifest = parse_image_manifest(document.text, what);
  try {
    static_cast<void>(decode_manifest(document.text, what));
  } catch (const Error& error) {
    throw Error(
        ErrorCode::invalid_model,
        fmt::format("{}; a package that gpux can use has raw files, of which one ONNX file is clearly the model",
                    error.message()));
  }
  return {std::move(document.text), manifest.contents()};
}

/// What is received together: counts, and stops all at the first error.
class Reception {
 public:
  Reception(Repository& repository, const IncomingBlobs& blobs, const TransferListener& listener, std::uint64_t total,
            std::uint64_t done)
      : repository_(repository), blobs_(blobs), listener_(listener), total_(total), done_(done) {}

  void run(const std::vector<Blob>& missing, unsigned connections) {
    show();
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      for (std::size_t i = next++; i < missing.size() && !failure(); i = next++) receive(missing[i]);
    };
    {
      const std::size_t count = std::min<std::size_t>(std::max(1U, connections), missing.size());
      const std::vector<std::jthread> others = start_more_threads(std::max<std::size_t>(count, 1) - 1, work);
      work();
    }
    if (const std::exception_ptr error = failure()) std::rethrow_exception(error);
  }

  [[nodiscard]] std::uint64_t received() const noexcept { return received_; }

 private:
  /// Thrown to end the other transfers.
  struct Stopped {};

  void receive(const Blob& blob) {
    try {
      IncomingBlob incoming = blobs_.receive(blob, [this] { wait(); });
      repository_.download(blob, incoming, [this](std::uint64_t bytes) { add(bytes); });
    } catch (const Stopped&) {
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
  }

  // Another process, or another thread of a program, receives the same blob.
  void wait() {
    if (failure()) throw Stopped();
    repository_.cancellation().check();
    if (has_waited_.exchange(true) || !listener_.on_note) return;
    const std::lock_guard lock(listener_mutex_);
    listener_.on_note(fmt::format("{}: another pull receives the same files; waiting for it", repository_.text()));
  }

  void add(std::uint64_t bytes) {
    if (failure()) throw Stopped();
    received_ += bytes;
    done_ += bytes;
    show();
  }

  void show() {
    if (!listener_.on_progress) return;
    const std::lock_guard lock(listener_mutex_);
    listener_.on_progress(std::min<std::uint64_t>(done_, total_), total_);
  }

  std::exception_ptr failure() {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

  Repository& repository_;
  const IncomingBlobs& blobs_;
  const TransferListener& listener_;
  const std::uint64_t total_;
  std::atomic<std::uint64_t> done_, received_ = 0;
  std::atomic<bool> has_waited_ = false;
  std::mutex mutex_, listener_mutex_;
  std::exception_ptr failure_;
};

void require_space(const Store& store, std::uint64_t bytes, const std::string& what) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(store.root(), error);
  // Where it cannot be asked, the write that fails tells.
  if (error || bytes <= space.available) return;
  throw Error(ErrorCode::storage,
              format_message("cannot pull {}: {} more are needed in '{}', and {} are free", what, format_bytes(bytes),
                             file_at(store.root()), format_bytes(space.available)));
}

std::uint64_t checked_sum(const std::vector<Descriptor>& contents, const std::string& what) {
  std::uint64_t total = 0;
  for (const Descriptor& one : contents) {
    if (one.blob.bytes > (std::uint64_t{1} << 62U) - total) {
      throw Error(ErrorCode::network, fmt::format("{} is damaged: its sizes are impossible", what));
    }
    total += one.blob.bytes;
  }
  return total;
}

/// The layers of the signatures of a manifest, under the tag that cosign uses or among its referrers.
std::vector<Descriptor> signature_layers(Repository& repository, const std::string& digest) {
  std::vector<Descriptor> layers;
  const auto add = [&](const FetchedDocument& document, const std::string& name) {
    if (kind_of_document(document.text, name) != DocumentKind::manifest) return;
    for (Descriptor& layer : parse_image_manifest(document.text, name).layers) {
      if (layer.media_type == signature_layer_type) layers.push_back(std::move(layer));
    }
  };
  const std::string name = fmt::format("the signature of {}@sha256:{}", repository.text(), digest);
  if (const auto tagged = repository.find_manifest(signature_tag(digest))) add(*tagged, name);
  constexpr std::size_t limit_referrers = 64;
  std::size_t count = 0;
  for (const Descriptor& referrer : repository.referrers(digest)) {
    if (referrer.artifact_type != signature_artifact_type || ++count > limit_referrers) continue;
    if (const auto found = repository.find_manifest("sha256:" + referrer.blob.digest)) add(*found, name);
  }
  return layers;
}

// What --verify-key says besides: cosign 3 writes another format unless it is told not to.
std::string note_on_bundles(Repository& repository, const std::string& digest) {
  constexpr std::string_view bundle_type_prefix = "application/vnd.dev.sigstore.bundle";
  const std::vector<Descriptor> referrers = repository.referrers(digest);
  const bool has_bundle = std::ranges::any_of(
      referrers, [&](const Descriptor& one) { return one.artifact_type.starts_with(bundle_type_prefix); });
  if (!has_bundle) return {};
  return "; it has a sigstore bundle, a format that is not read: 'cosign sign --new-bundle-format=false --key KEY' "
         "makes a signature that is";
}

}  // namespace

std::optional<std::size_t> signer_of(Repository& repository, const std::string& digest,
                                     std::span<const VerifyingKey> keys) {
  constexpr std::size_t limit_signatures = 256;
  std::size_t count = 0;
  for (const Descriptor& layer : signature_layers(repository, digest)) {
    const auto signature = layer.annotations.find(signature_annotation);
    if (signature == layer.annotations.end() || ++count > limit_signatures) continue;
    const std::string payload = repository.read_blob(layer.blob, limit_payload_bytes);
    if (digest_of_payload(payload) != digest) continue;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (keys[i].verifies(payload, signature->second)) return i;
    }
  }
  return std::nullopt;
}

namespace {

// The recorded name of the key that has signed; empty where none is asked for.
std::string require_signature(Repository& repository, const std::string& digest, const std::string& what,
                              const PullOptions& options) {
  if (options.verify_keys.empty()) return {};
  // What was verified before is what it was.
  const bool is_known = digest == options.former.digest &&
                        std::ranges::find(options.key_names, options.former.verified_by) != options.key_names.end();
  if (is_known) return options.former.verified_by;
  if (const auto signer = signer_of(repository, digest, options.verify_keys)) return options.key_names.at(*signer);
  throw Error(ErrorCode::network, format_message("{} (sha256:{}) has no signature of this key ({}): it is refused{}",
                                                 what, digest, options.keys_from, note_on_bundles(repository, digest)));
}

}  // namespace

PulledPackage pull_package(Session& session, const RemoteReference& reference, Store& store, const PullOptions& options,
                           const TransferListener& listener) {
  Repository repository(session, reference.repository);
  const std::string what = reference.text();
  FetchedDocument document = fetch(repository, reference.selector(), what);
  const std::string verified_by = require_signature(repository, document.digest, what, options);
  const RemotePackage package = resolve(repository, std::move(document), what);
  const std::uint64_t total = checked_sum(package.contents, what);

  const IncomingBlobs blobs(store.root());
  PulledPackage pulled;
  bool is_first = true;
  const auto receive_missing = [&] {
    std::vector<Blob> missing;
    std::uint64_t present = 0, needed = 0;
    for (const Descriptor& one : package.contents) {
      if (store.has(one.blob)) {
        present += one.blob.bytes;
        continue;
      }
      const std::uint64_t received = blobs.received(one.blob);
      present += received;
      needed += one.blob.bytes - received;
      missing.push_back(one.blob);
    }
    if (needed != 0) require_space(store, needed + spare_bytes, what);
    if (is_first) {
      pulled.was_complete = missing.empty();
      if (!pulled.was_complete) pulled.reused_bytes = present;
    } else if (listener.on_note) {
      listener.on_note(fmt::format("{}: files that were here have been removed: they are received again", what));
    }
    is_first = false;
    Reception reception(repository, blobs, listener, total, present);
    reception.run(missing, options.connections);
    pulled.received_bytes += reception.received();
  };
  const std::vector<Reference> names =
      options.names.empty() ? std::vector<Reference>{reference.stored_name()} : options.names;
  pulled.stored = store.adopt(package.manifest, blobs, names, what, receive_missing, verified_by);
  return pulled;
}

}  // namespace gpux::oci

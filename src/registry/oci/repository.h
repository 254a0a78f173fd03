#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "registry/http/retry.h"
#include "registry/oci/manifest.h"
#include "registry/oci/session.h"
#include "store/incoming.h"

namespace gpux::oci {

/// A manifest or an index as the registry serves it.
struct FetchedDocument {
  std::string text;
  std::string digest;  ///< digest of the text
};

/// A blob of a file, to be uploaded.
struct UploadSource {
  std::filesystem::path file;
  Blob blob;
  std::string mount_from;  ///< a repository of the registry that may have the blob; empty: none
};

enum class Uploaded : unsigned char { existed, mounted, sent };

/// Told of every piece that was transferred. May throw to end the transfer.
using TransferObserver = std::function<void(std::uint64_t bytes)>;

/// One repository of a registry: the requests of the OCI distribution protocol 1.1. Thread-safe.
class Repository {
 public:
  struct Options {
    std::uint64_t chunk_bytes = std::uint64_t{32} << 20;  ///< blobs above it are uploaded in chunks of this size
    registry::RetryPolicy retry = {};
  };

  Repository(Session& session, std::string name);
  Repository(Session& session, std::string name, Options options);

  /// Name of the repository with its registry: "host/team/digits".
  [[nodiscard]] std::string text() const { return session_.registry() + "/" + name_; }

  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// Cancellation of the session.
  [[nodiscard]] const Cancellation& cancellation() const noexcept { return session_.cancellation(); }

  /// The document of a tag or "sha256:DIGEST", its digest checked; empty if there is none. Errors network (another
  /// digest, above 4 MiB), permission.
  std::optional<FetchedDocument> find_manifest(const std::string& selector);

  /// A small blob, its digest checked. Errors network (another digest, above `limit_bytes`), not_found, permission.
  std::string read_blob(const Blob& blob, std::uint64_t limit_bytes);

  /// Receives what is missing of the blob. A connection that is cut is continued where it was. Errors network (also
  /// for another digest or size), not_found, permission, storage; of the observer.
  void download(const Blob& blob, IncomingBlob& incoming, const TransferObserver& observer);

  /// Uploads the blob unless the repository has it. An upload that is cut continues where the registry says. Errors
  /// network, permission, not_found; of the observer, which is told how many more bytes the registry has: fewer than
  /// before after a restart, so that the sum is right.
  Uploaded upload(const UploadSource& source, const std::function<void(std::int64_t)>& observer);

  /// Puts a manifest under a tag or its digest. Error network if the registry gives it another digest.
  /// Whether the registry lists it among the referrers of its subject by itself.
  bool put_manifest(const std::string& selector, const std::string& text, const std::string& media_type);

  /// Manifests that refer to this one: by the referrers API, or the tag "sha256-DIGEST" where the registry lacks it.
  std::vector<Descriptor> referrers(const std::string& digest);

 private:
  struct Upload;

  [[nodiscard]] std::string path(const std::string& rest) const { return "/v2/" + name_ + "/" + rest; }

  [[nodiscard]] std::vector<std::string> pull_scope() const { return {"repository:" + name_ + ":pull"}; }

  [[nodiscard]] std::vector<std::string> push_scope(const std::string& mount_from = {}) const;
  bool has_blob(const Blob& blob);
  /// Waits as the policy says; throws `failure` after the last attempt.
  void wait_before(unsigned attempt, const Error& failure) const;
  void receive_once(const Blob& blob, IncomingBlob& incoming, const TransferObserver& observer);
  bool begin_upload(const UploadSource& source, Upload& upload);
  /// begin_upload(), again without the mount if that is refused.
  bool mount_or_begin(UploadSource& source, Upload& upload);
  void send_rest(const UploadSource& source, Upload& upload, const std::function<void(std::int64_t)>& observer);
  void find_offset(const UploadSource& source, Upload& upload, const std::function<void(std::int64_t)>& observer);
  void follow(const registry::Response& answer, Upload& upload) const;

  Session& session_;
  std::string name_;
  Options options_;
};

/// The last byte that a registry has of an upload, from its Range header "0-1023"; empty if it is malformed.
std::optional<std::uint64_t> parse_upload_range(std::string_view value);

}  // namespace gpux::oci

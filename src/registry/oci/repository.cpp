#include "registry/oci/repository.h"

#include <algorithm>
#include <random>

#include <fmt/format.h>

#include "base/sha256.h"
#include "gpux/error.h"
#include "registry/http/header_block.h"
#include "registry/oci/registry_errors.h"

namespace gpux::oci {
namespace {

using registry::Method;
using registry::Request;
using registry::Response;

constexpr int not_found = 404;
constexpr int partial_content = 206;
constexpr int range_not_satisfiable = 416;

const std::string& accepted_documents() {
  static const std::string types =
      fmt::format("{}, {}, {}, {}", image_manifest_type, image_index_type, docker_manifest_type, docker_list_type);
  return types;
}

void require_digest(const std::string& digest, const std::string& stated, const std::string& what) {
  if (!stated.starts_with("sha256:") || stated == "sha256:" + digest) return;
  throw Error(ErrorCode::network,
              fmt::format("{} has the checksum sha256:{}, but {} is expected: it is refused", what, digest, stated));
}

}  // namespace

Repository::Repository(Session& session, std::string name) : Repository(session, std::move(name), Options{}) {}

Repository::Repository(Session& session, std::string name, Options options)
    : session_(session), name_(std::move(name)), options_(options) {}

std::vector<std::string> Repository::push_scope(const std::string& mount_from) const {
  std::vector<std::string> scopes{"repository:" + name_ + ":pull,push"};
  if (!mount_from.empty()) scopes.push_back("repository:" + mount_from + ":pull");
  return scopes;
}

void Repository::wait_before(unsigned attempt, const Error& failure) const {
  thread_local std::minstd_rand random(std::random_device{}());
  const double spread = std::uniform_real_distribution<double>(0, 1)(random);
  const registry::Attempt ended{attempt, 0, true};
  const std::optional<std::chrono::milliseconds> delay = registry::retry_delay(options_.retry, ended, spread);
  if (!delay) throw Error(failure);
  registry::wait_for(*delay, cancellation());
}

std::optional<FetchedDocument> Repository::find_manifest(const std::string& selector) {
  const std::string what = fmt::format("{}{}{}", text(), selector.starts_with("sha256:") ? "@" : ":", selector);
  Request request;
  request.url = path("manifests/" + selector);
  request.headers.emplace_back("Accept", accepted_documents());
  request.limit_body_bytes = limit_manifest_bytes;
  const Response answer = session_.send(std::move(request), pull_scope());
  if (answer.status == not_found) return std::nullopt;
  if (answer.status != 200) throw error_of_status("cannot read the manifest of " + what, answer.status, answer.body);
  FetchedDocument document{answer.body, sha256_of(answer.body)};
  const std::string name = "the manifest of " + what;
  if (selector.starts_with("sha256:")) require_digest(document.digest, selector, name);
  require_digest(document.digest, answer.headers.find("docker-content-digest"), name);
  return document;
}

std::string Repository::read_blob(const Blob& blob, std::uint64_t limit_bytes) {
  const std::string name = fmt::format("sha256:{} of {}", blob.digest, text());
  if (blob.bytes > limit_bytes) {
    throw Error(ErrorCode::network,
                fmt::format("{} has {} bytes, more than the {} that are read", name, blob.bytes, limit_bytes));
  }
  Request request;
  request.url = path("blobs/sha256:" + blob.digest);
  request.limit_body_bytes = limit_bytes;
  Response answer = session_.send(std::move(request), pull_scope());
  if (answer.status != 200) throw error_of_status("cannot read " + name, answer.status, answer.body);
  require_digest(sha256_of(answer.body), "sha256:" + blob.digest, name);
  return std::move(answer.body);
}

void Repository::receive_once(const Blob& blob, IncomingBlob& incoming, const TransferObserver& observer) {
  const std::string name = fmt::format("sha256:{} of {}", blob.digest, text());
  Request request;
  request.url = path("blobs/sha256:" + blob.digest);
  const std::uint64_t start = incoming.received();
  if (start != 0) request.range = registry::ByteRange{start};
  request.on_answer = [&](const Response& answer) {
    if (start == 0) return;
    const auto range = registry::parse_content_range(answer.headers.find("content-range"));
    const bool continues = answer.status == partial_content && range && range->first == start;
    if (!continues) incoming.restart();  // the whole blob comes
    if (answer.status != partial_content || continues) return;
    throw Error(ErrorCode::network,
                fmt::format("cannot read {}: the registry sends another range than byte {} on", name, start));
  };
  request.on_body = [&](std::span<const std::byte> bytes) {
    if (bytes.size() > blob.bytes - incoming.received()) {
      throw Error(ErrorCode::network, fmt::format("{} is longer than the {} bytes of its manifest", name, blob.bytes));
    }
    incoming.append(bytes);
    observer(bytes.size());
  };
  const Response answer = session_.send(std::move(request), pull_scope());
  if (answer.status == range_not_satisfiable && start != 0) {
    incoming.restart();
    throw registry::TransferError(ErrorCode::network, fmt::format("cannot read {} from byte {} on", name, start), true);
  }
  if (!answer.is_success()) throw error_of_status("cannot read " + name, answer.status, answer.body);
  if (incoming.received() < blob.bytes) {
    throw registry::TransferError(
        ErrorCode::network,
        fmt::format("cannot read {}: it ended after {} of {} bytes", name, incoming.received(), blob.bytes), true);
  }
}

void Repository::download(const Blob& blob, IncomingBlob& incoming, const TransferObserver& observer) {
  bool was_resumed = incoming.received() != 0;
  registry::ResumedAttempts attempts(incoming.received());
  while (!incoming.is_finished()) {
    const std::uint64_t before = incoming.received();
    try {
      if (before < blob.bytes) receive_once(blob, incoming, observer);
    } catch (const registry::TransferError& error) {
      // Where nothing arrived, the client has tried it again already.
      if (!error.is_transient() || incoming.received() == before) throw;
      wait_before(attempts.failed_at(incoming.received()), error);
      continue;
    }
    if (incoming.finish()) return;
    // What an earlier attempt left may be damaged, as after a loss of power.
    if (!was_resumed) {
      throw Error(ErrorCode::network, fmt::format("sha256:{} of {} has another checksum than its name says: it is "
                                                  "refused",
                                                  blob.digest, text()));
    }
    was_resumed = false;
  }
}

bool Repository::has_blob(const Blob& blob) {
  Request request;
  request.method = Method::head;
  request.url = path("blobs/sha256:" + blob.digest);
  const Response answer = session_.send(std::move(request), push_scope());
  if (answer.status == not_found) return false;
  if (answer.status == 200) return true;
  throw error_of_status(fmt::format("cannot push to {}", text()), answer.status, answer.body);
}

bool Repository::put_manifest(const std::string& selector, const std::string& manifest, const std::string& media_type) {
  Request request;
  request.method = Method::put;
  request.url = path("manifests/" + selector);
  request.headers.emplace_back("Content-Type", media_type);
  request.body = manifest;
  const Response answer = session_.send(std::move(request), push_scope());
  const std::string name = fmt::format("{}{}{}", text(), selector.starts_with("sha256:") ? "@" : ":", selector);
  if (!answer.is_success()) throw error_of_status("cannot push " + name, answer.status, answer.body);
  require_digest(sha256_of(manifest), answer.headers.find("docker-content-digest"),
                 fmt::format("the manifest sent as {}", name));
  return answer.headers.has("oci-subject");
}

std::vector<Descriptor> Repository::referrers(const std::string& digest) {
  Request request;
  request.url = path("referrers/sha256:" + digest);
  request.headers.emplace_back("Accept", image_index_type);
  request.limit_body_bytes = limit_manifest_bytes;
  const Response answer = session_.send(std::move(request), pull_scope());
  const std::string name = fmt::format("the list of referrers of {}@sha256:{}", text(), digest);
  if (answer.status == 200 && answer.headers.find("content-type").starts_with(image_index_type)) {
    return parse_image_index(answer.body, name).manifests;
  }
  const std::optional<FetchedDocument> tagged = find_manifest("sha256-" + digest);
  if (!tagged) return {};
  return parse_image_index(tagged->text, name).manifests;
}

}  // namespace gpux::oci

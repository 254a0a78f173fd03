#include <algorithm>

#include <fmt/format.h>

#include "gpux/error.h"
#include "registry/http/header_block.h"
#include "registry/http/url.h"
#include "registry/oci/registry_errors.h"
#include "registry/oci/repository.h"

namespace gpux::oci {
namespace {

using registry::Method;
using registry::Request;
using registry::Response;

constexpr int created = 201;
constexpr int accepted = 202;
constexpr int no_content = 204;
constexpr int bad_request = 400;
constexpr int not_found = 404;
constexpr int range_not_satisfiable = 416;

std::string with_digest(const std::string& location, const Blob& blob) {
  return fmt::format("{}{}digest=sha256%3A{}", location, location.find('?') == std::string::npos ? '?' : '&',
                     blob.digest);
}

std::string attempt_of(const UploadSource& source, const std::string& repository) {
  return fmt::format("cannot upload sha256:{} to {}", source.blob.digest, repository);
}

}  // namespace

struct Repository::Upload {
  std::string location;
  std::uint64_t offset = 0;       ///< bytes that the registry has
  std::uint64_t chunk_bytes = 0;  ///< of a request
  bool is_resumed = false;        ///< after a cut
};

std::optional<std::uint64_t> parse_upload_range(std::string_view value) {
  // Some registries write the unit of RFC 9110.
  for (const std::string_view unit : {"bytes=", "bytes "}) {
    if (value.starts_with(unit)) value.remove_prefix(unit.size());
  }
  const std::size_t dash = value.find('-');
  if (dash == std::string_view::npos || value.substr(0, dash) != "0") return std::nullopt;
  return registry::parse_decimal(value.substr(dash + 1));
}

void Repository::follow(const Response& answer, Upload& upload) const {
  const std::string location = answer.headers.find("location");
  if (location.empty()) {
    throw Error(ErrorCode::network,
                fmt::format("cannot push to {}: the registry gives no place for an upload", text()));
  }
  upload.location = registry::redirect_url(registry::parse_url(answer.url), location).text();
}

bool Repository::begin_upload(const UploadSource& source, Upload& upload) {
  Request request;
  request.method = Method::post;
  request.url = path("blobs/uploads/");
  request.body = std::string();
  request.is_repeatable = true;  // an upload that has begun and gets nothing is forgotten
  if (!source.mount_from.empty()) {
    request.url +=
        fmt::format("?mount=sha256%3A{}&from={}", source.blob.digest, registry::percent_encoded(source.mount_from));
  }
  const Response answer = session_.send(std::move(request), push_scope(source.mount_from));
  if (answer.status == created) return true;
  if (answer.status != accepted) throw error_of_status(attempt_of(source, text()), answer.status, answer.body);
  follow(answer, upload);
  const std::optional<std::uint64_t> least = registry::parse_decimal(answer.headers.find("oci-chunk-min-length"));
  upload.chunk_bytes = std::max(options_.chunk_bytes, least.value_or(0));
  upload.offset = 0;
  return false;
}

void Repository::find_offset(const UploadSource& source, Upload& upload,
                             const std::function<void(std::int64_t)>& observer) {
  std::uint64_t offset = 0;
  Response answer;
  if (!upload.location.empty()) {
    Request request;
    request.url = upload.location;
    answer = session_.send(std::move(request), push_scope(source.mount_from));
    upload.is_resumed = true;
  }
  if (answer.status == no_content || answer.status == accepted) {
    const std::optional<std::uint64_t> last = parse_upload_range(answer.headers.find("range"));
    // "0-0" means none as well as one byte.
    offset = last && *last != 0 ? *last + 1 : 0;
    if (answer.headers.has("location")) follow(answer, upload);
  }
  const bool is_usable = offset <= source.blob.bytes && offset != 0;
  observer(static_cast<std::int64_t>(is_usable ? offset : 0) - static_cast<std::int64_t>(upload.offset));
  upload.offset = offset;
  if (is_usable) return;
  // The upload is gone, or has what the file has not.
  if (begin_upload({source.file, source.blob, {}}, upload)) upload.offset = source.blob.bytes;
}

void Repository::send_rest(const UploadSource& source, Upload& upload,
                           const std::function<void(std::int64_t)>& observer) {
  const std::vector<std::string> scopes = push_scope(source.mount_from);
  const std::uint64_t size = source.blob.bytes;
  const auto send = [&](Method method, const std::string& url, std::uint64_t bytes) {
    Request request;
    request.method = method;
    request.url = url;
    request.headers.emplace_back("Content-Type", "application/octet-stream");
    // What the registry got of a request that failed is asked for, and not sent again blindly.
    request.retry.max_attempts = 1;
    request.needs_new_connection = bytes != 0;
    if (bytes == 0) {
      request.body = std::string();
    } else {
      request.body = registry::FileRange{source.file, upload.offset, bytes};
      if (method == Method::patch) {
        request.headers.emplace_back("Content-Range", fmt::format("{}-{}", upload.offset, upload.offset + bytes - 1));
      }
    }
    return session_.send(std::move(request), scopes);
  };
  const auto require = [&](const Response& answer, int status) {
    if (answer.status == status) return;
    const Error failure = error_of_status(attempt_of(source, text()), answer.status, answer.body);
    // A registry that got some bytes twice finds out at the end.
    if (answer.status == bad_request && upload.is_resumed && status == created) {
      upload.location.clear();
      upload.is_resumed = false;
      throw registry::TransferError(failure, true);
    }
    const bool may_resume = registry::is_transient_status(answer.status) || answer.status == range_not_satisfiable ||
                            answer.status == not_found;
    if (may_resume) throw registry::TransferError(failure, true);
    throw Error(failure);
  };
  const auto advance = [&](std::uint64_t offset) {
    observer(static_cast<std::int64_t>(offset) - static_cast<std::int64_t>(upload.offset));
    upload.offset = offset;
  };
  const bool is_whole = upload.offset == 0 && size <= upload.chunk_bytes;
  while (!is_whole && upload.offset < size) {
    const std::uint64_t bytes = std::min(upload.chunk_bytes, size - upload.offset);
    const Response answer = send(Method::patch, upload.location, bytes);
    require(answer, accepted);
    const std::optional<std::uint64_t> last = parse_upload_range(answer.headers.find("range"));
    const std::uint64_t reached = last ? *last + 1 : upload.offset + bytes;
    if (reached > size || reached <= upload.offset) {
      throw Error(ErrorCode::network, fmt::format("{}: the registry says that it has {} of {} bytes",
                                                  attempt_of(source, text()), reached, size));
    }
    follow(answer, upload);
    advance(reached);
  }
  const Response answer = send(Method::put, with_digest(upload.location, source.blob), is_whole ? size : 0);
  require(answer, created);
  advance(size);
}

bool Repository::mount_or_begin(UploadSource& source, Upload& upload) {
  if (source.mount_from.empty()) return begin_upload(source, upload);
  try {
    return begin_upload(source, upload);
  } catch (const registry::TransferError&) {
    throw;
  } catch (const Error&) {
    // The other repository is a name of this machine's store: it may be somebody else's, or not exist.
    source.mount_from.clear();
    return begin_upload(source, upload);
  }
}

Uploaded Repository::upload(const UploadSource& given, const std::function<void(std::int64_t)>& observer) {
  UploadSource source = given;
  const auto size = static_cast<std::int64_t>(source.blob.bytes);
  if (has_blob(source.blob)) {
    observer(size);
    return Uploaded::existed;
  }
  Upload upload;
  if (mount_or_begin(source, upload)) {
    observer(size);
    return Uploaded::mounted;
  }
  for (registry::ResumedAttempts attempts(0);;) {
    try {
      send_rest(source, upload, observer);
      return Uploaded::sent;
    } catch (const registry::TransferError& error) {
      if (!error.is_transient()) throw;
      // What the registry has of a request that was cut is known when it is asked below, for the next attempt.
      wait_before(attempts.failed_at(upload.offset), error);
    }
    // The answer may have been lost, and not the upload.
    if (has_blob(source.blob)) {
      observer(size - static_cast<std::int64_t>(upload.offset));
      return Uploaded::sent;
    }
    find_offset(source, upload, observer);
  }
}

}  // namespace gpux::oci

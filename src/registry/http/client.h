#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/cancellation.h"
#include "gpux/error.h"
#include "registry/http/header_block.h"
#include "registry/http/retry.h"

namespace gpux::registry {

enum class Method : std::uint8_t { get, head, post, put, patch, remove };

/// Name of the method: "GET".
std::string_view to_string(Method method) noexcept;

/// A part of a file as the body of a request.
struct FileRange {
  std::filesystem::path file;
  std::uint64_t offset = 0, size = 0;
};

/// Bytes `first` to `last`, both included.
struct ByteRange {
  std::uint64_t first = 0;
  std::optional<std::uint64_t> last = {};  ///< empty: to the end
};

/// An answer, the last one where redirects were followed.
struct Response {
  int status = 0;
  Headers headers;
  std::string body;                                        ///< empty where it was given to Request::on_body
  std::string url;                                         ///< that answered
  std::vector<std::pair<std::string, Headers>> redirects;  ///< URLs that redirected, with their headers, in order

  [[nodiscard]] bool is_success() const noexcept { return status >= 200 && status < 300; }
};

struct Request {
  Method method = Method::get;
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers = {};
  /// "Bearer …" or "Basic …": sent to the scheme, host and port of `url` alone, also after redirects.
  std::string authorization = {};
  /// The body: none, text, or a part of a file, which is read while it is sent.
  std::variant<std::monostate, std::string, FileRange> body = {};
  std::optional<ByteRange> range = {};
  unsigned max_redirects = 10;  ///< 0: a redirect is the answer
  /// The body is a secret: a redirect to another scheme, host or port is an error.
  bool has_secret_body = false;
  /// The longest body that Response::body takes; a longer one is an error, or is cut where the answer is no success.
  std::uint64_t limit_body_bytes = std::uint64_t{16} << 20;

  /// Called before the body, once for an attempt that succeeds (2xx): may throw to end the transfer.
  std::function<void(const Response&)> on_answer = {};
  /// Takes the body of an answer that succeeds, piece by piece, on the calling thread; may throw to end the transfer.
  std::function<void(std::span<const std::byte>)> on_body = {};
  /// Bytes of the body that were sent so far.
  std::function<void(std::uint64_t)> on_sent = {};

  /// On a connection of its own: if a kept connection dies before the answer, libcurl repeats the request by itself.
  bool needs_new_connection = false;

  /// Attempts: repeated are GET, HEAD, PUT and DELETE, other methods only after 429 and 503, unless they are
  /// repeatable; never when on_body was given bytes.
  RetryPolicy retry = {};
  /// A POST or PATCH that does no harm twice.
  bool is_repeatable = false;
};

/// TLS files: the trusted authorities, and the certificate and key of the client.
struct TlsFiles {
  std::filesystem::path ca_file;  ///< trusted instead of the system's; empty: the default
  std::filesystem::path certificate, key;
};

struct ClientOptions {
  std::chrono::milliseconds connect_timeout{15'000};
  std::chrono::seconds stall_timeout{60};  ///< a transfer ends that is slower than the least speed for so long
  std::uint64_t min_bytes_per_second = 512;
  std::chrono::seconds document_timeout{300};  ///< a request ends that is not answered whole, to Response::body
  /// Trusted authorities, a PEM file or a folder. Empty: CURL_CA_BUNDLE, REQUESTS_CA_BUNDLE, SSL_CERT_FILE,
  /// SSL_CERT_DIR, in this order; without them the system's.
  std::filesystem::path ca_file;
  /// For a host, "HOST" or "HOST:PORT": takes precedence over ca_file where it names files. May be null.
  std::function<TlsFiles(const std::string&)> tls_files_of;
  std::set<std::string> insecure_hosts;  ///< "HOST" or "HOST:PORT": their certificates are not checked
  /// Connections are made to addresses of the internet alone (public_address.h), and to these hosts, "HOST" or
  /// "HOST:PORT": for what somebody else asks for. A proxy decides itself what it reaches, by names that are no private
  /// address. Empty: to any.
  std::optional<std::set<std::string>> only_public_and = {};
  Cancellation cancellation;
  /// Told of each wait before a request is repeated: the reason in one line, and the delay. May be null.
  std::function<void(const std::string&, std::chrono::milliseconds)> on_retry;
};

/// A request that got no answer, or not all of it.
class TransferError : public Error {
 public:
  TransferError(ErrorCode code, const std::string& message, bool is_transient)
      : TransferError(Error(code, message), is_transient) {}

  TransferError(const Error& error, bool is_transient) : Error(error), is_transient_(is_transient) {}

  /// Whether the next attempt may succeed: a connection was cut, refused or stalled.
  [[nodiscard]] bool is_transient() const noexcept { return is_transient_; }

 private:
  bool is_transient_;
};

/// HTTP over libcurl, which is opened by the first request. Any number of threads may use one client at a time;
/// connections are kept and reused. Proxies are those of http_proxy, https_proxy, all_proxy and no_proxy; addresses of
/// this machine are asked without one. A redirect from https to http is refused.
/// An address that only_public_and excludes is Error permission.
class Client {
 public:
  explicit Client(ClientOptions options = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Sends the request, again after a transient failure as its policy says, and follows redirects (301, 302, 303, 307,
  /// 308). Any status is an answer: callers judge it. Errors: TransferError (network); network (too long, a redirect
  /// that is refused, libcurl missing); usage (the URL); of the callbacks and of Cancellation::check(); not_found,
  /// permission (files).
  Response send(const Request& request);

  [[nodiscard]] const ClientOptions& options() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpux::registry

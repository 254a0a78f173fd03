#include "registry/http/transfer.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/files.h"
#include "base/format_message.h"
#include "base/home.h"
#include "base/in_quotes.h"
#include "base/spelling.h"
#include "base/unique_fd.h"
#include "registry/http/connection_guard.h"
#include "registry/http/curl_library.h"

namespace gpux::registry {
namespace {

namespace fs = std::filesystem;

struct HeaderList {
  HeaderList() = default;
  HeaderList(const HeaderList&) = delete;
  HeaderList& operator=(const HeaderList&) = delete;

  ~HeaderList() { CurlLibrary::get().slist_free_all(list); }

  void add(const std::string& line) {
    if (line.find_first_of("\r\n") != std::string::npos || line.find('\0') != std::string::npos) {
      throw Error(ErrorCode::usage, "a header of an HTTP request would contain a line break");
    }
    curl_slist* longer = CurlLibrary::get().slist_append(list, line.c_str());
    if (longer == nullptr) throw Error(ErrorCode::resource_exhausted, "no memory is left for an HTTP request");
    list = longer;
  }

  curl_slist* list = nullptr;
};

/// What libcurl's callbacks work on.
struct Transfer {
  Transfer(const Request& the_request, CURL* the_easy, bool& has_received)
      : request(the_request), easy(the_easy), received(has_received) {
    const auto* part = std::get_if<FileRange>(&request.body);
    if (part == nullptr) return;
    file.reset(::open(part->file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) throw_file_error("open", part->file, errno);
  }

  void read_status() {
    long status = 0;
    CurlLibrary::get().easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    response.status = static_cast<int>(status);
    response.headers = block.headers();
  }

  // Before the first byte of the body, or where there is none.
  void begin_answer() {
    if (std::exchange(is_answered, true)) return;
    read_status();
    if (response.is_success() && request.on_answer) request.on_answer(response);
  }

  // How many of the bytes were taken; fewer end the transfer.
  std::size_t take(std::span<const char> bytes) {
    begin_answer();
    if (response.is_success() && request.on_body) {
      received = true;
      request.on_body(std::as_bytes(bytes));
      return bytes.size();
    }
    constexpr std::uint64_t limit_failure_bytes = std::uint64_t{64} << 10;
    const std::uint64_t limit =
        response.is_success() ? request.limit_body_bytes : std::min(request.limit_body_bytes, limit_failure_bytes);
    const std::size_t left = limit - std::min<std::uint64_t>(limit, response.body.size());
    response.body.append(bytes.data(), std::min(bytes.size(), left));
    is_cut = bytes.size() > left;
    return is_cut ? left : bytes.size();
  }

  std::size_t give(std::span<char> space) {
    const auto& part = std::get<FileRange>(request.body);
    const std::size_t wanted = std::min<std::uint64_t>(space.size(), part.size - sent);
    if (wanted == 0) return 0;
    const ssize_t count = ::pread(file.get(), space.data(), wanted, static_cast<off_t>(part.offset + sent));
    if (count < 0) throw_file_error("read", part.file, errno);
    if (count == 0) {
      throw Error(ErrorCode::storage,
                  fmt::format("{} became shorter while it was sent", in_quotes(part.file.string())));
    }
    sent += static_cast<std::size_t>(count);
    if (request.on_sent) request.on_sent(sent);
    return static_cast<std::size_t>(count);
  }

  const Request& request;
  CURL* easy;
  bool& received;
  Response response;
  HeaderBlock block;
  UniqueFd file;
  std::uint64_t sent = 0;
  bool has_status = false, is_answered = false, is_cut = false;
  std::exception_ptr failure;
};

/// No exception may leave a callback: it ends the transfer, and is thrown when libcurl has returned.
template <typename Work>
std::size_t guarded(Transfer& transfer, std::size_t failure_result, const Work& work) noexcept {
  try {
    return work();
  } catch (...) {
    transfer.failure = std::current_exception();
    return failure_result;
  }
}

std::size_t on_header(char* bytes, std::size_t size, std::size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  return guarded(transfer, 0, [&] {
    transfer.has_status = true;
    transfer.block.add_line({bytes, size * count});
    return size * count;
  });
}

std::size_t on_write(char* bytes, std::size_t size, std::size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  return guarded(transfer, 0, [&] { return transfer.take({bytes, size * count}); });
}

std::size_t on_read(char* space, std::size_t size, std::size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  return guarded(transfer, CURL_READFUNC_ABORT, [&] { return transfer.give({space, size * count}); });
}

int on_seek(void* self, curl_off_t offset, int origin) {
  if (origin != SEEK_SET || offset < 0) return CURL_SEEKFUNC_CANTSEEK;
  static_cast<Transfer*>(self)->sent = static_cast<std::uint64_t>(offset);
  return CURL_SEEKFUNC_OK;
}

curl_socket_t on_open(void* self, curlsocktype /*purpose*/, curl_sockaddr* address) {
  if (!static_cast<ConnectionGuard*>(self)->may_connect(address->addr)) return CURL_SOCKET_BAD;
  return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/// Whether curl's failure is one of this moment: of a connection that was cut or stalled.
bool is_transient(CURLcode code) {
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return true;
    default:
      return false;
  }
}

Message remedy_for(CURLcode code, const Url& url) {
  switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
      return format_message(
          "; an authority of your own is named with {} or SSL_CERT_FILE; {} {} accepts any certificate of this host",
          setting_named("ca_file"), setting_named("insecure"), url.authority());
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
      return {"; proxies are set with https_proxy, http_proxy and no_proxy"};
    default:
      return {};
  }
}

struct TrustedAuthorities {
  fs::path file, folder;
};

TrustedAuthorities trusted_from(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return {.file = {}, .folder = path};
  if (fs::exists(path, error)) return {.file = path, .folder = {}};
  throw Error(ErrorCode::not_found,
              fmt::format("cannot open {} with trusted authorities: no such file", in_quotes(path.string())));
}

// In the order in which curl and Python's requests give them precedence.
TrustedAuthorities trusted_of(const ClientOptions& options, const TlsFiles& of_host) {
  if (!of_host.ca_file.empty()) return trusted_from(of_host.ca_file);
  if (!options.ca_file.empty()) return trusted_from(options.ca_file);
  for (const char* name : {"CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"}) {
    if (const std::string path = environment_variable(name); !path.empty()) return trusted_from(path);
  }
  return {.file = {}, .folder = environment_variable("SSL_CERT_DIR")};
}

}  // namespace

struct Connection::Handles {
  Handles() : curl(CurlLibrary::get()), multi(curl.multi_init()), easy(curl.easy_init()) {
    if (multi == nullptr || easy == nullptr) throw Error(ErrorCode::resource_exhausted, "libcurl has no memory left");
  }

  ~Handles() {
    if (easy != nullptr) curl.easy_cleanup(easy);
    if (multi != nullptr) curl.multi_cleanup(multi);
  }

  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;

  template <typename Value>
  void set(CURLoption option, Value value) const {
    const CURLcode code = curl.easy_setopt(easy, option, value);
    if (code != CURLE_OK) {
      throw Error(ErrorCode::network,
                  fmt::format("libcurl refuses its option {}: {}", static_cast<int>(option), curl.easy_strerror(code)));
    }
  }

  void set_connection(const Request& request, const ClientOptions& options, bool is_document) const {
    set(CURLOPT_PATH_AS_IS, 1L);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_FRESH_CONNECT, request.needs_new_connection ? 1L : 0L);
    set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    set(CURLOPT_TCP_KEEPALIVE, 1L);
    constexpr long buffer_bytes = 256L << 10;
    set(CURLOPT_BUFFERSIZE, buffer_bytes);
    set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options.connect_timeout.count()));
    set(CURLOPT_LOW_SPEED_LIMIT, static_cast<long>(options.min_bytes_per_second));
    set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(options.stall_timeout.count()));
    if (is_document)
      set(CURLOPT_TIMEOUT_MS, static_cast<long>(std::chrono::milliseconds(options.document_timeout).count()));
  }

  void set_security(const Url& url, const ClientOptions& options) const {
    if (url.scheme != "https") return;
    if (names_host(options.insecure_hosts, url)) {
      set(CURLOPT_SSL_VERIFYPEER, 0L);
      set(CURLOPT_SSL_VERIFYHOST, 0L);
    }
    TlsFiles files;
    if (options.tls_files_of) files = options.tls_files_of(url.authority());
    const TrustedAuthorities trusted = trusted_of(options, files);
    if (!trusted.file.empty()) set(CURLOPT_CAINFO, trusted.file.c_str());
    if (!trusted.folder.empty()) set(CURLOPT_CAPATH, trusted.folder.c_str());
    if (!files.certificate.empty()) set(CURLOPT_SSLCERT, files.certificate.c_str());
    if (!files.key.empty()) set(CURLOPT_SSLKEY, files.key.c_str());
  }

  // libcurl reads the variables of proxies in both spellings, except HTTP_PROXY: for a CGI program, that is a header of
  // the client. Such a program has REQUEST_METHOD.
  void set_proxy(const Url& url) const {
    if (is_loopback(url.host)) {
      // A proxy would ask its own machine, and read what is sent without encryption because nobody can listen here.
      set(CURLOPT_NOPROXY, "*");
      return;
    }
    if (url.scheme != "http") return;
    if (!environment_variable("http_proxy").empty() || !environment_variable("REQUEST_METHOD").empty()) return;
    const std::string proxy = environment_variable("HTTP_PROXY");
    if (!proxy.empty()) set(CURLOPT_PROXY, proxy.c_str());
  }

  void set_guard(std::optional<ConnectionGuard>& guard) const {
    if (!guard) return;
    set(CURLOPT_OPENSOCKETFUNCTION, on_open);
    set(CURLOPT_OPENSOCKETDATA, &*guard);
  }

  void set_method(Method method, const Request& request, Transfer& transfer) const {
    if (method == Method::head) {
      set(CURLOPT_NOBODY, 1L);
      return;
    }
    if (method == Method::get) {
      set(CURLOPT_HTTPGET, 1L);
      return;
    }
    if (const auto* part = std::get_if<FileRange>(&request.body)) {
      set(CURLOPT_UPLOAD, 1L);
      set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(part->size));
      set(CURLOPT_READFUNCTION, on_read);
      set(CURLOPT_READDATA, &transfer);
      set(CURLOPT_SEEKFUNCTION, on_seek);
      set(CURLOPT_SEEKDATA, &transfer);
    } else if (const auto* text = std::get_if<std::string>(&request.body);
               text != nullptr || method != Method::remove) {
      set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(text == nullptr ? 0 : text->size()));
      set(CURLOPT_POSTFIELDS, text == nullptr ? "" : text->data());
    }
    set(CURLOPT_CUSTOMREQUEST, to_string(method).data());
  }

  CURLcode run(const Cancellation& cancellation) const {
    constexpr int poll_ms = 100;
    for (;;) {
      int running = 0;
      CURLMcode failed = curl.multi_perform(multi, &running);
      if (failed == CURLM_OK && running != 0) failed = curl.multi_poll(multi, nullptr, 0, poll_ms, nullptr);
      if (failed != CURLM_OK) {
        throw Error(ErrorCode::network, fmt::format("libcurl failed: {}", curl.multi_strerror(failed)));
      }
      cancellation.check();
      int left = 0;
      const CURLMsg* message = curl.multi_info_read(multi, &left);
      if (message != nullptr && message->msg == CURLMSG_DONE) return message->data.result;
    }
  }

  const CurlLibrary& curl;
  CURLM* multi;
  CURL* easy;
};

Connection::Connection() : handles_(std::make_unique<Handles>()) {}

Connection::~Connection() = default;

namespace {

void add_headers(HeaderList& list, const Request& request, bool with_authorization) {
  bool has_content_type = false;
  for (const auto& [name, value] : request.headers) {
    list.add(fmt::format("{}: {}", name, value));
    has_content_type = has_content_type || name == "Content-Type";
  }
  list.add("Expect:");
  // libcurl would add that of a form.
  if (!has_content_type) list.add("Content-Type:");
  if (with_authorization && !request.authorization.empty()) list.add("Authorization: " + request.authorization);
}

// `said`: by libcurl.
TransferError transfer_error(CURLcode code, std::string_view said, const Transfer& transfer, const Url& url,
                             Method method, bool is_out_of_time) {
  // So libcurl calls a line of the header that does not end, before 8.6.
  const bool is_too_long = code == CURLE_OUT_OF_MEMORY && transfer.has_status && !transfer.is_answered;
  const std::string_view why = is_too_long ? "the header of the answer is too long" : said;
  return {Error(ErrorCode::network, format_message("{} {} failed: {}{}", to_string(method), without_query(url.text()),
                                                   why, remedy_for(code, url))),
          is_transient(code) && !is_out_of_time};
}

}  // namespace

Response Connection::transfer(const Request& request, Method method, const Url& url, bool with_authorization,
                              const ClientOptions& options, bool& received) {
  const Handles& handles = *handles_;
  const CurlLibrary& curl = handles.curl;
  std::optional<ConnectionGuard> guard;
  if (options.only_public_and) guard.emplace(url, *options.only_public_and);
  curl.easy_reset(handles.easy);
  Transfer transfer(request, handles.easy, received);
  std::array<char, CURL_ERROR_SIZE> reason{};
  const std::string address = url.text();
  handles.set(CURLOPT_URL, address.c_str());
  handles.set(CURLOPT_ERRORBUFFER, reason.data());
  const bool is_document = !request.on_body && !std::holds_alternative<FileRange>(request.body);
  handles.set_connection(request, options, is_document);
  const std::string agent = fmt::format("gpux/{}", version());
  handles.set(CURLOPT_USERAGENT, agent.c_str());
  handles.set(CURLOPT_HEADERFUNCTION, on_header);
  handles.set(CURLOPT_HEADERDATA, &transfer);
  handles.set(CURLOPT_WRITEFUNCTION, on_write);
  handles.set(CURLOPT_WRITEDATA, &transfer);
  handles.set_security(url, options);
  handles.set_proxy(url);
  handles.set_guard(guard);
  handles.set_method(method, request, transfer);
  HeaderList list;
  add_headers(list, request, with_authorization);
  handles.set(CURLOPT_HTTPHEADER, list.list);
  std::string range;
  if (request.range) {
    range = fmt::format("{}-{}", request.range->first,
                        request.range->last ? std::to_string(*request.range->last) : std::string());
    handles.set(CURLOPT_RANGE, range.c_str());
  }

  // Before libcurl's clock for the request begins.
  const auto start = std::chrono::steady_clock::now();
  if (curl.multi_add_handle(handles.multi, handles.easy) != CURLM_OK) {
    throw Error(ErrorCode::network, "libcurl refuses another transfer");
  }

  struct Added {
    const Handles& handles;

    ~Added() { handles.curl.multi_remove_handle(handles.multi, handles.easy); }
  } const added{handles};

  const CURLcode code = handles.run(options.cancellation);
  if (transfer.failure) std::rethrow_exception(transfer.failure);
  if (guard && code != CURLE_OK) guard->check();
  const bool is_failure_body_cut = transfer.is_cut && !transfer.response.is_success();
  if (transfer.is_cut && transfer.response.is_success()) {
    throw Error(ErrorCode::network,
                fmt::format("{} answers with more than {} bytes", without_query(url.text()), request.limit_body_bytes));
  }
  if (code != CURLE_OK && !is_failure_body_cut) {
    // libcurl's clock counts milliseconds, and may end a little earlier.
    constexpr std::chrono::milliseconds margin{100};
    throw transfer_error(code, reason[0] != '\0' ? reason.data() : curl.easy_strerror(code), transfer, url, method,
                         is_document && std::chrono::steady_clock::now() - start >= options.document_timeout - margin);
  }
  transfer.begin_answer();
  transfer.response.url = address;
  return std::move(transfer.response);
}

bool is_redirect(int status) noexcept {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

}  // namespace gpux::registry

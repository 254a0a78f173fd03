#include "server/http/request_parser.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <boost/beast/core/error.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <fmt/format.h>

#include "server/http/header_value.h"

namespace gpux::http {

namespace beast = boost::beast;

/// Beast's grammar with its findings written straight into a Request. Only the header is left to it.
class RequestParser::Grammar final : public beast::http::basic_parser<true> {
 public:
  explicit Grammar(Request& request) : request_(request) { body_limit(boost::none); }

  [[nodiscard]] bool is_http_1_1() const noexcept { return version_ == 11; }

 private:
  using error_code = beast::error_code;
  using string_view = beast::string_view;

  void on_request_impl(beast::http::verb, string_view method, string_view target, int version, error_code&) override {
    request_.method.assign(method.data(), method.size());
    request_.target.assign(target.data(), target.size());
    version_ = version;
  }

  void on_field_impl(beast::http::field, string_view name, string_view value, error_code&) override {
    request_.headers.add_checked({name.data(), name.size()}, {value.data(), value.size()});
  }

  void on_response_impl(int, string_view, int, error_code&) override {}

  void on_header_impl(error_code&) override {}

  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}

  std::size_t on_body_impl(string_view, error_code&) override { return 0; }

  void on_chunk_header_impl(std::uint64_t, string_view, error_code&) override {}

  std::size_t on_chunk_body_impl(std::uint64_t, string_view, error_code&) override { return 0; }

  void on_finish_impl(error_code&) override {}

  Request& request_;
  int version_ = 11;
};

struct RequestParser::State {
  std::size_t max_header_bytes;
  std::size_t read_bytes = 0;
  Request* request = nullptr;
  std::optional<Grammar> grammar;
  Framing framing;
  Refusal refusal;
};

namespace {

Refusal refusal_of(const beast::error_code& failure, std::size_t max_header_bytes) {
  using beast::http::error;
  const auto is = [&](beast::http::error which) { return failure == which; };
  if (is(error::header_limit) || is(error::buffer_overflow)) {
    return {431, fmt::format("the request line and header fields are longer than {} bytes", max_header_bytes)};
  }
  if (is(error::bad_method)) return {400, "the request line begins with no method"};
  if (is(error::bad_target)) return {400, "the request line names no valid path"};
  if (is(error::bad_version)) return {505, "the request line does not end with HTTP/1.1 or HTTP/1.0"};
  if (is(error::bad_content_length)) {
    return {400, "Content-Length is not one number, or is combined with Transfer-Encoding"};
  }
  if (is(error::multiple_content_length)) return {400, "the request has more than one Content-Length"};
  if (is(error::bad_transfer_encoding))
    return {400, "Transfer-Encoding is given twice, or is combined with Content-Length"};
  return {400, "a header field is malformed"};
}

/// Leaves "/path?query" of "http://host/path?query".
std::string_view without_authority(std::string_view target) noexcept {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!same_name(target.substr(0, scheme.size()), scheme)) continue;
    const std::string_view behind = target.substr(scheme.size());
    const std::size_t path = behind.find_first_of("/?");
    return path == std::string_view::npos ? "/" : behind.substr(path);
  }
  return target;
}

bool has_dot_segment(std::string_view path) {
  while (!path.empty()) {
    const std::string_view segment = path.substr(0, path.find('/'));
    if (segment == "." || segment == "..") return true;
    path.remove_prefix(std::min(segment.size() + 1, path.size()));
  }
  return false;
}

std::optional<Refusal> read_target(Request& request) {
  if (const std::string_view path = without_authority(request.target); path.size() != request.target.size()) {
    request.target = std::string(path);
  }
  if (request.target == "*" && request.method == "OPTIONS") {
    request.path.assign(1, '*');  // g++ 12 warns of an overlap in an assignment
    return std::nullopt;
  }
  if (request.target.empty() || request.target.front() != '/') {
    return Refusal{400, "the request line names no path; it would begin with '/'"};
  }
  const std::string_view target = request.target;
  const std::size_t mark = target.find('?');
  auto path = percent_decoded(target.substr(0, mark));
  if (!path) return Refusal{400, "the path is not percent-encoded UTF-8 text"};
  if (has_dot_segment(*path)) return Refusal{400, "the path holds '.' or '..'"};
  request.path = std::move(*path);
  if (mark != std::string_view::npos) request.query = std::string(target.substr(mark + 1));
  return std::nullopt;
}

std::optional<Refusal> read_coding(std::string_view name, Framing::Coding& coding) {
  name = trimmed(name);
  if (name.empty() || same_name(name, "identity")) {
    coding = Framing::Coding::identity;
  } else if (same_name(name, "gzip") || same_name(name, "x-gzip")) {
    coding = Framing::Coding::gzip;
  } else if (same_name(name, "deflate")) {
    coding = Framing::Coding::deflate;
  } else {
    return Refusal{415, "Content-Encoding is none of gzip, deflate and identity"};
  }
  return std::nullopt;
}

std::optional<Refusal> read_framing(const Request& request, Framing& framing) {
  const Headers& headers = request.headers;
  const std::size_t hosts = headers.count("Host");
  if (hosts > 1 || (hosts == 0 && framing.http_1_1)) return Refusal{400, "the request has not exactly one Host field"};
  if (const auto transfer = headers.find("Transfer-Encoding")) {
    if (!framing.http_1_1) return Refusal{400, "Transfer-Encoding is not part of HTTP/1.0"};
    if (headers.count("Transfer-Encoding") > 1 || !same_name(*transfer, "chunked")) {
      return Refusal{501, "Transfer-Encoding is not 'chunked'"};
    }
    framing.chunked = true;
  }
  if (const auto expectation = headers.find("Expect")) {
    if (!same_name(*expectation, "100-continue")) return Refusal{417, "Expect is not '100-continue'"};
    framing.expects_continue = framing.http_1_1;
  }
  if (headers.count("Content-Encoding") > 1) return Refusal{415, "the body has more than one Content-Encoding"};
  if (auto refusal = read_coding(headers["Content-Encoding"], framing.coding)) return refusal;
  const std::string_view json_bytes = headers["Inference-Header-Content-Length"];
  std::uint32_t aligned_at = 0;
  const auto [end, failure] = std::from_chars(json_bytes.data(), json_bytes.data() + json_bytes.size(), aligned_at);
  if (failure == std::errc{} && end == json_bytes.data() + json_bytes.size()) framing.aligned_at = aligned_at;
  return std::nullopt;
}

}  // namespace

RequestParser::RequestParser(std::size_t max_header_bytes) : state_(std::make_unique<State>()) {
  state_->max_header_bytes = max_header_bytes;
}

RequestParser::~RequestParser() = default;

void RequestParser::begin(Request& request) {
  state_->request = &request;
  state_->read_bytes = 0;
  state_->framing = {};
  Grammar& grammar = state_->grammar.emplace(request);
  grammar.header_limit(static_cast<std::uint32_t>(state_->max_header_bytes));
}

RequestParser::Outcome RequestParser::feed(std::string_view text, std::size_t& consumed) {
  State& state = *state_;
  consumed = 0;
  if (!state.grammar) return Outcome::more;  // not begun
  Grammar& grammar = *state.grammar;
  if (!grammar.got_some()) {
    // Some clients end a body with a line end too many.
    while (consumed < text.size() && (text[consumed] == '\r' || text[consumed] == '\n')) ++consumed;
    state.read_bytes += consumed;
  }
  beast::error_code error;
  if (consumed < text.size()) {
    const std::size_t read = grammar.put({text.data() + consumed, text.size() - consumed}, error);
    consumed += read;
    state.read_bytes += read;
  } else {
    error = beast::http::error::need_more;
  }
  // Beast's limit holds for what is not yet consumed only: fields that drip in would pass it for ever.
  const bool complete = grammar.got_some() && grammar.is_header_done();
  if (!error || error == beast::http::error::need_more) {
    const std::size_t pending = complete ? 0 : text.size() - consumed;
    if (state.read_bytes + pending > state.max_header_bytes) error = beast::http::error::header_limit;
  }
  if (error && error != beast::http::error::need_more) {
    state.refusal = refusal_of(error, state.max_header_bytes);
    return Outcome::refused;
  }
  if (!complete) return Outcome::more;

  Framing& framing = state.framing;
  framing.http_1_1 = grammar.is_http_1_1();
  framing.keep_alive = grammar.keep_alive();
  framing.content_length = grammar.content_length().value_or(0);
  auto refusal = read_framing(*state.request, framing);
  if (!refusal) refusal = read_target(*state.request);
  if (refusal) {
    state.refusal = std::move(*refusal);
    return Outcome::refused;
  }
  if (state.request->method == "HEAD") {
    state.request->is_head = true;
    state.request->method = "GET";
  }
  return Outcome::complete;
}

const Framing& RequestParser::framing() const noexcept {
  return state_->framing;
}

const Refusal& RequestParser::refusal() const noexcept {
  return state_->refusal;
}

}  // namespace gpux::http

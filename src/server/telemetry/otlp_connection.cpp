#include "server/telemetry/otlp_connection.h"

#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <zlib.h>

#include "base/log.h"
#include "server/telemetry/otlp_messages.h"

namespace gpux::server {
namespace {

registry::ClientOptions options_of(const OtlpTarget& target, std::stop_token stop) {
  registry::ClientOptions options;
  options.connect_timeout = target.timeout;
  options.document_timeout = std::chrono::ceil<std::chrono::seconds>(target.timeout);
  options.tls_files_of = [files = registry::TlsFiles{target.ca_file, target.certificate, target.key}](
                             const std::string& /*host*/) { return files; };
  options.cancellation = Cancellation(std::move(stop), std::nullopt);
  return options;
}

std::string gzipped(const std::string& text) {
  constexpr int gzip_window = 15 + 16, memory_level = 8;
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, gzip_window, memory_level, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();
  }
  std::string out(deflateBound(&stream, text.size()), '\0');
  // zlib reads what it is given, although its type says that it may write there.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// Of an answer to one line of a log.
constexpr std::size_t max_shown_bytes = 200;

}  // namespace

OtlpConnection::OtlpConnection(OtlpTarget target, std::string_view signal)
    : target_(std::move(target)), signal_(signal), client_(options_of(target_, stop_.get_token())) {}

bool OtlpConnection::send(const std::string& message) {
  registry::Request request{.method = registry::Method::post, .url = target_.url};
  request.headers = target_.headers;
  request.headers.emplace_back("Content-Type", "application/x-protobuf");
  request.headers.emplace_back("User-Agent", "gpux OTLP exporter");
  request.max_redirects = 0;
  request.is_repeatable = true;
  request.limit_body_bytes = 64 << 10;
  try {
    if (target_.compresses) request.headers.emplace_back("Content-Encoding", "gzip");
    request.body = target_.compresses ? gzipped(message) : message;
    const registry::Response answer = client_.send(request);
    if (!answer.is_success()) {
      note(fmt::format("{} answered with the status {}", target_.url, answer.status));
      return false;
    }
    if (const Refused refused = read_refused(answer.body); refused.count != 0) {
      log::warning("{} refused {} of the {}: {}", target_.url, refused.count, signal_,
                   refused.reason.substr(0, max_shown_bytes));
    }
  } catch (const std::exception& error) {
    note(error.what());
    return false;
  }
  if (std::exchange(is_failing_, false)) log::info("{} are sent to {} again", signal_, target_.url);
  return true;
}

void OtlpConnection::note(const std::string& problem) {
  if (stop_.stop_requested() || std::exchange(is_failing_, true)) return;
  log::warning("{} are not sent: {}", signal_, problem);
}

}  // namespace gpux::server

#include "server/telemetry/otlp_connection.h"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "server/http/content_coding.h"
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
  http::Deflater deflater;
  deflater.add(std::as_bytes(std::span(text)));
  return deflater.finish();
}

// Of an answer to one line of a log.
constexpr std::size_t max_shown_bytes = 200;

}  // namespace

OtlpConnection::OtlpConnection(OtlpTarget target, std::string_view signal)
    : target_(std::move(target)), signal_(signal), client_(options_of(target_, stop_.get_token())) {}

std::uint64_t OtlpConnection::send(const std::string& message, std::uint64_t count) {
  std::uint64_t refused_count = 0;
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
      return 0;
    }
    if (const Refused refused = read_refused(answer.body); refused.count > 0) {
      refused_count = std::min(count, static_cast<std::uint64_t>(refused.count));
      log::warning("{} refused {} of the {}: {}", target_.url, refused.count, signal_,
                   refused.reason.substr(0, max_shown_bytes));
    }
  } catch (const std::exception& error) {
    note(error.what());
    return 0;
  }
  if (std::exchange(is_failing_, false)) log::info("{} are sent to {} again", signal_, target_.url);
  return count - refused_count;
}

void OtlpConnection::note(const std::string& problem) {
  if (stop_.stop_requested() || std::exchange(is_failing_, true)) return;
  log::warning("{} are not sent: {}", signal_, problem);
}

}  // namespace gpux::server

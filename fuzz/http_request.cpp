// A request as it comes from a socket: header, chunks, compressed body; cut in two at every place its first byte names.
#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "base/utf8.h"
#include "fuzzer.h"
#include "server/http/chunked.h"
#include "server/http/content_coding.h"
#include "server/http/form.h"
#include "server/http/request_parser.h"

namespace gpux::fuzz {
namespace {

constexpr std::size_t header_limit = 2048;
constexpr std::size_t body_limit = 1 << 20;

std::string without_chunks(std::string_view text) {
  http::ChunkedDecoder decoder(header_limit);
  std::string body;
  while (!text.empty() && !decoder.ended() && !decoder.malformed()) body += decoder.next(text);
  return body;
}

void inflate(http::Framing::Coding coding, std::string_view text) {
  http::Inflater inflater(coding);
  std::array<std::byte, 4096> out;
  std::size_t total = 0;
  for (;;) {
    const auto step = inflater.step(http::bytes_of(text), out);
    text.remove_prefix(step.consumed);
    total += step.produced;
    if (step.malformed || total > body_limit) return;
    if (text.empty() && step.produced < out.size()) return;
    require(step.consumed > 0 || step.produced > 0, "a step that goes nowhere");
  }
}

void read_request(std::string_view text, std::size_t cut) {
  http::RequestParser parser(header_limit);
  http::Request request;
  parser.begin(request);
  std::size_t begin = 0;
  auto outcome = http::RequestParser::Outcome::more;
  for (const std::size_t end : {std::min(cut, text.size()), text.size()}) {
    if (outcome != http::RequestParser::Outcome::more) break;
    std::size_t consumed = 0;
    outcome = parser.feed(text.substr(begin, end - begin), consumed);
    require(consumed <= end - begin, "more consumed than given");
    begin += consumed;
  }
  if (outcome == http::RequestParser::Outcome::refused) {
    require(parser.refusal().status >= 400 && !parser.refusal().message.empty(), "a refusal without a reason");
  }
  if (outcome != http::RequestParser::Outcome::complete) return;
  require(begin <= header_limit, "a header beyond its limit");
  require(request.path.starts_with('/') || request.path == "*", "a path that is none");
  for (const std::string& segment : request.segments()) require(is_utf8(segment), "a segment that is not UTF-8");
  require(is_utf8(request.query_parameter("a").value_or("")), "a parameter that is not UTF-8");
  if (http::accepts_gzip(request.headers["Accept-Encoding"])) {
    require(request.headers.count("Accept-Encoding") > 0, "an encoding that nobody accepts");
  }
  const http::Framing& framing = parser.framing();
  require(!framing.chunked || framing.content_length == 0, "two framings at once");
  std::string body(text.substr(begin));
  if (framing.chunked) body = without_chunks(body);
  if (framing.coding != http::Framing::Coding::identity) inflate(framing.coding, body);
  const std::string_view type = request.headers["Content-Type"];
  if (!http::is_form(type)) return;
  std::size_t content = 0;
  for (const http::FormPart& part : http::read_form(body, type)) content += part.content.size();
  require(content <= body.size(), "a form with more content than bytes");
}

}  // namespace

void read_hostile(std::string_view input) {
  if (input.empty()) return;
  read_request(input.substr(1), static_cast<unsigned char>(input.front()));
}

}  // namespace gpux::fuzz

// What the HTTP client reads of an answer by itself: header lines, ranges, waits, links, addresses; and the names of
// models, and the record of a download.
#include "fuzzer.h"
#include "registry/download/range_set.h"
#include "registry/http/header_block.h"
#include "registry/http/url.h"
#include "registry/hub/hub_reference.h"

namespace gpux::fuzz {
namespace {

void read_lines(std::string_view input) {
  registry::HeaderBlock block;
  while (!input.empty()) {
    const std::size_t end = input.find('\n');
    block.add_line(input.substr(0, end));
    input.remove_prefix(end == std::string_view::npos ? input.size() : end + 1);
  }
  const auto now = std::chrono::sys_seconds(std::chrono::seconds(1'700'000'000));
  for (const auto& [name, value] : block.headers().entries()) {
    if (const auto wait = registry::parse_retry_after(value, now)) require(wait->count() >= 0, "a negative wait");
    if (const auto range = registry::parse_content_range(value)) require(range->first <= range->last, "a range");
    static_cast<void>(registry::find_link(value, "next"));
    static_cast<void>(registry::strip_etag(value));
  }
}

void read_address(std::string_view input) {
  const registry::Url base = registry::parse_url("https://hub:8443/a/b?c");
  const registry::Url url = registry::resolve_url(base, input);
  require(registry::has_same_origin(url, must_succeed("its text", [&] { return registry::parse_url(url.text()); })),
          "an address whose text is another one");
}

void read_record(std::string_view input) {
  const auto record = registry::decode_download_record(input);
  if (!record) return;
  require(record->ranges.total() <= record->bytes, "more bytes than the whole");
  std::uint64_t missing = 0;
  for (const registry::Span& span : record->ranges.missing(record->bytes)) missing += span.end - span.first;
  require(missing + record->ranges.total() == record->bytes, "ranges that do not add up");
}

}  // namespace

void read_hostile(std::string_view input) {
  if (input.starts_with("gpux download")) return read_record(input);
  if (input.find('\n') != std::string_view::npos) return read_lines(input);
  if (registry::is_hub_reference(input)) {
    const registry::HubReference reference = registry::parse_hub_reference(input);
    static_cast<void>(registry::stored_name_of(reference));
    return;
  }
  read_address(input);
}

}  // namespace gpux::fuzz

#include "registry/download/range_set.h"

#include <algorithm>

#include <fmt/format.h>

#include "registry/http/header_block.h"

namespace gpux::registry {
namespace {

constexpr std::string_view head = "gpux download 1";

std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

}  // namespace

void RangeSet::add(Span span) {
  if (span.first >= span.end) return;
  const auto before = [](const Span& one, const Span& other) { return one.end < other.first; };
  // Those that touch or overlap it become one with it.
  const auto [first, last] = std::equal_range(spans_.begin(), spans_.end(), span, before);
  if (first != last) {
    span.first = std::min(span.first, first->first);
    span.end = std::max(span.end, std::prev(last)->end);
  }
  spans_.insert(spans_.erase(first, last), span);
}

std::uint64_t RangeSet::total() const noexcept {
  std::uint64_t bytes = 0;
  for (const Span& span : spans_) bytes += span.end - span.first;
  return bytes;
}

std::vector<Span> RangeSet::missing(std::uint64_t size) const {
  std::vector<Span> gaps;
  std::uint64_t at = 0;
  for (const Span& span : spans_) {
    if (span.first > at) gaps.push_back({at, std::min(span.first, size)});
    at = std::max(at, span.end);
    if (at >= size) return gaps;
  }
  if (at < size) gaps.push_back({at, size});
  return gaps;
}

std::string encode(const DownloadRecord& record) {
  std::string text = fmt::format("{}\n{}\n{}\n", head, record.bytes, record.etag);
  for (const Span& span : record.ranges.spans()) text += fmt::format("{} {}\n", span.first, span.end);
  return text + "end\n";
}

std::optional<DownloadRecord> decode_download_record(std::string_view text) {
  if (take_line(text) != head) return std::nullopt;
  DownloadRecord record;
  const auto bytes = parse_decimal(take_line(text));
  if (!bytes) return std::nullopt;
  record.bytes = *bytes;
  record.etag = take_line(text);
  for (;;) {
    const std::string_view line = take_line(text);
    if (line == "end") return record;
    const std::size_t blank = line.find(' ');
    if (blank == std::string_view::npos) return std::nullopt;
    const auto first = parse_decimal(line.substr(0, blank)), end = parse_decimal(line.substr(blank + 1));
    if (!first || !end || *first >= *end || *end > record.bytes) return std::nullopt;
    record.ranges.add({*first, *end});
  }
}

std::vector<Span> cut_in_pieces(const std::vector<Span>& missing, std::uint64_t piece_bytes) {
  std::vector<Span> pieces;
  for (Span span : missing) {
    while (span.end - span.first > piece_bytes) {
      pieces.push_back({span.first, span.first + piece_bytes});
      span.first += piece_bytes;
    }
    pieces.push_back(span);
  }
  return pieces;
}

}  // namespace gpux::registry

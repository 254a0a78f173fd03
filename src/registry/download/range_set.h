#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpux::registry {

/// Bytes from `first` up to, but not including, `end`.
struct Span {
  std::uint64_t first = 0, end = 0;

  bool operator==(const Span&) const = default;
};

/// Which bytes of a file are there. A value.
class RangeSet {
 public:
  void add(Span span);

  [[nodiscard]] const std::vector<Span>& spans() const noexcept { return spans_; }

  [[nodiscard]] std::uint64_t total() const noexcept;
  /// Missing spans of a file of `size` bytes, in order.
  [[nodiscard]] std::vector<Span> missing(std::uint64_t size) const;

 private:
  std::vector<Span> spans_;  // sorted, apart from each other
};

/// Content of the record file next to an incomplete download.
struct DownloadRecord {
  std::uint64_t bytes = 0;  ///< size of the whole file
  std::string etag;         ///< ETag of the content that the bytes belong to; may be empty
  RangeSet ranges;
};

std::string encode(const DownloadRecord& record);
/// Empty for what is no record: the download starts over. Ranges beyond the end make none.
std::optional<DownloadRecord> decode_download_record(std::string_view text);

/// The missing spans in pieces of up to `piece_bytes`, one transfer each.
std::vector<Span> cut_in_pieces(const std::vector<Span>& missing, std::uint64_t piece_bytes);

}  // namespace gpux::registry

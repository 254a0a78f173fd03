#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpux::registry {

/// The headers of an answer. Names are in lower case, values without blanks around them.
class Headers {
 public:
  Headers() = default;

  Headers(std::initializer_list<std::pair<std::string, std::string>> entries) : entries_(entries) {}

  void add(std::string_view name, std::string_view value);
  /// The first value of that name (in lower case); empty where there is none.
  [[nodiscard]] std::string find(std::string_view name) const;
  [[nodiscard]] bool has(std::string_view name) const noexcept;

  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& entries() const noexcept { return entries_; }

 private:
  std::vector<std::pair<std::string, std::string>> entries_;
};

/// Collects the lines of an answer's header as they arrive. A new status line, as after "100 Continue", starts again.
class HeaderBlock {
 public:
  /// Adds a line of the header. Error network above 256 headers or 256 KiB.
  void add_line(std::string_view line);

  [[nodiscard]] const Headers& headers() const noexcept { return headers_; }

 private:
  Headers headers_;
  std::size_t bytes_ = 0;
};

/// Value of a Content-Range header: "bytes 5-9/20".
struct ContentRange {
  std::uint64_t first = 0, last = 0;
  std::optional<std::uint64_t> size;  ///< size of the whole file; empty: "*"
};

/// Parses the value of Content-Range; empty if it is malformed.
std::optional<ContentRange> parse_content_range(std::string_view value);

/// A number of at most 18 digits alone; empty for anything else.
std::optional<std::uint64_t> parse_decimal(std::string_view text);

/// Retry-After in seconds or as a date (IMF-fixdate); `now` is the time that dates are compared with. Never negative.
/// Empty where it is malformed.
std::optional<std::chrono::seconds> parse_retry_after(std::string_view value, std::chrono::sys_seconds now);

/// Whether the ETag says that the content is the same byte by byte: one with "W/" says that it means the same.
bool is_strong_etag(std::string_view value) noexcept;

/// The ETag without "W/" and quotes.
std::string_view strip_etag(std::string_view value) noexcept;

/// The URL of `Link: <URL>; rel="NAME"`; empty where the header has none of that name.
std::string find_link(std::string_view value, std::string_view name);

}  // namespace gpux::registry

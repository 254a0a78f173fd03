#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/spelling.h"
#include "server/metrics/metrics.h"

namespace gpux::server {
namespace {

constexpr std::string_view total = "_total", help_mark = "# HELP ", type_mark = "# TYPE ";

// Without its last line feed.
std::string_view take_line(std::string_view& page) {
  const std::size_t end = std::min(page.find('\n'), page.size());
  const std::string_view line = page.substr(0, end);
  page.remove_prefix(std::min(end + 1, page.size()));
  return line;
}

// "gpux_runs_total counter" of a # TYPE line: its samples have the name with _total.
std::string type_line(std::string_view text) {
  const std::size_t gap = std::min(text.find(' '), text.size());
  const std::string_view name = text.substr(0, gap);
  if (text.substr(gap) != " counter") return fmt::format("{}{}\n", type_mark, text);
  // Names that others have given, as Triton's.
  if (!name.ends_with(total)) return fmt::format("{}{} unknown\n", type_mark, name);
  return fmt::format("{}{} counter\n", type_mark, name.substr(0, name.size() - total.size()));
}

std::string help_line(std::string_view text, bool is_counter) {
  const std::size_t gap = std::min(text.find(' '), text.size());
  std::string_view name = text.substr(0, gap);
  if (is_counter && name.ends_with(total)) name.remove_suffix(total.size());
  return fmt::format("{}{}{}\n", help_mark, name, text.substr(gap));
}

}  // namespace

std::string open_metrics_text(std::string_view page) {
  std::string text;
  text.reserve(page.size() + page.size() / 8);
  while (!page.empty()) {
    const std::string_view line = take_line(page);
    if (line.starts_with(help_mark)) {
      // The line of the type follows.
      const std::string_view next = page.substr(0, page.find('\n'));
      text += help_line(line.substr(help_mark.size()), next.ends_with(" counter"));
    } else if (line.starts_with(type_mark)) {
      text += type_line(line.substr(type_mark.size()));
    } else {
      // Bounds are numbers with a fraction.
      const std::size_t bound = line.find("le=\"");
      const std::size_t quote = bound == std::string_view::npos ? bound : line.find('"', bound + 4);
      const bool is_whole =
          quote != std::string_view::npos &&
          line.substr(bound + 4, quote - bound - 4).find_first_not_of("0123456789") == std::string_view::npos;
      text += is_whole ? fmt::format("{}.0{}\n", line.substr(0, quote), line.substr(quote)) : fmt::format("{}\n", line);
    }
  }
  return text + "# EOF\n";
}

MetricFormat metric_format(std::string_view accept) {
  const std::string text = lower(accept);
  const std::array<std::pair<std::size_t, MetricFormat>, 3> asked{{
      {text.find("text/"), MetricFormat::prometheus},
      {text.find("application/openmetrics-text"), MetricFormat::open_metrics},
      {text.find("application/json"), MetricFormat::json},
  }};
  const auto first = std::ranges::min(asked);
  return first.first == std::string::npos ? MetricFormat::prometheus : first.second;
}

}  // namespace gpux::server

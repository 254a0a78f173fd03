#include "server/telemetry/prometheus_page.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

namespace gpux::server {
namespace {

using Labels = std::vector<std::pair<std::string, std::string>>;

struct Line {
  std::string_view name;
  Labels labels;
  double value = 0;
  std::optional<MetricExemplar> exemplar = {};
};

std::optional<double> number_of(std::string_view text) {
  if (text == "+Inf") return std::numeric_limits<double>::infinity();
  if (text == "-Inf") return -std::numeric_limits<double>::infinity();
  double number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failure == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

// Up to the quote that ends the value; the text behind it.
std::optional<std::string_view> read_value(std::string_view text, std::string& value) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') return text.substr(i + 1);
    if (text[i] != '\\') {
      value += text[i];
    } else if (++i < text.size()) {
      value += text[i] == 'n' ? '\n' : text[i];
    }
  }
  return std::nullopt;
}

// The text behind the bracket.
std::optional<std::string_view> read_labels(std::string_view text, Labels& labels) {
  while (!text.starts_with('}')) {
    const std::size_t quote = text.find("=\"");
    if (quote == std::string_view::npos) return std::nullopt;
    std::pair<std::string, std::string> label(text.substr(0, quote), std::string());
    const auto rest = read_value(text.substr(quote + 2), label.second);
    if (!rest) return std::nullopt;
    labels.push_back(std::move(label));
    text = rest->substr(rest->starts_with(',') ? 1 : 0);
  }
  return text.substr(1);
}

// `{trace_id="…",span_id="…"} value time`.
std::optional<MetricExemplar> read_exemplar(std::string_view text) {
  Labels labels;
  if (!text.starts_with('{')) return std::nullopt;
  const auto rest = read_labels(text.substr(1), labels);
  if (!rest || !rest->starts_with(' ')) return std::nullopt;
  const std::string_view numbers = rest->substr(1);
  const std::size_t gap = std::min(numbers.find(' '), numbers.size());
  const auto value = number_of(numbers.substr(0, gap));
  const auto time = number_of(numbers.substr(std::min(gap + 1, numbers.size())));
  if (!value || !time) return std::nullopt;
  MetricExemplar exemplar{.trace_id = {}, .span_id = {}, .value = *value, .time_seconds = *time};
  for (const auto& [name, digits] : labels) {
    if (name == "trace_id") exemplar.trace_id = digits;
    if (name == "span_id") exemplar.span_id = digits;
  }
  return exemplar;
}

std::optional<Line> read_line(std::string_view text) {
  Line line;
  const std::size_t end = text.find_first_of("{ ");
  if (end == std::string_view::npos || end == 0) return std::nullopt;
  line.name = text.substr(0, end);
  text.remove_prefix(end);
  if (text.starts_with('{')) {
    const auto rest = read_labels(text.substr(1), line.labels);
    if (!rest) return std::nullopt;
    text = *rest;
  }
  if (!text.starts_with(' ')) return std::nullopt;
  constexpr std::string_view exemplar_mark = " # ";
  const std::size_t mark = text.find(exemplar_mark);
  if (mark != std::string_view::npos) {
    line.exemplar = read_exemplar(text.substr(mark + exemplar_mark.size()));
    text = text.substr(0, mark);
  }
  const auto number = number_of(text.substr(1));
  if (!number) return std::nullopt;
  line.value = *number;
  return line;
}

MetricSample& sample_of(MetricFamily& family, Labels labels) {
  const auto found = std::ranges::find(family.samples, labels, &MetricSample::labels);
  if (found != family.samples.end()) return *found;
  family.samples.push_back({.labels = std::move(labels), .bounds = {}, .bucket_counts = {}});
  return family.samples.back();
}

// Buckets of the page count what is in lower ones, too.
void add_bucket(MetricFamily& family, Line line) {
  const auto bound = std::ranges::find(line.labels, "le", &std::pair<std::string, std::string>::first);
  if (bound == line.labels.end()) return;
  const auto upper = number_of(bound->second);
  line.labels.erase(bound);
  if (!upper || !(line.value >= 0)) return;
  MetricSample& sample = sample_of(family, std::move(line.labels));
  std::uint64_t lower = 0;
  for (const std::uint64_t count : sample.bucket_counts) lower += count;
  const auto count = static_cast<std::uint64_t>(line.value);
  sample.bucket_counts.push_back(count > lower ? count - lower : 0);
  if (std::isfinite(*upper)) sample.bounds.push_back(*upper);
  if (line.exemplar) sample.exemplars.push_back(*std::move(line.exemplar));
}

void add(MetricFamily& family, Line line) {
  const std::string_view part = line.name.substr(std::min(family.name.size(), line.name.size()));
  if (family.kind != MetricFamily::Kind::histogram) {
    if (part.empty()) sample_of(family, std::move(line.labels)).value = line.value;
    return;
  }
  if (part == "_bucket") return add_bucket(family, std::move(line));
  MetricSample& sample = sample_of(family, std::move(line.labels));
  if (part == "_sum") sample.value = line.value;
  // The counters go on while the page is written: the buckets are what was counted.
  if (part == "_count") {
    sample.count = 0;
    for (const std::uint64_t count : sample.bucket_counts) sample.count += count;
  }
}

// "# TYPE name kind": a family begins. None: of a kind that is left out.
std::optional<MetricFamily> read_type(std::string_view text, std::string_view help) {
  const std::size_t gap = text.find(' ');
  if (gap == std::string_view::npos) return std::nullopt;
  MetricFamily family{.name = std::string(text.substr(0, gap)), .help = std::string(help), .samples = {}};
  const std::string_view kind = text.substr(gap + 1);
  if (kind == "counter") family.kind = MetricFamily::Kind::counter;
  if (kind == "histogram") family.kind = MetricFamily::Kind::histogram;
  const bool is_known = kind == "counter" || kind == "histogram" || kind == "gauge";
  return is_known ? std::optional(std::move(family)) : std::nullopt;
}

}  // namespace

std::vector<MetricFamily> read_prometheus(std::string_view page) {
  constexpr std::string_view help_mark = "# HELP ", type_mark = "# TYPE ";
  std::vector<MetricFamily> families;
  std::string_view help;
  bool is_known = false;
  while (!page.empty()) {
    const std::size_t end = std::min(page.find('\n'), page.size());
    const std::string_view text = page.substr(0, end);
    page.remove_prefix(std::min(end + 1, page.size()));
    if (text.starts_with(help_mark)) {
      const std::string_view words = text.substr(help_mark.size());
      help = words.substr(std::min(words.find(' ') + 1, words.size()));
    } else if (text.starts_with(type_mark)) {
      auto family = read_type(text.substr(type_mark.size()), help);
      is_known = family.has_value();
      if (family) families.push_back(*std::move(family));
    } else if (auto line = is_known ? read_line(text) : std::nullopt;
               line && line->name.starts_with(families.back().name)) {
      add(families.back(), *std::move(line));
    }
  }
  return families;
}

}  // namespace gpux::server

#include "server/jobs/text_figures.h"

#include <algorithm>

#include "base/spelling.h"
#include "provider/table.h"

namespace gpux::server {
namespace {

using std::chrono::milliseconds;

// The kind of device that a provider with devices of several kinds was told to use; empty where its options do not say.
std::string kind_in_options(const ProviderAttempt& provider) {
  for (const auto& [name, value] : provider.options) {
    if (name != "device_type") continue;
    for (const char* kind : {"cpu", "gpu", "npu"}) {
      if (lower(value).starts_with(kind)) return kind;
    }
  }
  return {};
}

}  // namespace

void add_text_headers(http::Response& response, const TextFigures& figures, const std::string& compute_type,
                      std::chrono::steady_clock::time_point arrived) {
  const auto add = [&](const char* name, std::size_t number) { response.headers.add(name, std::to_string(number)); };
  const auto add_time = [&](const char* name, std::chrono::nanoseconds time) {
    add(name, static_cast<std::size_t>(std::chrono::duration_cast<milliseconds>(time).count()));
  };
  const auto mean = [&](std::chrono::nanoseconds sum) { return sum / std::max<std::size_t>(figures.texts, 1); };
  const std::chrono::nanoseconds total = std::chrono::steady_clock::now() - arrived;
  response.headers.add("X-Compute-Type", compute_type);
  add_time("X-Compute-Time", total);
  add("X-Compute-Characters", figures.characters);
  add("X-Compute-Tokens", figures.tokens);
  add_time("X-Total-Time", total);
  add_time("X-Tokenization-Time", mean(figures.tokenization));
  add_time("X-Queue-Time", mean(figures.queue));
  add_time("X-Inference-Time", mean(figures.inference));
}

std::string compute_type_of(const Verdict& verdict) {
  if (verdict.active.empty()) return "cpu";
  const auto found = std::ranges::find(verdict.tried, verdict.active.front(), &ProviderAttempt::id);
  if (found != verdict.tried.end()) {
    if (std::string kind = kind_in_options(*found); !kind.empty()) return kind;
    if (!found->devices.empty()) return found->devices.front().kind;
  }
  const provider::ProviderRow* row = provider::find_row(verdict.active.front());
  return row == nullptr ? "cpu" : std::string(row->kind);
}

std::size_t count_characters(std::string_view text) noexcept {
  const auto is_first = [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; };
  return static_cast<std::size_t>(std::ranges::count_if(text, is_first));
}

}  // namespace gpux::server

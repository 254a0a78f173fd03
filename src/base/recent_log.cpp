#include "base/recent_log.h"

#include <atomic>
#include <deque>
#include <mutex>

#include "base/utf8.h"
#include "base/utf8_prefix.h"

namespace gpux::log {
namespace {

// Longer messages and values are cut, so that the kept lines are bounded.
constexpr std::size_t max_text_bytes = 2000;

struct RecentLines {
  std::atomic<std::size_t> limit = 0;
  std::mutex mutex;
  std::deque<RecentLine> lines;
};

RecentLines& recent_lines() {
  static RecentLines kept;
  return kept;
}

std::string shortened(std::string_view text) {
  return one_line(utf8_prefix(text, max_text_bytes));
}

}  // namespace

void keep_recent(std::size_t lines) {
  RecentLines& kept = recent_lines();
  const std::lock_guard lock(kept.mutex);
  kept.limit = lines;
  while (kept.lines.size() > lines) kept.lines.pop_front();
}

std::vector<RecentLine> recent() {
  RecentLines& kept = recent_lines();
  const std::lock_guard lock(kept.mutex);
  return {kept.lines.begin(), kept.lines.end()};
}

void add_recent(Level level, std::string_view message, std::span<const Field> fields) {
  RecentLines& kept = recent_lines();
  if (kept.limit.load(std::memory_order_relaxed) == 0) return;
  RecentLine line{
      .time = std::chrono::system_clock::now(), .level = level, .message = shortened(message), .fields = {}};
  for (const Field& field : fields) line.fields.emplace_back(field.name, shortened(field.value));
  const std::lock_guard lock(kept.mutex);
  kept.lines.push_back(std::move(line));
  while (kept.lines.size() > kept.limit) kept.lines.pop_front();
}

}  // namespace gpux::log

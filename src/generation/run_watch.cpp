#include "generation/run_watch.h"

#include <algorithm>

namespace gpux::generation {

namespace {

std::optional<std::chrono::steady_clock::time_point> unwanted_time(const WatchedRun& run,
                                                                   std::chrono::milliseconds grace) {
  std::optional<std::chrono::steady_clock::time_point> first, last;
  bool is_waited_for = false;
  for (const WatchedText& text : run.texts) {
    if (!text.unwanted_since) {
      is_waited_for = true;
      continue;
    }
    first = std::min(first.value_or(*text.unwanted_since), *text.unwanted_since);
    last = std::max(last.value_or(*text.unwanted_since), *text.unwanted_since);
  }
  if (!first) return std::nullopt;
  if (!is_waited_for) return last;
  return std::max(*first, run.began) + grace;
}

}  // namespace

std::optional<std::chrono::steady_clock::time_point> stop_time(const WatchedRun& run, std::chrono::milliseconds grace) {
  const auto unwanted = unwanted_time(run, grace);
  return unwanted && run.limit ? std::min(unwanted, run.limit) : unwanted ? unwanted : run.limit;
}

}  // namespace gpux::generation

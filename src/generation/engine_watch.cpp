#include <chrono>
#include <utility>

#include "generation/engine_state.h"

namespace gpux::generation {
namespace {

using Clock = std::chrono::steady_clock;

// How often a run is looked at: a text is late by that much more.
constexpr std::chrono::milliseconds watch_interval{50};
// How long a run may continue if one of its texts is no longer wanted and the others are.
constexpr std::chrono::milliseconds shared_run_patience{5000};
// How long a copy of a block of keys and values may take, to or from a worker process.
constexpr std::chrono::seconds copy_patience{5};

}  // namespace

void Engine::State::begin_watching(const std::vector<SequenceId>& ids, Decoder& runs,
                                   std::optional<Clock::time_point> limit) {
  if (!runs.is_shared_with_worker()) return;
  WatchedRun run{.began = Clock::now(), .texts = {}, .limit = limit};
  for (const SequenceId id : ids) {
    run.texts.push_back({.id = id, .deadline = running.at(id).sequence->request().deadline, .unwanted_since = {}});
  }
  const std::lock_guard lock(mutex);
  watched_run = std::move(run);
  watched_decoder = &runs;
  is_run_stopped = false;
}

// The last copies are made when the engine ends.
void Engine::State::begin_watching_copy() {
  if (!decoder.is_shared_with_worker()) return;
  const std::lock_guard lock(mutex);
  watched_run = WatchedRun{.began = Clock::now(), .texts = {}, .limit = Clock::now() + copy_patience};
  watched_decoder = &decoder;
  is_run_stopped = false;
  watched.notify_all();
}

// Whether the run was stopped.
bool Engine::State::end_watching() {
  if (!uses_workers()) return false;
  const std::lock_guard lock(mutex);
  watched_run.reset();
  return std::exchange(is_run_stopped, false);
}

void Engine::State::watch(const std::stop_token& end) {
  std::unique_lock lock(mutex);
  while (!end.stop_requested()) {
    watched.wait(lock, end, [&] { return open != 0 || watched_run.has_value(); });
    watched.wait_for(lock, end, watch_interval, [] { return false; });
    if (!watched_run) continue;
    if (is_ending && !watched_run->texts.empty()) {
      // A stop that came before the run itself had no effect.
      watched_decoder->stop();
      continue;
    }
    const Clock::time_point now = Clock::now();
    for (WatchedText& text : watched_run->texts) {
      if (text.unwanted_since) continue;
      if (text.deadline && *text.deadline <= now) text.unwanted_since = text.deadline;
      if (cancelled.contains(text.id)) text.unwanted_since = now;
    }
    const auto stop_at = stop_time(*watched_run, shared_run_patience);
    if (!stop_at || *stop_at > now) continue;
    // With the lock: another run may not begin in between.
    is_run_stopped = true;
    watched_decoder->stop();
  }
}

}  // namespace gpux::generation

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "generation/engine_state.h"

namespace gpux::generation {
namespace {

using Clock = std::chrono::steady_clock;

bool is_late(const Sequence& sequence, Clock::time_point now) {
  const std::optional<Clock::time_point>& deadline = sequence.request().deadline;
  return deadline && *deadline <= now;
}

}  // namespace

void Engine::State::count_end(const std::optional<Error>& error, bool is_cancelled) {
  const std::lock_guard lock(mutex);
  ++(error ? statistics.failed : is_cancelled ? statistics.cancelled : statistics.finished);
  --open;
}

void Engine::State::end_early(Sequence& sequence, bool is_cancelled) {
  if (is_cancelled) {
    count_end({}, true);
    sequence.end(FinishReason::cancelled);
    return;
  }
  fail(sequence, Error(ErrorCode::deadline_exceeded, "the text was not finished in time"));
}

void Engine::State::fail(Sequence& sequence, const Error& error) noexcept {
  count_end(error, false);
  sequence.fail(error);
}

void Engine::State::fail(SequenceId id, const Error& error) {
  fail(*take_out(id), error);
}

void Engine::State::end_unwanted() {
  std::set<SequenceId> ids;
  std::list<Waiting> ended;
  const Clock::time_point now = Clock::now();
  {
    const std::lock_guard lock(mutex);
    ids.swap(cancelled);
    for (auto it = waiting.begin(); it != waiting.end();) {
      const auto next = std::next(it);
      if (ids.contains(it->id) || is_late(*it->sequence, now)) ended.splice(ended.end(), waiting, it);
      it = next;
    }
  }
  for (const Waiting& one : ended) end_early(*one.sequence, ids.contains(one.id));
  std::vector<SequenceId> leaving;
  for (const auto& [id, one] : running) {
    if (ids.contains(id) || is_late(*one.sequence, now)) leaving.push_back(id);
  }
  for (const SequenceId id : leaving) end_early(*take_out(id), ids.contains(id));
}

// An error that is of no text in particular ends those that run; or, if there are none, those that wait, so that it
// is not met for ever.
void Engine::State::end_after(const Error& error) noexcept {
  try {
    log::error("texts are ended: {}", error.message());
  } catch (...) {  // no memory for the line
  }
  std::list<Waiting> ended;
  if (running.empty()) {
    const std::lock_guard lock(mutex);
    ended.swap(waiting);
  }
  while (slots.decoding() != 0) slots.part();
  for (std::size_t slot = 0; slot < slots.size(); ++slot) clear(slot);
  prompts.clear();
  std::map<SequenceId, Running> ending;
  ending.swap(running);
  for (const auto& [id, one] : ending) fail(*one.sequence, error);
  for (const Waiting& one : ended) fail(*one.sequence, error);
}

void Engine::State::end_all() {
  const Error error(ErrorCode::interrupted, "the model was unloaded");
  std::list<Waiting> rest;
  {
    const std::lock_guard lock(mutex);
    rest.splice(rest.end(), waiting);
  }
  for (auto& [id, one] : running) one.sequence->fail(error);
  for (const Waiting& one : rest) one.sequence->fail(error);
  running.clear();
}

}  // namespace gpux::generation

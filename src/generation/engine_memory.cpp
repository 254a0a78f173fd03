#include <algorithm>
#include <utility>

#include "generation/engine_state.h"

namespace gpux::generation {
namespace {

// Positions of a slot grow in steps of at least so many: the cache is copied then.
constexpr std::size_t least_capacity = 256;

}  // namespace

void Engine::State::reserve(std::size_t tokens) {
  // One position more than a sequence can have is for the second row of a pair.
  const std::size_t most = context.context_length + 1;
  std::size_t capacity = least_capacity;
  while (capacity < tokens) capacity *= 2;
  decoder.reserve(std::max(std::min(capacity, most), tokens), slots.sizes());
}

std::uint64_t Engine::State::bytes_of(std::uint64_t tokens) const noexcept {
  // The draft model has keys and values of these tokens at most.
  const std::uint64_t of_draft = drafting ? drafting->model.bytes_per_token() : 0;
  return tokens * (decoder.signature().cache.bytes_per_token() + of_draft);
}

// Drops the keys and values from `first` to before `end`.
void Engine::State::cut(std::size_t slot, std::size_t first, std::size_t end) {
  decoder.release(slot, first, end);
  if (drafting) drafting->model.cut(slot, first);
}

void Engine::State::clear(std::size_t slot) {
  cut(slot, 0, slots[slot].size);
  slots.clear(slot);
}

void Engine::State::exchange(std::size_t a, std::size_t b) {
  if (a == b) return;
  decoder.exchange(a, slots[a].size, b, slots[b].size);
  if (drafting) drafting->model.exchange(a, b);
  slots.exchange(a, b);
  for (const std::size_t slot : {a, b}) {
    const std::optional<SequenceId>& owner = slots[slot].owner;
    if (owner) running.at(*owner).slot = slot;
  }
}

// The sequence's slot is of nobody then, and keeps the prompt.
std::unique_ptr<Sequence> Engine::State::take_out(SequenceId id) {
  const auto found = running.find(id);
  Running& one = found->second;
  if (one.slot < slots.decoding()) {
    exchange(one.slot, slots.decoding() - 1);
    slots.part();
  }
  std::erase(prompts, id);
  const std::size_t slot = one.slot, size = slots[slot].size;
  const std::span<const std::uint32_t> text =
      decoder.runs_ahead() ? one.sequence->tokens() : std::span<const std::uint32_t>();
  const std::size_t kept = slots.leave(slot, text);
  // With what was guessed behind them.
  cut(slot, kept, size + max_ahead);
  if (!options.reuses_prefixes) clear(slot);
  std::unique_ptr<Sequence> sequence = std::move(one.sequence);
  running.erase(found);
  return sequence;
}

void Engine::State::clear_kept() {
  while (const std::optional<std::size_t> oldest = slots.least_recent()) clear(*oldest);
}

// The text starts anew later.
void Engine::State::preempt(SequenceId id) {
  std::list<Waiting> again(1);  // first: nothing may fail behind take_out()
  again.front() = {id, take_out(id)};
  const std::lock_guard lock(mutex);
  ++statistics.preempted;
  waiting.splice(std::ranges::find_if(waiting, [&](const Waiting& one) { return one.id > id; }), again);
}

// Whether there is memory for so many tokens more. Prompts of earlier sequences go for it.
bool Engine::State::find_memory(std::size_t tokens, SequenceId oldest) {
  for (;;) {
    const std::size_t wanted = slots.tokens() + tokens;
    if (wanted <= max_cache_tokens && share->resize(bytes_of(wanted), oldest)) return true;
    const std::optional<std::size_t> kept = slots.least_recent();
    if (!kept) return false;
    clear(*kept);
  }
}

SequenceId Engine::State::next_to_preempt() const {
  std::vector<RunningText> texts;
  for (const auto& [id, one] : running) {
    texts.push_back({one.sequence->request().client, one.sequence->request().number});
  }
  return std::next(running.begin(), static_cast<std::ptrdiff_t>(plan_preemption(texts)))->first;
}

// The same, for those that run. Other texts go for it, but not the oldest; false where others have the memory: their
// engines give it up where their texts came later, else this one has.
bool Engine::State::make_room(std::size_t tokens) {
  for (;;) {
    if (running.empty()) return false;
    const SequenceId oldest = running.begin()->first;
    if (find_memory(tokens, oldest)) return true;
    if (running.size() == 1) {
      wait_for_memory(oldest);
      return false;
    }
    preempt(next_to_preempt());
  }
}

void Engine::State::wait_for_memory(SequenceId oldest) {
  is_short_of_memory = true;
  if (share->wait(oldest)) return;
  if (!running.empty()) preempt(running.begin()->first);
  clear_kept();
}

}  // namespace gpux::generation

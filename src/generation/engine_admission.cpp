#include <algorithm>
#include <string_view>
#include <utility>

#include "base/caught_error.h"
#include "generation/engine_state.h"

namespace gpux::generation {
// Of those that run: what they hold, or will when their prompts are through.
std::size_t Engine::State::promised_tokens() const {
  std::size_t sum = 0;
  for (const auto& [id, one] : running) sum += std::max(slots[one.slot].size, one.sequence->promised_tokens()) + 1;
  return sum;
}

bool Engine::State::has_room_for(const Waiting& next) {
  if (running.size() == options.max_sequences) return false;
  if (!running.empty() && promised_tokens() + next.sequence->promised_tokens() > max_cache_tokens) return false;
  const SequenceId oldest = running.empty() ? next.id : std::min(next.id, running.begin()->first);
  if (find_memory(next.sequence->prefill_tokens(), oldest)) return true;
  if (running.empty()) wait_for_memory(oldest);
  return false;
}

// Of the requests whose texts wait, the one that has waited longest first, and of those that run.
std::vector<Claim> Engine::State::claims() const {
  std::vector<Claim> all;
  std::map<std::pair<std::string_view, std::uint64_t>, std::size_t> places;
  const auto claim_of = [&](const Sequence& sequence) -> Claim& {
    const EngineRequest& request = sequence.request();
    const auto [place, is_new] =
        places.emplace(std::pair(std::string_view(request.client), request.number), all.size());
    if (is_new) all.push_back({.client = request.client, .request = request.number});
    return all[place->second];
  };
  for (const Waiting& one : waiting) ++claim_of(*one.sequence).waiting;
  for (const auto& [id, one] : running) ++claim_of(*one.sequence).running;
  return all;
}

// The text whose turn it is, where there is room for it. Texts of who has more slots make room.
std::optional<Engine::State::Waiting> Engine::State::next_waiting() {
  for (;;) {
    std::list<Waiting>::iterator next;
    std::optional<SequenceId> yielding;
    {
      const std::lock_guard lock(mutex);
      if (waiting.empty()) return std::nullopt;
      const std::vector<Claim> all = claims();
      const std::optional<Admission> admission = plan_admission(all);
      if (!admission) return std::nullopt;
      const auto is_of = [&](const Sequence& sequence, std::size_t claim) {
        return sequence.request().number == all[claim].request && sequence.request().client == all[claim].client;
      };
      next = std::ranges::find_if(waiting, [&](const Waiting& one) { return is_of(*one.sequence, admission->next); });
      for (const auto& [id, one] : running) {
        if (admission->yielding && is_of(*one.sequence, *admission->yielding)) yielding = id;
      }
    }
    if (has_room_for(*next)) {
      const std::lock_guard lock(mutex);
      Waiting taken = std::move(*next);
      waiting.erase(next);
      return taken;
    }
    if (!yielding) return std::nullopt;
    preempt(*yielding);
  }
}

void Engine::State::admit() {
  while (std::optional<Waiting> next = next_waiting()) {
    try {
      give_slot(*next);
    } catch (...) {
      fail(*next->sequence, caught_error());
    }
  }
}

// There is room for it. Where it throws, the text has no slot, and nothing else has changed.
void Engine::State::give_slot(Waiting& next) {
  Sequence& sequence = *next.sequence;
  const std::span<const std::uint32_t> prompt = sequence.tokens().first(sequence.prefill_tokens());
  SlotTable::Prompt own{.scope = sequence.request().cache_scope, .tokens = {prompt.begin(), prompt.end()}};
  own.scope += '\0';
  own.scope += sequence.request().settings.cache_salt;
  if (prompt_store) own.scope = prompt_store->scope_of(own.scope);
  std::optional<SlotTable::Match> match;
  if (options.reuses_prefixes) match = slots.longest_match(own.scope, prompt);
  const std::size_t kept = match ? reusable_tokens(match->tokens, prompt.size()) : 0;
  // Before keys and values of a slot are given up.
  prompts.reserve(running.size() + 1);
  const auto entry = running.emplace(next.id, Running{.sequence = nullptr, .slot = 0, .last_turn = turns}).first;
  entry->second.shared = kept;
  std::size_t slot = 0;
  try {
    if (uses_prompt_store()) {
      const auto usable = [&](std::size_t stored) { return reusable_tokens(stored, prompt.size()); };
      entry->second.reading = prompt_store->read(own.scope, prompt, kept, usable);
    }
    if (!match || kept == 0) {
      slot = slots.free_slot();
      clear(slot);
    } else if (!slots[match->slot].owner && kept >= slots[match->slot].size / 2) {
      slot = match->slot;
      cut(slot, kept, slots[slot].size);
    } else {
      slot = slots.free_slot(match->slot);
      clear(slot);
      decoder.copy(match->slot, slot, kept);
      if (drafting) drafting->model.copy(match->slot, slot, kept);
    }
  } catch (...) {
    running.erase(entry);
    throw;
  }
  entry->second.slot = slot;
  entry->second.sequence.swap(next.sequence);
  slots.take(slot, next.id, std::move(own), kept);
  sequence.start(kept);
  count([&](EngineStatistics& counts) { counts.reused_tokens += kept; });
  if (!entry->second.reading) begin_prompt(next.id);
}

void Engine::State::begin_prompt(SequenceId id) {
  if (left_of_prompt(id) != 0) {
    prompts.push_back(id);
  } else {
    start_decoding(id);
  }
}

void Engine::State::start_decoding(SequenceId id) {
  exchange(running.at(id).slot, slots.decoding());
  slots.join();
}

}  // namespace gpux::generation

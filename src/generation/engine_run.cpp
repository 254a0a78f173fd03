#include <algorithm>
#include <chrono>
#include <utility>

#include "base/caught_error.h"
#include "generation/engine_state.h"

namespace gpux::generation {
namespace {

// While it waits for memory of other engines, or for files, an engine looks for it and for requests this often.
constexpr std::chrono::milliseconds memory_interval{10};

}  // namespace

void Engine::State::work() {
  while (wait_for_work()) {
    try {
      is_short_of_memory = false;
      end_unwanted();
      admit();
      restore_prompts();
      run_step();
      share->shrink(bytes_of(slots.tokens()));
      if (running.empty() && !is_short_of_memory) share->stop_waiting();
#ifndef NDEBUG
      slots.check();
#endif
    } catch (...) {
      end_after(caught_error());
    }
  }
}

// False where the engine ends.
bool Engine::State::wait_for_work() {
  const std::uint64_t limit = budget->limit_bytes();
  bool gives_memory = false;
  {
    std::unique_lock lock(mutex);
    publish(limit);
    const auto has_news = [&] { return is_ending || is_memory_wanted || has_block || !cancelled.empty(); };
    if (is_short_of_memory || waits_for_files) {
      changed.wait_for(lock, memory_interval, has_news);
    } else {
      changed.wait(lock, [&] { return has_news() || !waiting.empty() || !running.empty(); });
    }
    if (is_ending) return false;
    gives_memory = std::exchange(is_memory_wanted, false);
    has_block = false;
  }
  if (gives_memory) clear_kept();
  return true;
}

void Engine::State::publish(std::uint64_t limit) {
  statistics.running = running.size();
  statistics.waiting = waiting.size();
  statistics.cached_tokens = slots.tokens();
  statistics.cache_bytes = bytes_of(statistics.cached_tokens);
  statistics.max_cache_bytes = std::min(bytes_of(max_cache_tokens), limit);
  changed.notify_all();
}

void Engine::State::run_step() {
  std::optional<SequenceId> prompt;
  if (!prompts.empty()) {
    std::vector<PendingPrompt> pending;
    for (const SequenceId id : prompts) {
      const EngineRequest& request = running.at(id).sequence->request();
      pending.push_back({request.client, request.number, running.at(id).last_turn});
    }
    prompt = prompts[next_prompt(pending)];
  }
  const Step step = plan_step({.decoding = slots.decoding(),
                               .prompt_tokens = prompt ? left_of_prompt(*prompt) : 0,
                               .prompt_tokens_in_turn = prompt_tokens_in_turn},
                              options.prompt_chunk);
  if (step.kind == Step::Kind::prompt && prompt) run_prompt(*prompt, step.tokens);
  if (step.kind == Step::Kind::decode) run_decode();
}

std::size_t Engine::State::left_of_prompt(SequenceId id) const {
  const Running& one = running.at(id);
  return prompt_part(one.sequence->prefill_tokens()) - slots[one.slot].size;
}

// What a run throws ends its sequences, and no others.
std::optional<Engine::State::RunFailure> Engine::State::run(const std::vector<SequenceId>& ids, std::size_t first_slot,
                                                            std::span<const Decoder::Row> rows, Tensor& logits,
                                                            LogitRows wanted) {
  begin_watching(ids, decoder);
  try {
    logits = decoder.run(first_slot, rows, wanted);
    (void)end_watching();
    return std::nullopt;
  } catch (const CachesLost& loss) {
    return RunFailure{
        .error = loss, .was_stopped = end_watching(), .has_lost_caches = true, .had_taken_run = loss.had_taken_run()};
  } catch (...) {
    return RunFailure{.error = caught_error(), .was_stopped = end_watching()};
  }
}

// How the text ends with this token, if it does: finish() is next.
std::optional<Engine::State::TextEnd> Engine::State::advance(SequenceId id, std::span<const float> logits) {
  try {
    Sequence& own = *running.at(id).sequence;
    const bool is_in_prompt = own.is_in_prompt();
    count([&](EngineStatistics& counts) { ++(is_in_prompt ? counts.prompt_tokens : counts.generated_tokens); });
    if (decoder.is_shared_with_worker()) {
      own_logits.assign(logits.begin(), logits.end());
      logits = own_logits;
    }
    const std::optional<FinishReason> reason = own.advance(logits);
    if (!reason) return std::nullopt;
    return TextEnd{.id = id, .reason = *reason, .error = {}};
  } catch (...) {
    return TextEnd{.id = id, .reason = FinishReason::cancelled, .error = caught_error()};
  }
}

void Engine::State::finish(const TextEnd& end) {
  if (end.error) return fail(end.id, *end.error);
  const std::unique_ptr<Sequence> sequence = take_out(end.id);
  count_end({}, false);
  sequence->end(end.reason);
}

void Engine::State::run_prompt(SequenceId id, std::size_t tokens) {
  if (!make_room(tokens) || !running.contains(id)) return;
  Running& one = running.at(id);
  one.last_turn = ++turns;
  const std::size_t slot = one.slot, past = slots[slot].size, length = one.sequence->prefill_tokens();
  try {
    reserve(past + tokens);
  } catch (...) {
    return fail(id, caught_error());
  }
  const Decoder::Row row{past, one.sequence->tokens().subspan(past, tokens)};
  Tensor logits;
  if (const auto failure = run({id}, slot, {&row, 1}, logits)) return end_after_run({id}, *failure);
  slots.add_prompt(slot, tokens);
  prompt_tokens_in_turn += tokens;
  count([&](EngineStatistics& counts) {
    ++counts.steps;
    counts.prompt_tokens += tokens;
  });
  if (past + tokens < prompt_part(length)) return;
  std::erase(prompts, id);
  // A sequence that was preempted has tokens behind its prompt.
  const bool is_last = past + tokens == one.sequence->tokens().size();
  const std::size_t shared = one.shared;
  if (is_last) {
    if (const auto end = advance(id, logits.as<float>())) {
      finish(*end);
      return store_prompt(slot, shared, {});
    }
  }
  start_decoding(id);
  store_prompt(running.at(id).slot, shared, {});
}

// A device without memory for all texts may have it for the shorter ones.
void Engine::State::end_after_run(std::vector<SequenceId> ids, const RunFailure& failure) {
  const Error& error = failure.error;
  if (failure.was_stopped) {
    end_unwanted();
    std::erase_if(ids, [&](SequenceId id) { return !running.contains(id); });
  }
  if (failure.has_lost_caches) return go_on(ids, failure);
  // Those that are left run again.
  if (failure.was_stopped && error.code() == ErrorCode::interrupted) return;
  if (error.code() == ErrorCode::resource_exhausted && ids.size() > 1) {
    const auto size_of = [&](SequenceId id) { return slots[running.at(id).slot].size; };
    return fail(*std::ranges::max_element(ids, {}, size_of), error);
  }
  for (const SequenceId id : ids) fail(id, error);
}

// The worker process has ended, with all keys and values. The texts go on in the next one with the tokens that they
// have, but for one that has ended two workers at the same place.
void Engine::State::go_on(const std::vector<SequenceId>& ids, const RunFailure& failure) {
  for (const SequenceId id : ids) {
    if (failure.had_taken_run && !running.at(id).sequence->may_go_on()) fail(id, failure.error);
  }
  while (!running.empty()) preempt(running.begin()->first);
  clear_kept();
}

// There is no memory for the next token of the longest texts. The others go on.
void Engine::State::end_longest(const std::vector<SequenceId>& ids, const Error& error) {
  const std::size_t capacity = decoder.capacity(), spare = slots.decoding();
  bool is_ended = false;
  for (const SequenceId id : ids) {
    if (slots[running.at(id).slot].size + 1 <= capacity) continue;
    fail(id, error);
    is_ended = true;
  }
  if (is_ended) return;
  // It is the second row of a pair that is too long.
  const std::optional<SequenceId> owner = slots[spare].owner;
  if (owner) return fail(*owner, error);
  clear(spare);
}

}  // namespace gpux::generation

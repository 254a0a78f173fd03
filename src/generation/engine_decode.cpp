#include <algorithm>
#include <chrono>
#include <utility>

#include "base/caught_error.h"
#include "generation/engine_state.h"

namespace gpux::generation {
namespace {

using Clock = std::chrono::steady_clock;

// Of texts with fewer tokens, and of the second row of a pair: what they write is behind the tokens of their slots.
constexpr std::uint32_t any_token = 0;

}  // namespace

std::vector<Engine::State::DecodedText> Engine::State::texts_that_decode() {
  std::vector<DecodedText> texts;
  for (std::size_t slot = 0; slot < slots.decoding(); ++slot) {
    const SequenceId id = slots[slot].owner.value_or(0);
    Sequence& sequence = *running.at(id).sequence;
    const std::size_t past = slots[slot].size;
    // One that was preempted has several tokens again.
    const std::span<const std::uint32_t> own = sequence.tokens().subspan(past);
    DecodedText text{.id = id, .past = past, .tokens = {own.begin(), own.end()}, .known = own.size()};
    if (decoder.runs_ahead() && own.size() < max_ahead) {
      const Upcoming upcoming = sequence.upcoming(max_ahead - own.size());
      text.tokens.insert(text.tokens.end(), upcoming.tokens.begin(), upcoming.tokens.end());
      text.known += upcoming.certain;
      text.guessed = text.tokens.size() - text.known;
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

std::vector<AheadRow> Engine::State::ahead_rows(std::span<const DecodedText> texts) {
  std::vector<AheadRow> rows;
  for (const DecodedText& text : texts) {
    rows.push_back({.known = text.known,
                    .guessed = text.guessed,
                    .acceptance = running.at(text.id).sequence->acceptance().probability(),
                    .most = std::max<std::size_t>(context.context_length - text.past, 1)});
  }
  if (can_draft()) add_draft(texts, rows);
  return rows;
}

bool Engine::State::has_memory_for(std::size_t texts, std::size_t length) {
  const std::size_t wanted = slots.tokens() + texts * length;
  return wanted <= max_cache_tokens && share->resize(bytes_of(wanted), running.begin()->first);
}

// How many tokens each text runs. Those that are guessed have no claim to memory: nobody makes room for them. Empty:
// the draft model reads on first. `prompt_tokens`: that have run since the last step.
std::optional<std::size_t> Engine::State::tokens_of_each(std::span<DecodedText> texts, std::size_t prompt_tokens) {
  if (!decoder.runs_ahead()) return 1;
  std::vector<AheadRow> rows = ahead_rows(texts);
  const AheadPlan plan = can_draft() ? plan_with_draft(rows) : plan_ahead(rows, step_costs);
  if (plan.length > 1 && !has_memory_for(texts.size(), plan.length)) return 1;
  if (plan.drafted != 0) {
    if (!read_for_draft(texts, rows, plan.drafted, prompt_tokens)) return std::nullopt;
    draft_guesses(texts, rows, plan.drafted);
    std::size_t useful = 1;
    for (const DecodedText& text : texts) useful = std::max(useful, text.known + text.guessed);
    return std::min(plan.length, useful);
  }
  const bool has_guess = std::ranges::any_of(texts, [](const DecodedText& text) { return text.guessed != 0; });
  if (plan.length == 1 && has_guess && !can_draft()) step_costs.fade(texts.size());
  return plan.length;
}

void Engine::State::run_decode() {
  const std::size_t prompt_tokens = std::exchange(prompt_tokens_in_turn, 0);
  if (!make_room(slots.decoding())) return;
  if (slots.decoding() == 0) return;
  std::vector<DecodedText> texts = texts_that_decode();
  const std::optional<std::size_t> planned = tokens_of_each(texts, prompt_tokens);
  if (!planned) return;
  const std::size_t length = *planned;
  std::vector<SequenceId> ids;
  std::vector<Decoder::Row> rows;
  std::size_t longest = 0;
  for (DecodedText& text : texts) {
    text.tokens.resize(length, any_token);
    ids.push_back(text.id);
    rows.push_back({text.past, text.tokens});
    longest = std::max(longest, text.past);
  }
  if (decoder.needs_pairs() && decoder.can_batch() && rows.size() % 2 != 0) {
    rows.push_back({slots[rows.size()].size, {&any_token, 1}});
    longest = std::max(longest, rows.back().past);
  }
  try {
    reserve(longest + length);
  } catch (...) {
    return end_longest(ids, caught_error());
  }
  Tensor logits;
  const Clock::time_point start = Clock::now();
  const LogitRows wanted = length == 1 ? LogitRows::last : LogitRows::all;
  if (const auto failure = run(ids, 0, rows, logits, wanted)) return end_after_run(ids, *failure);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (decoder.runs_ahead()) step_costs.add(texts.size(), length, seconds);
  if (drafting) drafting->trials.add_run(seconds);
  count([](EngineStatistics& counts) { ++counts.steps; });
  take_logits(texts, length, logits);
}

void Engine::State::take_logits(std::span<const DecodedText> texts, std::size_t length, const Tensor& logits) {
  std::vector<TextEnd> ends;
  std::size_t draft_tokens = 0, accepted_draft_tokens = 0;
  const std::span<const float> all = logits.as<float>();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const DecodedText& text = texts[i];
    Sequence& sequence = *running.at(text.id).sequence;
    std::size_t taken = 0;
    bool is_right = true, has_ended = false;
    while (is_right && !has_ended) {
      slots.add_generated(i);
      const std::span<const float> own = all.subspan((i * length + taken) * vocabulary, vocabulary);
      ++taken;
      // The next token of a text that was preempted is there.
      if (slots[i].size == sequence.tokens().size()) {
        if (std::optional<TextEnd> end = advance(text.id, own)) {
          ends.push_back(*std::move(end));
          has_ended = true;
          continue;
        }
      }
      is_right = taken < length && text.tokens[taken] == sequence.tokens()[slots[i].size];
    }
    const std::size_t last = text.known + text.guessed, tried = std::min(length, last) - std::min(length, text.known);
    const GuessCounts guesses{.are_drafted = text.is_drafted,
                              .offered = text.guessed,
                              .tried = tried,
                              .right = std::min(tried, taken - std::min(taken, text.known)),
                              .is_wrong = !has_ended && taken < std::min(length, last)};
    sequence.count_guesses(guesses);
    if (text.is_drafted) count_draft(i, guesses);
    draft_tokens += guesses.tried;
    accepted_draft_tokens += guesses.right;
  }
  count([&](EngineStatistics& counts) {
    counts.draft_tokens += draft_tokens;
    counts.accepted_draft_tokens += accepted_draft_tokens;
  });
  // Behind all of them: a text that goes moves others to other slots.
  for (const TextEnd& end : ends) finish(end);
}

}  // namespace gpux::generation

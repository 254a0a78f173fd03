#include <algorithm>
#include <chrono>
#include <utility>

#include "base/caught_error.h"
#include "base/log.h"
#include "generation/engine_state.h"

namespace gpux::generation {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

void Engine::State::add_draft(std::span<const DecodedText> texts, std::span<AheadRow> rows) {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    Sequence& sequence = *running.at(texts[i].id).sequence;
    const std::span<const std::uint32_t> tokens = sequence.tokens();
    const bool has_one_next =
        texts[i].known == 1 && !sequence.is_in_prompt() && !sequence.request().settings.prompt_only;
    if (!has_one_next || !drafting->model.can_continue(tokens)) continue;
    // A step that was not taken leaves the last token read.
    drafting->model.cut(i, tokens.size() - 1);
    const std::size_t behind = tokens.size() - drafting->model.size(i);
    rows[i].left = sequence.left();
    // The step gives one token anyway.
    rows[i].draftable = std::min(max_drafted, rows[i].left - std::min<std::size_t>(rows[i].left, 1));
    rows[i].draft_acceptance = sequence.draft_acceptance(drafting->acceptance).probability();
    rows[i].unread = behind - 1;
  }
}

AheadPlan Engine::State::plan_with_draft(std::span<AheadRow> rows) {
  if (drafting->is_always_used) {
    constexpr DraftShares free{.step = 0, .reading = 0};
    for (AheadRow& row : rows) row.draft_acceptance = 1;
    return plan_ahead(rows, StepCosts(), &free);
  }
  // What the draft model takes is compared with a step of one token of each, which is measured now and then.
  if (step_costs.is_due(rows.size())) return {};
  const DraftShares shares = drafting->costs.shares(rows.size(), step_costs.seconds(rows.size()));
  const bool is_new = !drafting->costs.is_known(rows.size());
  const AheadPlan plan = plan_ahead(rows, is_new ? StepCosts() : step_costs, &shares);
  if (plan.length > 1) return plan;
  step_costs.fade(rows.size());
  return begin_trial(rows, shares) ? AheadPlan{.length = trial_length + 1, .drafted = trial_length} : plan;
}

// Whether one text is drafted although it does not seem to pay: it alone then.
bool Engine::State::begin_trial(std::span<AheadRow> rows, const DraftShares& shares) {
  const double step = step_costs.seconds(rows.size());
  const std::optional<std::size_t> chosen = text_for_trial(rows);
  const bool has_room = rows.size() * (trial_length + 1) <= max_ahead;
  if (!chosen || step == 0 || !has_room || rows[*chosen].most <= trial_length) return false;
  if (!drafting->trials.take(step * cost_of_trial(rows[*chosen], rows.size(), step_costs, shares))) return false;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i != *chosen) rows[i].draftable = 0;
  }
  rows[*chosen].guessed = 0;
  return true;
}

// `tokens`: that each text reads. False where a failure, which switches the draft model off, or the end of the texts
// came in between.
template <typename Work>
bool Engine::State::run_draft(std::span<const DecodedText> texts, std::size_t tokens, const Work& work) {
  std::vector<SequenceId> ids;
  for (const DecodedText& text : texts) ids.push_back(text.id);
  const Clock::time_point limit =
      Clock::now() + drafting->patience * static_cast<int>(1 + tokens / DraftSource::tokens_of_patience);
  begin_watching(ids, drafting->model.decoder(), limit);
  try {
    work();
    (void)end_watching();
    return true;
  } catch (...) {
    const Error error = caught_error();
    const bool was_stopped = end_watching() && error.code() == ErrorCode::interrupted;
    if (!was_stopped) {
      end_drafting(error);
    } else if (Clock::now() >= limit) {
      end_drafting(Error(ErrorCode::deadline_exceeded, "it takes too long, or hangs"));
    }
    return false;
  }
}

// Tokens that the draft model has not read, as many as prompts may have between two steps. A text that it has not read
// to its end has no guesses in this step. False: nobody else waits for the step, and it reads on before.
bool Engine::State::read_for_draft(std::span<const DecodedText> texts, std::span<AheadRow> rows, std::size_t drafted,
                                   std::size_t prompt_tokens) {
  DraftModel& model = drafting->model;
  std::size_t room = options.prompt_chunk - std::min(options.prompt_chunk, prompt_tokens);
  bool is_behind = false;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (!takes_draft(rows[i], drafted)) continue;
    const std::span<const std::uint32_t> tokens = running.at(texts[i].id).sequence->tokens();
    const std::size_t part = std::min(rows[i].unread, room);
    if (rows[i].unread >= max_drafted && part != 0) {
      const Clock::time_point start = Clock::now();
      const bool is_read =
          run_draft(texts.subspan(i, 1), part, [&] { model.read(i, tokens.subspan(model.size(i), part)); });
      if (!can_draft()) return true;
      if (!is_read) {
        rows[i].draftable = 0;
        continue;
      }
      drafting->costs.add_reading(part, seconds_since(start));
      count([](EngineStatistics& counts) { ++counts.draft_model_steps; });
      room -= part;
    }
    rows[i].unread = tokens.size() - model.size(i) - 1;
    if (rows[i].unread < max_drafted) continue;
    rows[i].draftable = 0;
    is_behind = true;
  }
  return !is_behind || running.size() > 1;
}

void Engine::State::draft_guesses(std::span<DecodedText> texts, std::span<const AheadRow> rows, std::size_t drafted) {
  if (!can_draft()) return;
  std::size_t first = texts.size(), end = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (!takes_draft(rows[i], drafted)) continue;
    first = std::min(first, i);
    end = i + 1;
  }
  if (end == 0) return;
  std::vector<DraftedText> drafted_texts;
  for (std::size_t i = first; i < end; ++i) {
    Sequence& sequence = *running.at(texts[i].id).sequence;
    const bool takes = takes_draft(rows[i], drafted);
    if (takes) sequence.begin_guesses();
    drafted_texts.push_back({.slot = i,
                             .tokens = sequence.tokens(),
                             .most = takes ? std::min(drafted, rows[i].draftable) : 0,
                             .choose = [&sequence](std::span<const float> logits) { return sequence.guess(logits); }});
  }
  const Clock::time_point start = Clock::now();
  DraftModel::Guesses guesses;
  if (!run_draft(texts.subspan(first, end - first), max_drafted,
                 [&] { guesses = drafting->model.guess(drafted_texts); }))
    return;
  drafting->costs.add_steps(end - first, guesses.steps, seconds_since(start));
  count([&](EngineStatistics& counts) { counts.draft_model_steps += guesses.steps; });
  for (std::size_t i = first; i < end; ++i) {
    if (drafted_texts[i - first].most == 0) continue;
    const std::vector<std::uint32_t>& own = guesses.tokens[i - first];
    texts[i].tokens.resize(texts[i].known);
    texts[i].tokens.insert(texts[i].tokens.end(), own.begin(), own.end());
    texts[i].guessed = own.size();
    texts[i].is_drafted = true;
  }
}

void Engine::State::count_draft(std::size_t slot, const GuessCounts& guesses) {
  if (guesses.tried != 0) drafting->acceptance.add(guesses.right, !guesses.is_wrong);
  // The last guess was chosen, and has not run.
  if (can_draft() && guesses.offered != 0) drafting->model.accept(slot, std::min(guesses.right, guesses.offered - 1));
}

void Engine::State::end_drafting(const Error& error) noexcept {
  drafting->is_on = false;
  for (std::size_t slot = 0; slot < slots.size(); ++slot) drafting->model.cut(slot, 0);
  try {
    bool is_unloaded = false;
    {
      const std::lock_guard lock(mutex);
      is_unloaded = is_ending;
      if (!is_unloaded) statistics.draft_model_failures = 1;
    }
    if (is_unloaded) return;
    log::warning("the draft model '{}' guesses no more tokens, and texts go on without it: {}", drafting->model.name(),
                 error.message());
  } catch (...) {  // no memory for the line
  }
}

}  // namespace gpux::generation

#include "generation/run_ahead.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace gpux::generation {
namespace {

// The cost of one token more in a step whose weights are read anyway, before it is measured.
constexpr double share_of_token = 0.04;
constexpr double weight_of_one = 0.5, weight_of_new = 0.2, fading_of_costs = 0.01;
constexpr std::size_t most_since_one = 64;
constexpr std::size_t least_count = 4;
// Gains below this are not worth the risk that the times are not right.
constexpr double least_gain = 1.05;
// An acceptance counts as of the last so many guesses.
constexpr double remembered = 16, fading = 0.98;
constexpr double remembered_of_others = 8;
// Of the cost of a step of a draft model, that of a token that it reads among hundreds, before it is measured.
constexpr double share_of_read_token = 0.15;
// Trials, and the seconds that are saved for them unless one takes more.
constexpr double share_of_trials = 0.01, most_saved = 0.1;

// Other work on a machine only adds time: what took less is believed sooner.
double changed(double known, double measured) {
  return known + (measured < known ? weight_of_one : weight_of_new) * (measured - known);
}

double rule_of_thumb(std::size_t texts, std::size_t length) {
  const auto of = [texts](std::size_t tokens) { return 1 + share_of_token * static_cast<double>(texts * tokens); };
  return of(length) / of(1);
}

// Tokens that a text gets if `length` run, of which those behind the known ones are guessed.
double expected(std::size_t known, std::size_t guessed, double acceptance, std::size_t length) {
  known = std::min(known, length);
  double sum = static_cast<double>(known), probability = 1;
  for (std::size_t i = 0; i < std::min(guessed, length - known); ++i) {
    probability *= acceptance;
    sum += probability;
  }
  return sum;
}

double expected(const AheadRow& row, std::size_t length) {
  return expected(row.known, row.guessed, row.acceptance, length);
}

double expected_of_draft(const AheadRow& row, std::size_t drafted) {
  return expected(row.known, std::min(row.draftable, drafted), row.draft_acceptance, row.known + drafted);
}

std::size_t longest_step(std::span<const AheadRow> rows) {
  std::size_t most = max_ahead / rows.size();
  for (const AheadRow& row : rows) most = std::min(most, row.most);
  return most;
}

double own_rate(std::span<const AheadRow> rows, const StepCosts& costs, std::size_t length) {
  double sum = 0;
  for (const AheadRow& row : rows) sum += expected(row, length);
  return sum / costs.cost(rows.size(), length);
}

std::size_t length_of_own(std::span<const AheadRow> rows, const StepCosts& costs) {
  std::size_t useful = 1;
  for (const AheadRow& row : rows) useful = std::max(useful, row.known + row.guessed);
  const std::size_t most = std::min(longest_step(rows), useful);
  constexpr std::array<std::size_t, 12> lengths{2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 64};
  std::size_t best = 1;
  double best_rate = own_rate(rows, costs, 1) * least_gain;
  for (const std::size_t length : lengths) {
    if (length > most) break;
    if (const double own = own_rate(rows, costs, length); own > best_rate) {
      best = length;
      best_rate = own;
    }
  }
  return best;
}

// Tokens of all texts in the time of a step with one of each.
double draft_rate(std::span<const AheadRow> rows, const StepCosts& costs, const DraftShares& draft,
                  std::size_t drafted) {
  double sum = 0;
  for (const AheadRow& row : rows) {
    sum += takes_draft(row, drafted) ? expected_of_draft(row, drafted) : expected(row, drafted + 1);
  }
  return sum / (costs.cost(rows.size(), drafted + 1) + static_cast<double>(drafted) * draft.step);
}

// Nobody knows how long a text becomes: what is read has to pay within so many tokens.
constexpr std::size_t paying_tokens = 128;

bool pays_reading(std::span<const AheadRow> rows, const DraftShares& draft, std::size_t drafted, double rate_without,
                  double rate_with) {
  std::size_t unread = 0, left = 0;
  for (const AheadRow& row : rows) {
    if (!takes_draft(row, drafted)) continue;
    unread += row.unread;
    left += std::min(row.left, paying_tokens);
  }
  const double reading = static_cast<double>(unread) * draft.reading;
  return reading == 0 || static_cast<double>(left) * (1 / rate_without - 1 / rate_with) > reading;
}

}  // namespace

void StepCosts::add(std::size_t texts, std::size_t length, double seconds) {
  OfTexts& known = by_texts_[texts];
  if (length == 1) {
    known.since_one = 0;
    known.one = known.one == 0 ? seconds : known.one + weight_of_one * (seconds - known.one);
    return;
  }
  ++known.since_one;
  if (known.one == 0) return;
  const double cost = seconds / known.one;
  const auto [entry, is_new] = known.several.emplace(length, cost);
  if (!is_new) entry->second = changed(entry->second, cost);
}

double StepCosts::cost(std::size_t texts, std::size_t length) const {
  if (length == 1) return 1;
  const auto known = by_texts_.find(texts);
  if (known == by_texts_.end() || known->second.several.empty()) return rule_of_thumb(texts, length);
  const std::map<std::size_t, double>& several = known->second.several;
  const auto above = several.lower_bound(length);
  if (above == several.end()) {
    const auto& [longest, cost] = *several.rbegin();
    return cost * rule_of_thumb(texts, length) / rule_of_thumb(texts, longest);
  }
  const auto [below, cost] = above == several.begin() ? std::pair<const std::size_t, double>(1, 1) : *std::prev(above);
  const double share = static_cast<double>(length - below) / static_cast<double>(above->first - below);
  return cost + share * (above->second - cost);
}

void StepCosts::fade(std::size_t texts) {
  for (auto& [length, cost] : by_texts_[texts].several) cost += fading_of_costs * (rule_of_thumb(texts, length) - cost);
}

double StepCosts::seconds(std::size_t texts) const {
  const auto known = by_texts_.find(texts);
  return known == by_texts_.end() ? 0 : known->second.one;
}

bool StepCosts::is_due(std::size_t texts) const {
  const auto known = by_texts_.find(texts);
  return known == by_texts_.end() || known->second.one == 0 || known->second.since_one >= most_since_one;
}

bool takes_draft(const AheadRow& row, std::size_t drafted) noexcept {
  return row.draftable != 0 && expected_of_draft(row, drafted) > expected(row, drafted + 1);
}

AheadPlan plan_ahead(std::span<const AheadRow> rows, const StepCosts& costs, const DraftShares* draft) {
  if (rows.empty()) return {};
  AheadPlan best{.length = length_of_own(rows, costs)};
  if (draft == nullptr) return best;
  std::size_t useful = 0;
  for (const AheadRow& row : rows) useful = std::max(useful, row.draftable);
  const std::size_t most = std::min({useful, max_drafted, std::max<std::size_t>(longest_step(rows), 1) - 1});
  const double rate_without = own_rate(rows, costs, best.length);
  double best_rate = rate_without * least_gain;
  for (std::size_t drafted = 1; drafted <= most; ++drafted) {
    const double rate = draft_rate(rows, costs, *draft, drafted);
    if (rate <= best_rate || !pays_reading(rows, *draft, drafted, rate_without, rate)) continue;
    best = {.length = drafted + 1, .drafted = drafted};
    best_rate = rate;
  }
  return best;
}

std::optional<std::size_t> text_for_trial(std::span<const AheadRow> rows) noexcept {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].draftable == 0 || rows[i].most < 2) continue;
    if (!found || rows[i].unread < rows[*found].unread) found = i;
  }
  return found;
}

double cost_of_trial(const AheadRow& row, std::size_t texts, const StepCosts& costs,
                     const DraftShares& draft) noexcept {
  return costs.cost(texts, trial_length + 1) - 1 + static_cast<double>(trial_length) * draft.step +
         static_cast<double>(row.unread) * draft.reading;
}

void DraftCosts::add_steps(std::size_t texts, std::size_t steps, double seconds) {
  if (steps == 0) return;
  const double one = seconds / static_cast<double>(steps);
  Steps& known = by_texts_[texts];
  known.seconds = known.count == 0 ? one : changed(known.seconds, one);
  ++known.count;
}

void DraftCosts::add_reading(std::size_t tokens, double seconds) {
  if (tokens == 0) return;
  const double one = seconds / static_cast<double>(tokens);
  reading_ = reading_ == 0 ? one : changed(reading_, one);
}

bool DraftCosts::is_known(std::size_t texts) const {
  const auto known = by_texts_.find(texts);
  return known != by_texts_.end() && known->second.count >= least_count;
}

// Of another number of texts, the nearest that is known is a guess that the next step corrects.
DraftShares DraftCosts::shares(std::size_t texts, double step_seconds) const {
  DraftShares shares{.step = size_share_, .reading = size_share_ * share_of_read_token};
  if (step_seconds <= 0) return shares;
  if (!by_texts_.empty()) {
    auto known = by_texts_.lower_bound(texts);
    if (known == by_texts_.end()) --known;
    if (known->second.count >= least_count) shares.step = known->second.seconds / step_seconds;
    shares.reading = shares.step * share_of_read_token;
  }
  if (reading_ != 0) shares.reading = reading_ / step_seconds;
  return shares;
}

void TrialTime::add_run(double seconds) noexcept {
  saved_ = std::min(saved_ + share_of_trials * seconds, std::max(most_saved, wanted_));
}

bool TrialTime::take(double seconds) noexcept {
  wanted_ = seconds;
  if (saved_ < seconds) return false;
  saved_ -= seconds;
  return true;
}

void Acceptance::add(std::size_t accepted, bool is_cut_short) noexcept {
  right_ += static_cast<double>(accepted);
  if (!is_cut_short) wrong_ += 1;
  const double sum = right_ + wrong_;
  if (sum <= remembered) return;
  right_ *= remembered / sum;
  wrong_ *= remembered / sum;
}

Acceptance Acceptance::of_next_text() const noexcept {
  Acceptance next = *this;
  const double share = std::min(1.0, remembered_of_others / (right_ + wrong_));
  next.right_ *= share;
  next.wrong_ *= share;
  return next;
}

void Acceptance::fade() noexcept {
  right_ = 1 + (right_ - 1) * fading;
  wrong_ = 1 + (wrong_ - 1) * fading;
}

}  // namespace gpux::generation

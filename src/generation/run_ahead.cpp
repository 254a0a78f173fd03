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
// Gains below this are not worth the risk that the times are not right.
constexpr double least_gain = 1.05;
// An acceptance counts as of the last so many guesses.
constexpr double remembered = 16, fading = 0.98;

double rule_of_thumb(std::size_t texts, std::size_t length) {
  const auto of = [texts](std::size_t tokens) { return 1 + share_of_token * static_cast<double>(texts * tokens); };
  return of(length) / of(1);
}

// Tokens that a text gets if `length` of its own run.
double expected(const AheadRow& row, std::size_t length) {
  const std::size_t known = std::min(row.known, length);
  double sum = static_cast<double>(known), probability = 1;
  for (std::size_t i = 0; i < std::min(row.guessed, length - known); ++i) {
    probability *= row.acceptance;
    sum += probability;
  }
  return sum;
}

}  // namespace

void StepCosts::add(std::size_t texts, std::size_t length, double seconds) {
  OfTexts& known = by_texts_[texts];
  if (length == 1) {
    known.one = known.one == 0 ? seconds : known.one + weight_of_one * (seconds - known.one);
    return;
  }
  if (known.one == 0) return;
  const double cost = seconds / known.one;
  const auto [entry, is_new] = known.several.emplace(length, cost);
  if (!is_new) entry->second += weight_of_new * (cost - entry->second);
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

std::size_t plan_ahead(std::span<const AheadRow> rows, const StepCosts& costs) {
  if (rows.empty()) return 1;
  std::size_t most = max_ahead / rows.size(), useful = 1;
  for (const AheadRow& row : rows) {
    most = std::min(most, row.most);
    useful = std::max(useful, row.known + row.guessed);
  }
  most = std::min(most, useful);
  const auto rate = [&](std::size_t length) {
    double sum = 0;
    for (const AheadRow& row : rows) sum += expected(row, length);
    return sum / costs.cost(rows.size(), length);
  };
  constexpr std::array<std::size_t, 12> lengths{2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 64};
  std::size_t best = 1;
  double best_rate = rate(1) * least_gain;
  for (const std::size_t length : lengths) {
    if (length > most) break;
    if (const double own = rate(length); own > best_rate) {
      best = length;
      best_rate = own;
    }
  }
  return best;
}

void Acceptance::add(std::size_t accepted, bool is_cut_short) noexcept {
  right_ += static_cast<double>(accepted);
  if (!is_cut_short) wrong_ += 1;
  const double sum = right_ + wrong_;
  if (sum <= remembered) return;
  right_ *= remembered / sum;
  wrong_ *= remembered / sum;
}

void Acceptance::fade() noexcept {
  right_ = 1 + (right_ - 1) * fading;
  wrong_ = 1 + (wrong_ - 1) * fading;
}

}  // namespace gpux::generation

#pragma once

#include <cstddef>
#include <map>
#include <span>

/// How many tokens of a text run in one step: those that are known, and behind them some that are guessed. Logits of a
/// token do not depend on those behind it: a guess that is wrong costs time and changes nothing.
namespace gpux::generation {

/// What a text could run in the next step.
struct AheadRow {
  std::size_t known = 1;    ///< tokens that are certain
  std::size_t guessed = 0;  ///< tokens behind them
  double acceptance = 0;    ///< the probability that a guessed token is right, if those before it are
  std::size_t most = 1;     ///< tokens that there is room for

  bool operator==(const AheadRow&) const = default;
};

/// What steps with several tokens of each text cost, as multiples of those with one: times themselves grow with the
/// texts. Recent ones count most. Not thread-safe.
class StepCosts {
 public:
  /// A step of so many texts with `length` tokens of each.
  void add(std::size_t texts, std::size_t length, double seconds);
  /// As measured, or between the measured lengths around it; beyond them, and before there are any, by a rule of thumb.
  [[nodiscard]] double cost(std::size_t texts, std::size_t length) const;
  /// Something was guessed, and not tried: what is known fades, so that it is tried again in the end.
  void fade(std::size_t texts);

 private:
  struct OfTexts {
    double one = 0;                         // seconds of a step with one token of each; 0: not known
    std::map<std::size_t, double> several;  // costs, by length
  };

  std::map<std::size_t, OfTexts> by_texts_;
};

/// Tokens of a step at most, all texts together, if any are guessed.
inline constexpr std::size_t max_ahead = 64;

/// The tokens that each text runs: 1, or as many as give the most tokens in a second. Pure.
std::size_t plan_ahead(std::span<const AheadRow> rows, const StepCosts& costs);

/// How often guesses of a text are right. Begins at one half; recent ones count most.
class Acceptance {
 public:
  /// Of the guessed tokens up to the first wrong one, `accepted` were right; `is_cut_short`: there was none that was
  /// wrong.
  void add(std::size_t accepted, bool is_cut_short) noexcept;
  /// There was a guess, and it was not tried: what is known of earlier ones fades.
  void fade() noexcept;

  [[nodiscard]] double probability() const noexcept { return right_ / (right_ + wrong_); }

 private:
  double right_ = 1, wrong_ = 1;
};

}  // namespace gpux::generation

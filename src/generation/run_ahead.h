#pragma once

#include <cstddef>
#include <map>
#include <optional>
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

  std::size_t draftable = 0;    ///< tokens that a draft model could guess instead; 0: it is not asked
  double draft_acceptance = 0;  ///< as acceptance, of those
  std::size_t unread = 0;       ///< tokens that the draft model has to read before
  std::size_t left = 0;         ///< tokens that the text may still get

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
  /// Seconds of a step with one token of each; 0: not known.
  [[nodiscard]] double seconds(std::size_t texts) const;
  /// Whether the last steps of so many texts, several dozen, all had more tokens: one with one token of each is to be
  /// measured again, or for the first time.
  [[nodiscard]] bool is_due(std::size_t texts) const;
  /// Something was guessed, and not tried: what is known fades, so that it is tried again in the end.
  void fade(std::size_t texts);

 private:
  struct OfTexts {
    double one = 0;                         // seconds of a step with one token of each; 0: not known
    std::size_t since_one = 0;              // steps with more tokens
    std::map<std::size_t, double> several;  // costs, by length
  };

  std::map<std::size_t, OfTexts> by_texts_;
};

/// Tokens of a step at most, all texts together, if any are guessed.
inline constexpr std::size_t max_ahead = 64;

/// Tokens that a draft model guesses for a step at most.
inline constexpr std::size_t max_drafted = 8;

/// What a draft model takes, as multiples of a step of the model with one token of each text.
struct DraftShares {
  double step = 1;     ///< one guess of each text
  double reading = 1;  ///< one token that it reads

  bool operator==(const DraftShares&) const = default;
};

/// What runs in a step.
struct AheadPlan {
  std::size_t length = 1;   ///< tokens of each text
  std::size_t drafted = 0;  ///< of them, those that the draft model guesses; 0: it does not run

  bool operator==(const AheadPlan&) const = default;
};

/// Whether the text takes the guesses of the draft model in a step with so many, instead of its own. Pure.
bool takes_draft(const AheadRow& row, std::size_t drafted) noexcept;

/// One token of each text, or what gives the most tokens in a second: of the texts' own guesses, or with those of the
/// draft model, where it also makes up for the tokens that it has to read before. `draft`: null: there is none. Pure.
AheadPlan plan_ahead(std::span<const AheadRow> rows, const StepCosts& costs, const DraftShares* draft = nullptr);

/// The text with which a draft model that does not pay is tried again: the one with the fewest tokens to read. Empty:
/// there is none. Pure.
std::optional<std::size_t> text_for_trial(std::span<const AheadRow> rows) noexcept;

/// A trial of one text: what it takes beyond a step without one, in steps of one token. Pure.
double cost_of_trial(const AheadRow& row, std::size_t texts, const StepCosts& costs, const DraftShares& draft) noexcept;

/// Tokens that are guessed in a trial at most.
inline constexpr std::size_t trial_length = 3;

/// What a draft model takes in seconds. Recent ones count most. Not thread-safe.
class DraftCosts {
 public:
  /// `size_share`: the draft model's bytes as a share of the model's, which is what is known before a run.
  explicit DraftCosts(double size_share) : size_share_(size_share) {}

  /// So many steps with one guess of each of `texts` took `seconds` in all.
  void add_steps(std::size_t texts, std::size_t steps, double seconds);
  void add_reading(std::size_t tokens, double seconds);
  /// `step_seconds`: of a step of the model with one token of each text.
  [[nodiscard]] DraftShares shares(std::size_t texts, double step_seconds) const;
  /// Whether steps of so many texts were measured often enough: first ones take longer, and are not believed.
  [[nodiscard]] bool is_known(std::size_t texts) const;

 private:
  struct Steps {
    double seconds = 0;  // of one
    std::size_t count = 0;
  };

  double size_share_, reading_ = 0;  // seconds of a token; 0: not known
  std::map<std::size_t, Steps> by_texts_;
};

/// The time for trials of a draft model that does not pay: a hundredth of the time of all runs. Not thread-safe.
class TrialTime {
 public:
  void add_run(double seconds) noexcept;
  /// Whether there is so much: it is taken then.
  [[nodiscard]] bool take(double seconds) noexcept;

 private:
  double saved_ = 0, wanted_ = 0;  // seconds
};

/// How often guesses of a text are right. Begins at one half; recent ones count most.
class Acceptance {
 public:
  Acceptance() = default;

  /// Of one that counts as so many guesses already: it takes more of them to change it.
  explicit Acceptance(double guesses) : right_(guesses / 2), wrong_(guesses / 2) {}

  /// Of the guessed tokens up to the first wrong one, `accepted` were right; `is_cut_short`: there was none that was
  /// wrong.
  void add(std::size_t accepted, bool is_cut_short) noexcept;
  /// There was a guess, and it was not tried: what is known of earlier ones fades.
  void fade() noexcept;

  [[nodiscard]] double probability() const noexcept { return right_ / (right_ + wrong_); }

  /// What is known of a text by the others: as probable, and soon another one where this text differs.
  [[nodiscard]] Acceptance of_next_text() const noexcept;

 private:
  double right_ = 1, wrong_ = 1;
};

}  // namespace gpux::generation

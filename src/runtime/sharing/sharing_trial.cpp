#include "runtime/sharing/sharing_trial.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>

#include <fmt/format.h>

#include "gpux/error.h"
#include "runtime/compare.h"
#include "runtime/scheduling/batch.h"
#include "runtime/sharing/trial_inputs.h"

namespace gpux::runtime {
namespace {

using Outcome = SharingTrial::Outcome;
using std::chrono::nanoseconds;

/// Ends the trial: what it shows.
struct Ended {
  SharingTrial trial;
};

[[noreturn]] void end(Outcome outcome, std::string detail) {
  throw Ended{{.outcome = outcome, .detail = std::move(detail)}};
}

double seconds(nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// A request, and its answer alone.
struct Request {
  NamedValues inputs;
  std::int64_t rows = 0;
  NamedValues answer;
  bool is_compared = true;  ///< false: of an unusual magnitude, at which rounding alone may exceed the tolerance
};

/// Runs the model within the time that is left.
class Runs {
 public:
  Runs(const TrialRun& run, const TrialLimits& limits, const TrialClock& now)
      : run_(run), now_(now), time_(limits.time), until_(now() + limits.time) {}

  NamedValues run(const NamedValues& inputs, std::int64_t rows) {
    const auto start = now_();
    if (start >= until_) out_of_time();
    NamedValues answer;
    try {
      answer = run_(inputs, until_ - start);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::deadline_exceeded) out_of_time();
      // Nothing that other inputs would mend.
      if (error.code() == ErrorCode::resource_exhausted) end(Outcome::failed, error.message());
      throw;
    }
    // Runs have a cost of their own beside that of their rows, and some wait for a busy machine.
    const nanoseconds per_row = (now_() - start) / std::max<std::int64_t>(rows, 1);
    per_row_ = per_row_ ? std::min(*per_row_, per_row) : per_row;
    return answer;
  }

  /// Whether so many rows more can be expected to run in time.
  [[nodiscard]] bool has_time_for(std::int64_t rows) const { return now_() + time_of(rows) <= until_; }

  void require_time_for(std::int64_t rows) const {
    if (has_time_for(rows)) return;
    end(Outcome::out_of_time, fmt::format("it would take about {:.0f} s, and {:.0f} s are allowed",
                                          std::max(seconds(time_of(rows)), seconds(time_)), seconds(time_)));
  }

 private:
  [[noreturn]] void out_of_time() const {
    end(Outcome::out_of_time, fmt::format("it had not finished after {:.0f} s", seconds(time_)));
  }

  [[nodiscard]] nanoseconds time_of(std::int64_t rows) const { return per_row_.value_or(nanoseconds(0)) * rows; }

  const TrialRun& run_;
  const TrialClock& now_;
  nanoseconds time_;
  std::chrono::steady_clock::time_point until_;
  std::optional<nanoseconds> per_row_;  ///< the least seen
};

std::optional<std::string> difference(const NamedValues& expected, const NamedValues& got) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (got[i].second.tensor() == nullptr) return fmt::format("output '{}' is no tensor", expected[i].first);
    const Difference found = compare(expected[i].second, got[i].second, provider_tolerance);
    if (!found.within) return fmt::format("output '{}': {}", expected[i].first, found.reason);
  }
  return std::nullopt;
}

// An answer without a row for each of the request is none of a batch.
void require_rows(const Request& request) {
  for (const auto& [name, value] : request.answer) {
    const Tensor* tensor = value.tensor();
    if (tensor != nullptr && !tensor->shape().empty() && tensor->shape()[0] == request.rows) continue;
    end(Outcome::different,
        fmt::format("output '{}' is {} for {} rows", name,
                    tensor == nullptr ? "no tensor" : to_string(std::span<const std::int64_t>(tensor->shape())),
                    request.rows));
  }
}

template <typename T>
bool all_nan(const Tensor& tensor) {
  const auto values = tensor.as<T>();
  return std::all_of(values.begin(), values.end(), [](T value) { return std::isnan(value); });
}

bool says_nothing(const Tensor& row) {
  if (row.element_count() == 0) return true;
  if (row.type() == ElementType::float32) return all_nan<float>(row);
  if (row.type() == ElementType::float64) return all_nan<double>(row);
  return false;
}

bool same_row(const Tensor& a, const Tensor& b) {
  if (a.type() != b.type() || a.shape() != b.shape()) return false;
  return a.type() == ElementType::string ? std::ranges::equal(a.strings(), b.strings())
                                         : std::ranges::equal(a.bytes(), b.bytes());
}

// How many outputs have two rows that differ: where they are all alike, comparing them shows nothing.
std::size_t varying_outputs(std::span<const Request> requests) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < requests.front().answer.size(); ++i) {
    std::optional<Tensor> first;
    bool varies = false;
    for (const Request& request : requests) {
      const Tensor& tensor = *request.answer[i].second.tensor();
      // Rows of packed elements may begin within a byte.
      if (bits_of(tensor.type()) % 8 != 0) continue;
      for (std::int64_t row = 0; row < request.rows && !varies; ++row) {
        const Tensor one = tensor.rows(row, 1);
        if (says_nothing(one)) continue;
        if (!first) first = one;
        varies = !same_row(*first, one);
      }
    }
    if (varies) ++count;
  }
  return count;
}

/// Values and sizes that the model takes, and answers to them.
class Trial {
 public:
  Trial(const Signature& signature, Runs& runs, const TrialLimits& limits, bool with_optional)
      : signature_(signature), runs_(runs), limits_(limits), with_optional_(with_optional) {}

  /// Looks for inputs to which the model has different answers. Ends the trial where there are none.
  void find_inputs(const std::vector<RowShapes>& guesses) {
    std::optional<std::string> refusal;
    bool is_constant = false;
    for (const RowShapes& guess : guesses) {
      std::size_t best = 0;
      for (const TrialNumbers numbers : {TrialNumbers::varied, TrialNumbers::flags, TrialNumbers::positive}) {
        try {
          std::vector<Request> subjects = make_subjects(guess, numbers);
          const std::size_t varying = varying_outputs(subjects);
          is_constant = is_constant || varying == 0;
          if (varying <= best) continue;
          best = varying;
          shapes_ = guess;
          numbers_ = numbers;
          subjects_ = std::move(subjects);
          if (best == subjects_.front().answer.size()) break;
        } catch (const Error& error) {
          if (!refusal) refusal = error.message();
        }
      }
      if (best != 0) return;
    }
    if (is_constant) end(Outcome::constant, {});
    end(Outcome::failed, refusal.value_or("their sizes are not known"));
  }

  /// Ends the trial where an answer together is not that alone.
  void compare_runs(SharingTrial& done) {
    const Request &one = subjects_[0], &two = subjects_[1], &three = subjects_[2];
    require_again(one);
    runs_.require_time_for(5 + 3 + 1 + 6 + 9 + 8 + 2);
    const Request large = companion(5, {Magnitude::large, Magnitude::usual}, 11);
    const Request empty = companion(3, {Magnitude::zero, Magnitude::usual}, 12);
    const Request negative = companion(1, {Magnitude::negative, Magnitude::usual}, 13);
    compare_together({&one, &two, &three}, done);
    compare_together({&large, &three, &one}, done);
    compare_together({&two, &two, &one, &empty}, done);
    compare_together({&one, &negative}, done);
    std::vector<const Request*> many;
    std::int64_t rows = 0;
    const std::int64_t max_rows = std::min(limits_.max_rows, limits_.max_elements / largest_row());
    while (rows + 6 <= max_rows) {
      many.insert(many.end(), {&three, &one, &two});
      rows += 6;
    }
    if (rows > 9 && runs_.has_time_for(rows)) compare_together(many, done);
  }

 private:
  [[nodiscard]] Request alone(std::int64_t rows, const RowShapes& shapes, TrialNumbers numbers, Magnitude magnitude,
                              std::uint64_t seed) const {
    Request request{.inputs = make_request(signature_, shapes, rows, numbers, magnitude, seed, with_optional_),
                    .rows = rows,
                    .answer = {}};
    request.answer = runs_.run(request.inputs, rows);
    require_rows(request);
    return request;
  }

  [[nodiscard]] std::vector<Request> make_subjects(const RowShapes& shapes, TrialNumbers numbers) const {
    std::vector<Request> made;
    for (const std::int64_t rows : {1, 2, 3}) {
      made.push_back(alone(rows, shapes, numbers, Magnitude::usual, static_cast<std::uint64_t>(rows)));
    }
    return made;
  }

  // The first magnitude that the model takes.
  [[nodiscard]] Request companion(std::int64_t rows, std::array<Magnitude, 2> magnitudes, std::uint64_t seed) const {
    for (const Magnitude magnitude : magnitudes) {
      try {
        Request request = alone(rows, shapes_, numbers_, magnitude, seed);
        request.is_compared = magnitude == Magnitude::usual;
        return request;
      } catch (const Error& error) {
        if (magnitude == magnitudes.back()) end(Outcome::failed, error.message());
      }
    }
    end(Outcome::failed, {});
  }

  void require_again(const Request& request) const {
    const NamedValues answer = runs_.run(request.inputs, request.rows);
    if (const auto found = difference(request.answer, answer)) end(Outcome::changing, *found);
  }

  void compare_together(const std::vector<const Request*>& requests, SharingTrial& done) const {
    std::vector<NamedValues> items;
    BatchGroup group;
    std::int64_t rows = 0;
    for (const Request* request : requests) {
      group.items.push_back(items.size());
      group.rows.push_back(request->rows);
      items.push_back(request->inputs);
      rows += request->rows;
    }
    NamedValues joined;
    try {
      joined = runs_.run(concatenate(items, group), rows);
    } catch (const Error& error) {
      end(Outcome::different, fmt::format("a run of {} rows fails: {}", rows, error.message()));
    }
    const std::vector<NamedValues> parts = split(joined, group);
    if (parts.empty()) end(Outcome::different, fmt::format("a run of {} rows has outputs of other sizes", rows));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (!requests[i]->is_compared) continue;
      if (const auto found = difference(requests[i]->answer, parts[i])) end(Outcome::different, *found);
    }
    ++done.shared_runs;
    done.max_rows = std::max(done.max_rows, rows);
  }

  [[nodiscard]] std::int64_t largest_row() const {
    std::int64_t most = 1;
    for (const Shape& shape : shapes_) most = std::max(most, element_count(shape));
    return most;
  }

  const Signature& signature_;
  Runs& runs_;
  const TrialLimits& limits_;
  bool with_optional_;
  RowShapes shapes_;
  TrialNumbers numbers_ = TrialNumbers::varied;
  std::vector<Request> subjects_;
};

}  // namespace

SharingTrial try_sharing(const Signature& signature,
                         const std::vector<std::vector<std::pair<std::string, std::int64_t>>>& sizes,
                         const TrialRun& run, const TrialLimits& limits, const TrialClock& now) {
  SharingTrial done{.outcome = Outcome::equal};
  const bool has_optional =
      std::any_of(signature.inputs.begin(), signature.inputs.end(), [](const auto& input) { return !input.required; });
  const bool has_required =
      std::any_of(signature.inputs.begin(), signature.inputs.end(), [](const auto& input) { return input.required; });
  try {
    const std::vector<RowShapes> guesses = guess_row_shapes(signature, sizes);
    Runs runs(run, limits, now);
    for (const bool with_optional : {false, true}) {
      // Requests with and without an input never share a run, but each kind does.
      if (with_optional ? !has_optional : !has_required) continue;
      Trial trial(signature, runs, limits, with_optional);
      trial.find_inputs(guesses);
      trial.compare_runs(done);
    }
  } catch (const Ended& ended) {
    return ended.trial;
  } catch (const Error& error) {
    return {.outcome = Outcome::failed, .detail = error.message()};
  }
  return done;
}

}  // namespace gpux::runtime

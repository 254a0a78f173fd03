#include "generation/measure.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace gpux::generation {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

struct Round {
  std::mutex mutex;
  std::condition_variable ended;
  std::size_t open = 0;
  std::vector<std::vector<Clock::time_point>> times;  // of each user's tokens
  std::optional<Error> error;
};

EngineRequest request_of(const MeasuredLoad& load, std::mt19937_64& random, std::size_t vocabulary) {
  EngineRequest request;
  for (std::size_t i = 0; i < load.prompt_tokens; ++i) {
    request.prompt.push_back(static_cast<std::uint32_t>(random() % vocabulary));
  }
  request.settings.temperature = 0;
  request.settings.repetition_penalty = 1;
  request.settings.max_tokens = load.generate_tokens;
  request.settings.ignores_end = true;
  return request;
}

double milliseconds(Clock::duration time) {
  return Seconds(time).count() * 1e3;
}

double share_of(std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  return sorted[static_cast<std::size_t>(std::lround(share * static_cast<double>(sorted.size() - 1)))];
}

GenerationFigures figures_of(const Round& round, const MeasuredLoad& load, Clock::time_point start) {
  GenerationFigures figures;
  Clock::time_point last_first = start, first_end = Clock::time_point::max();
  std::vector<double> gaps;
  for (const std::vector<Clock::time_point>& times : round.times) {
    last_first = std::max(last_first, times.front());
    first_end = std::min(first_end, times.back());
    figures.first_token_ms += milliseconds(times.front() - start) / static_cast<double>(load.users);
    for (std::size_t i = 1; i < times.size(); ++i) gaps.push_back(milliseconds(times[i] - times[i - 1]));
  }
  figures.prompt_tokens_per_second =
      static_cast<double>(load.users * load.prompt_tokens) / Seconds(last_first - start).count();
  std::size_t together = 0;
  for (const std::vector<Clock::time_point>& times : round.times) {
    together += static_cast<std::size_t>(
        std::ranges::count_if(times, [&](Clock::time_point time) { return time > last_first && time <= first_end; }));
  }
  if (first_end > last_first) {
    figures.generate_tokens_per_second = static_cast<double>(together) / Seconds(first_end - last_first).count();
  }
  std::ranges::sort(gaps);
  figures.token_gap_median_ms = share_of(gaps, 0.5);
  figures.token_gap_p99_ms = share_of(gaps, 0.99);
  figures.token_gap_max_ms = share_of(gaps, 1);
  return figures;
}

GenerationFigures run_round(Engine& engine, const MeasuredLoad& load, std::mt19937_64& random) {
  Round round;
  round.open = load.users;
  round.times.resize(load.users);
  std::vector<EngineRequest> requests;
  for (std::size_t i = 0; i < load.users; ++i) {
    requests.push_back(request_of(load, random, engine.vocabulary_size()));
    requests.back().on_token = [&round, i](const GeneratedToken&) { round.times[i].push_back(Clock::now()); };
    requests.back().on_end = [&round](const std::optional<Error>& error, const Completion&) {
      const std::lock_guard lock(round.mutex);
      if (error) round.error = error;
      --round.open;
      round.ended.notify_all();
    };
  }
  const Clock::time_point start = Clock::now();
  std::size_t submitted = 0;
  std::optional<Error> refused;
  try {
    for (EngineRequest& request : requests) {
      engine.submit(std::move(request));
      ++submitted;
    }
  } catch (const Error& error) {
    refused = error;
  }
  std::unique_lock lock(round.mutex);
  round.ended.wait(lock, [&] { return round.open == load.users - submitted; });
  if (refused) throw Error(*refused);
  if (round.error) throw Error(*round.error);
  return figures_of(round, load, start);
}

void check(const Engine& engine, const MeasuredLoad& load) {
  if (load.prompt_tokens == 0 || load.generate_tokens == 0 || load.users == 0 || load.rounds == 0) {
    throw Error(ErrorCode::usage, "the numbers of prompt tokens, generated tokens, users and rounds are above 0");
  }
  if (load.prompt_tokens + load.generate_tokens > engine.context_length()) {
    throw Error(ErrorCode::usage,
                fmt::format("{} prompt tokens and {} generated ones do not fit in the context of {} tokens",
                            load.prompt_tokens, load.generate_tokens, engine.context_length()));
  }
  if (load.users > engine.statistics().slots) {
    throw Error(ErrorCode::usage, fmt::format("{} users; accepted: up to {}, the sequences that run at the same time",
                                              load.users, engine.statistics().slots));
  }
}

}  // namespace

MeasuredLoad load_for(std::size_t context_length, std::optional<std::size_t> prompt_tokens,
                      std::optional<std::size_t> generate_tokens) {
  MeasuredLoad load;
  const auto left = [&](std::size_t taken) { return context_length > taken ? context_length - taken : 1; };
  constexpr std::size_t share = 5;
  if (!generate_tokens) {
    const std::size_t room = prompt_tokens ? left(*prompt_tokens) : std::max<std::size_t>(context_length / share, 1);
    load.generate_tokens = std::min(load.generate_tokens, room);
  }
  load.generate_tokens = generate_tokens.value_or(load.generate_tokens);
  load.prompt_tokens = prompt_tokens.value_or(std::min(load.prompt_tokens, left(load.generate_tokens)));
  return load;
}

GenerationFigures measure(Engine& engine, const MeasuredLoad& load) {
  check(engine, load);
  std::mt19937_64 random(1);
  GenerationFigures best;
  const std::uint64_t all = load.warmup_rounds + load.rounds;
  for (std::uint64_t i = 0; i < all; ++i) {
    const GenerationFigures figures = run_round(engine, load, random);
    if (load.progress) load.progress(static_cast<double>(i + 1) / static_cast<double>(all));
    if (i >= load.warmup_rounds &&
        (best.rounds == 0 || figures.generate_tokens_per_second > best.generate_tokens_per_second)) {
      best = figures;
    }
    if (i >= load.warmup_rounds) best.rounds = i - load.warmup_rounds + 1;
  }
  best.cache_bytes = engine.memory_needed(load.users * (load.prompt_tokens + load.generate_tokens));
  return best;
}

}  // namespace gpux::generation

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "generation/engine.h"

namespace gpux::generation {

/// The load of a benchmark: `users` prompts of random tokens at once, each continued by `generate_tokens` tokens. No
/// two prompts begin alike.
struct MeasuredLoad {
  std::size_t prompt_tokens = 512;
  std::size_t generate_tokens = 128;
  std::size_t users = 1;
  std::uint64_t rounds = 3, warmup_rounds = 1;
  std::function<void(double done)> progress;  ///< called after each round with 0 to 1; may be empty
};

/// Throughput and latency of the best round, by `generate_tokens_per_second`: other work on a machine only adds time.
struct GenerationFigures {
  double prompt_tokens_per_second = 0;    ///< all prompts, until the last first token
  double generate_tokens_per_second = 0;  ///< all users, from the last first token to the first end
  double first_token_ms = 0;              ///< mean of the users
  double token_gap_median_ms = 0, token_gap_p99_ms = 0, token_gap_max_ms = 0;
  std::uint64_t cache_bytes = 0;  ///< keys and values at the end of a round
  std::uint64_t rounds = 0;
};

/// The load of a benchmark with these numbers of tokens; without them the default ones, or as many as fit in the
/// context: one generated token for four of the prompt. Pure.
MeasuredLoad load_for(std::size_t context_length, std::optional<std::size_t> prompt_tokens,
                      std::optional<std::size_t> generate_tokens);

/// Errors usage (the load does not fit in the context, or has more users than the engine has sequences); of Engine.
GenerationFigures measure(Engine& engine, const MeasuredLoad& load);

}  // namespace gpux::generation

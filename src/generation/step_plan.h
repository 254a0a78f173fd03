#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gpux::generation {

/// What waits for the next run of the model.
struct PendingWork {
  std::size_t decoding = 0;               ///< sequences that need one token each
  std::span<const std::size_t> prompts;   ///< tokens that are left of each prompt, the one whose turn it is first
  std::size_t prompt_tokens_in_turn = 0;  ///< of prompts, that ran since the last step of the sequences that decode
};

/// One run of the model.
struct Step {
  enum class Kind : std::uint8_t { none, prompt, decode } kind = Kind::none;
  std::size_t tokens = 0;  ///< of the first prompt

  bool operator==(const Step&) const = default;
};

/// Sequences that decode wait for `chunk` tokens of prompts at most, and prompts for one step of theirs. `chunk` is
/// even. A part of a prompt has an even number of tokens if what is left of it has.
Step plan_step(const PendingWork& work, std::size_t chunk);

/// Tokens of a prompt of so many that run as a prompt. A last odd one runs as if it had been generated, because a run
/// of one token computes with other kernels, and products of rows may be computed in pairs: so its digits do not depend
/// on where the prompt was cut.
std::size_t prompt_part(std::size_t prompt_tokens) noexcept;

/// How many of `common` tokens that a prompt shares with another one, which ran as a prompt, need not run again. An
/// even number, below the number of the prompt's tokens: its last one has to give the logits.
std::size_t reusable_tokens(std::size_t common, std::size_t prompt_tokens) noexcept;

}  // namespace gpux::generation

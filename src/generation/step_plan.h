#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace gpux::generation {

/// Work that waits for the next run of the model.
struct PendingWork {
  std::size_t decoding = 0;               ///< sequences that need one token each
  std::size_t prompt_tokens = 0;          ///< that are left of the prompt whose turn it is; 0: no prompt waits
  std::size_t prompt_tokens_in_turn = 0;  ///< of prompts, that ran since the last step of the sequences that decode
};

/// One run of the model.
struct Step {
  enum class Kind : std::uint8_t { none, prompt, decode } kind = Kind::none;
  std::size_t tokens = 0;  ///< of the prompt

  bool operator==(const Step&) const = default;
};

/// Sequences that decode wait for `chunk` tokens of prompts at most, and prompts for one step of theirs. `chunk` is
/// even. A part of a prompt has an even number of tokens if what is left of it has.
Step plan_step(const PendingWork& work, std::size_t chunk);

/// The texts of one request.
struct Claim {
  std::string_view client;
  std::uint64_t request = 0;  ///< a number; those of several clients may be equal
  std::size_t running = 0;    ///< texts that have a slot
  std::size_t waiting = 0;    ///< texts that wait for one

  bool operator==(const Claim&) const = default;
};

/// The request whose text gets the next slot.
struct Admission {
  std::size_t next = 0;                 ///< the claim whose text is the next to have a slot
  std::optional<std::size_t> yielding;  ///< the claim that gives up one for it where none is free

  bool operator==(const Admission&) const = default;
};

/// Slots are shared by clients, and those of a client by its requests: next is who has the fewest, the first of
/// several. Who has two more than that yields one, the last of several. `claims`: the one whose text has waited longest
/// first. Empty: none waits.
std::optional<Admission> plan_admission(std::span<const Claim> claims);

/// A text that has a slot.
struct RunningText {
  std::string_view client;
  std::uint64_t request = 0;
};

/// The text that gives up its memory for the others: the youngest of those whose client, and then whose request, have
/// the most. Never the oldest of several. `texts`: the oldest first, at least one.
std::size_t plan_preemption(std::span<const RunningText> texts);

/// A prompt that has not run as a whole.
struct PendingPrompt {
  std::string_view client;
  std::uint64_t request = 0;
  std::uint64_t last_turn = 0;  ///< when a part of it ran, or when it came; larger: later

  bool operator==(const PendingPrompt&) const = default;
};

/// The prompt that runs next: clients take turns, the requests of a client, and the prompts of a request. `prompts` is
/// not empty.
std::size_t next_prompt(std::span<const PendingPrompt> prompts);

/// Tokens of a prompt of so many that run as a prompt. A last odd one runs as if it had been generated, because a run
/// of one token computes with other kernels, and products of rows may be computed in pairs: so its digits do not depend
/// on where the prompt was cut.
std::size_t prompt_part(std::size_t prompt_tokens) noexcept;

/// How many of `common` tokens that a prompt shares with another one, which ran as a prompt, need not run again. An
/// even number, below the number of the prompt's tokens: its last one has to give the logits.
std::size_t reusable_tokens(std::size_t common, std::size_t prompt_tokens) noexcept;

}  // namespace gpux::generation

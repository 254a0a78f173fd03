#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpux::generation {

using SequenceId = std::uint64_t;

/// Which sequence has which slot of the decoder, and which tokens the slots hold. Sequences that decode have the first
/// slots, without a gap: they are one batch. Slots of no sequence keep the prompts of earlier ones. Pure: the engine
/// moves the keys and values.
class SlotTable {
 public:
  struct Slot {
    std::optional<SequenceId> owner{};
    std::size_t size = 0;                 ///< tokens whose keys and values are here
    std::string scope{};                  ///< whose prompts may begin with them
    std::vector<std::uint32_t> prompt{};  ///< the first of them, which ran as a prompt or will
    std::size_t computed = 0;             ///< of the prompt's tokens, those that are here
    std::uint64_t last_use = 0;           ///< larger: later
  };

  explicit SlotTable(std::size_t slots) : slots_(slots) {}

  [[nodiscard]] const Slot& operator[](std::size_t slot) const { return slots_.at(slot); }

  [[nodiscard]] std::size_t size() const noexcept { return slots_.size(); }

  /// Sequences in the first slots.
  [[nodiscard]] std::size_t decoding() const noexcept { return decoding_; }

  [[nodiscard]] std::size_t owned() const noexcept;
  /// Total number of tokens in all slots.
  [[nodiscard]] std::size_t tokens() const noexcept;
  [[nodiscard]] std::vector<std::size_t> sizes() const;

  /// The slot of the scope that holds the longest beginning of the prompt, and its length. Empty where none holds a
  /// token of it.
  struct Match {
    std::size_t slot = 0, tokens = 0;
  };

  [[nodiscard]] std::optional<Match> longest_match(std::string_view scope, std::span<const std::uint32_t> prompt) const;

  /// The slot for a new sequence: one without tokens, otherwise the one of no sequence that was used least recently,
  /// rather not `spared`. There is one as long as fewer sequences than slots have slots.
  [[nodiscard]] std::size_t free_slot(std::optional<std::size_t> spared = {}) const;
  /// The slot of no sequence that was used least recently and holds tokens.
  [[nodiscard]] std::optional<std::size_t> least_recent() const;

  /// A prompt of a scope.
  struct Prompt {
    std::string scope;
    std::vector<std::uint32_t> tokens;
  };

  /// Gives the slot, with the first `kept` tokens of the prompt in it, to a sequence.
  void take(std::size_t slot, SequenceId owner, Prompt prompt, std::size_t kept);
  /// Tokens were added: of the prompt, or generated.
  void add_prompt(std::size_t slot, std::size_t tokens);
  void add_generated(std::size_t slot);
  /// The slot's sequence has ended: it keeps what ran as a prompt, or all that it holds of `text`, the prompt with the
  /// generated tokens, where these are as if they had run as a prompt. Returns how many tokens it keeps. Not of slots
  /// that decode.
  std::size_t leave(std::size_t slot, std::span<const std::uint32_t> text = {});
  /// Forgets the tokens of a slot of no sequence.
  void clear(std::size_t slot);

  void exchange(std::size_t a, std::size_t b);
  /// The slot behind those that decode joins them, or the last of them leaves.
  void join();
  void part();

  /// Checks the invariants of the table. Error internal if one is violated.
  void check() const;

 private:
  std::vector<Slot> slots_;
  std::size_t decoding_ = 0;
  std::uint64_t clock_ = 0;
};

}  // namespace gpux::generation

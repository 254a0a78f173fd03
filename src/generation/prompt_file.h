#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "generation/key_value_cache.h"

/// The file with the keys and values of a prompt's beginning: a head that describes it, and behind that the rows, in
/// blocks of tokens. A block has, for each array of the layout, [heads, tokens of the block, head_size]. Any number of
/// its blocks is the file of a shorter beginning. Pure.
namespace gpux::generation {

/// The most tokens of a file.
constexpr std::size_t max_stored_tokens = std::size_t{1} << 24;

/// What the head of a file says.
struct StoredPrompt {
  std::string identity;                  ///< SHA-256, hexadecimal, of all that decides over the bits of the rows
  std::string scope;                     ///< keyed hash, hexadecimal, of the scope: who may find it
  CacheLayout layout;                    ///< of a token's rows
  std::vector<std::uint32_t> tokens;     ///< at least one
  std::vector<std::uint64_t> checksums;  ///< checksum_of() each block

  bool operator==(const StoredPrompt&) const = default;
};

/// Some of a prompt's tokens and where their rows are.
struct TokenBlock {
  std::size_t first = 0, tokens = 0;
  std::uint64_t offset = 0, bytes = 0;  ///< among the rows of all blocks

  bool operator==(const TokenBlock&) const = default;
};

/// Tokens of each block but the last, which may have fewer: even, and as many as 1 MiB has rows of, up to 256.
[[nodiscard]] std::size_t tokens_per_block(const CacheLayout& layout) noexcept;

/// The blocks of so many tokens, in order.
[[nodiscard]] std::vector<TokenBlock> blocks_of(const CacheLayout& layout, std::size_t tokens);

/// Bytes of the head of a file.
[[nodiscard]] std::uint64_t head_bytes(const CacheLayout& layout, std::size_t tokens) noexcept;

/// Bytes of the file with so many tokens.
[[nodiscard]] std::uint64_t file_bytes(const CacheLayout& layout, std::size_t tokens) noexcept;

/// The head of a file, with a checksum over itself.
[[nodiscard]] std::vector<std::byte> head_of(const StoredPrompt& prompt);

/// Bytes of the beginning that head_extent() needs.
constexpr std::size_t fixed_head_bytes = 168;

/// What the beginning of a file is of.
struct HeadExtent {
  enum class Kind : std::uint8_t {
    prompt,   ///< a stored prompt, whose head has so many `bytes`
    other,    ///< another format, or another version of it
    damaged,  ///< sizes that do not fit each other or the file
  } kind = Kind::damaged;
  std::uint64_t bytes = 0;

  bool operator==(const HeadExtent&) const = default;
};

/// Checks the sizes that a file gives, before anything is allocated for them: the head and the rows are all of the
/// file. `beginning`: the first fixed_head_bytes, or the whole file where it has fewer. `size`: bytes of the file.
[[nodiscard]] HeadExtent head_extent(std::span<const std::byte> beginning, std::uint64_t size) noexcept;

/// Reads a head that head_extent() found. Empty: its checksum is another.
[[nodiscard]] std::optional<StoredPrompt> read_head(std::span<const std::byte> head);

}  // namespace gpux::generation

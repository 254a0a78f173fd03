#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Which beginnings of prompts are written to files, read from them, and removed. Pure.
namespace gpux::generation {

/// A beginning of shorter length is not worth a file; nor is the part by which one is longer than what is there.
constexpr std::size_t least_stored_tokens = 256;

/// A beginning that a file has, or will have when it is written.
struct StoredBeginning {
  std::string_view scope;
  std::span<const std::uint32_t> tokens;
};

/// The one of the scope that has the longest beginning of the prompt, and how many tokens of it. Empty where none has
/// the first token. Of equal ones the first.
struct StoredMatch {
  std::size_t index = 0, tokens = 0;

  bool operator==(const StoredMatch&) const = default;
};

[[nodiscard]] std::optional<StoredMatch> longest_stored(std::span<const StoredBeginning> stored, std::string_view scope,
                                                        std::span<const std::uint32_t> prompt);

/// A prompt that was computed.
struct ComputedPrompt {
  std::size_t tokens = 0;
  std::size_t shared = 0;  ///< the first of them, which another prompt in memory had, too
  std::size_t stored = 0;  ///< the first of them, which a file has
  bool goes_on = false;    ///< behind all tokens of that file: a conversation, most often
};

/// How many of its first tokens to write to a file; 0: none. The first prompt of its kind as a whole, and one that goes
/// on where a file ends, if it is longer by enough. Of one that leaves what a file has, only what another prompt had,
/// too: what is behind that is new each time, as documents behind the same instructions are.
[[nodiscard]] std::size_t tokens_to_store(const ComputedPrompt& prompt) noexcept;

/// Of the stored ones, those of the scope that the tokens begin with: a file of these tokens replaces theirs.
[[nodiscard]] std::vector<std::size_t> replaced_by(std::span<const StoredBeginning> stored, std::string_view scope,
                                                   std::span<const std::uint32_t> tokens);

/// A file of the folder.
struct KeptFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::int64_t last_use = 0;  ///< larger: later

  bool operator==(const KeptFile&) const = default;
};

/// The files that are removed, those used longest ago first, so that one of so many bytes can be added within the
/// limit. All of them, where it is too large by itself.
[[nodiscard]] std::vector<KeptFile> files_to_remove(std::vector<KeptFile> files, std::uint64_t limit_bytes,
                                                    std::uint64_t added_bytes);

}  // namespace gpux::generation

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "generation/prompt_choice.h"

namespace gpux::generation {

/// A folder of files that one user's processes share, each with the keys and values of a prompt. Only its user can read
/// it. Links and files of others in it are not followed, read or removed. Thread-safe.
class PromptFolder {
 public:
  /// Makes the folder, with mode 0700, where it is missing. Removes parts of files that ended processes have left.
  /// Errors usage: it is a link, of another user, or others may write to it; storage, not_found.
  explicit PromptFolder(std::filesystem::path path);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  /// Random bytes that all processes find here: the key of the hashes in the files. Error storage: there are none, and
  /// they cannot be written.
  [[nodiscard]] std::string secret() const;

  /// The files by which prompts are stored, in no order. What cannot be read is left out.
  [[nodiscard]] std::vector<KeptFile> files() const;

  /// Changes where a file is added or removed.
  [[nodiscard]] std::int64_t stamp() const noexcept;

  /// The file, for reading, and its size. No descriptor: there is none, or it is none of this user's regular files.
  struct OpenFile {
    UniqueFd descriptor{};
    std::uint64_t bytes = 0;
  };

  [[nodiscard]] OpenFile open(const std::string& name) const noexcept;

  /// Writes a file with mode 0600 under another name, which is replaced then: a file of this name is whole, or a power
  /// failure came between. False if stopped before the end. Error storage, and nothing is left.
  bool write(const std::string& name, std::span<const std::span<const std::byte>> parts,
             const std::stop_token& stop) const;

  /// It was used now.
  void touch(const std::string& name) const noexcept;
  void remove(const std::string& name) const noexcept;

 private:
  void remove_abandoned() const;
  [[nodiscard]] std::vector<std::string> names() const;

  std::filesystem::path path_;
  UniqueFd folder_;
};

/// The name of a prompt's file. `identity`, `content`: hexadecimal hashes, of what decides over the rows, and of scope
/// and tokens. Pure.
[[nodiscard]] std::string prompt_file_name(std::string_view identity, std::string_view content);

/// Whether a file of this name may be of the identity. Pure.
[[nodiscard]] bool is_name_of(std::string_view name, std::string_view identity) noexcept;

}  // namespace gpux::generation

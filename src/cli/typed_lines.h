#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace gpux::cli {

/// Input of a user of 'gpux chat' has typed: a message, or a command with its argument.
struct TypedInput {
  std::string command;  ///< without its slash; empty: a message
  std::string text;     ///< text of the message, or the command's argument

  bool operator==(const TypedInput&) const = default;
};

/// Joins lines: one is a message, unless it ends with a backslash, or three quotation marks begin a block that ends
/// with the next ones. What begins with a slash outside of a block is a command. Pure.
class TypedLines {
 public:
  static constexpr std::size_t max_bytes = std::size_t{16} << 20;

  /// `line` has no line feed. Empty where more lines are to come, and for a blank line.
  /// Error invalid_input: the message is longer than max_bytes; it is dropped.
  std::optional<TypedInput> add(std::string_view line);

  /// Whether the next line continues a message.
  [[nodiscard]] bool is_open() const noexcept { return is_block_ || is_continued_; }

  void clear();

 private:
  std::optional<TypedInput> finish(bool may_be_command);

  std::string text_;
  bool is_block_ = false, is_continued_ = false;
};

}  // namespace gpux::cli

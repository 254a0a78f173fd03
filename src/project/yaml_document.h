#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gpux::yaml {

/// A position in the text, both counted from 1.
struct Position {
  int line = 1;
  int column = 1;

  bool operator==(const Position&) const = default;
};

struct Entry;

/// A YAML value and where it stands. Immutable once parsed; an alias shares its anchor's node.
struct TreeNode {
  enum class Kind : unsigned char { null, scalar, list, map };

  Kind kind = Kind::null;
  Position position;
  std::string text;                                    ///< scalar
  std::vector<std::shared_ptr<const TreeNode>> items;  ///< list
  std::vector<Entry> entries;                          ///< map, in the file's order, each key once
  std::size_t node_count = 1;                          ///< this node and all below it, aliases counted as often as used

  /// The value under `key`, or null where this is no map or has no such key.
  [[nodiscard]] const TreeNode* find(std::string_view key) const noexcept;

  /// find(), but null also where the value is YAML's null.
  [[nodiscard]] const TreeNode* given(std::string_view key) const noexcept;

  /// The text of what is given; empty where nothing is.
  [[nodiscard]] std::string text_of(std::string_view key) const;
};

struct Entry {
  std::string key;
  Position key_position;
  std::shared_ptr<const TreeNode> value;
};

/// Reads one YAML document. `scalar` sees every scalar that is a value, not a key, and gives what stands for it.
/// `name` is how messages call the text. Error invalid_config "NAME:LINE:COL: …" for anything but well-formed YAML in
/// UTF-8 with each key once, at most 1 MiB, 64 levels and 100,000 values (aliases expanded), without custom tags.
std::shared_ptr<const TreeNode> parse(std::string_view text, const std::string& name,
                                      const std::function<std::string(const std::string&, Position)>& scalar);

}  // namespace gpux::yaml

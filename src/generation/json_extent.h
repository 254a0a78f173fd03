#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gpux::generation {

/// Finds the end of a JSON object or array in a text that arrives in pieces, without reading a character twice. It
/// looks at brackets and strings only: what is between them may be no JSON.
class JsonExtent {
 public:
  enum class State { open, complete, broken };

  /// Reads on. `text` is the whole text so far, which begins with '{' or '['.
  State read(std::string_view text);

  /// Bytes that were read; of the whole value, once it is complete.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  bool take(char c);

  std::string open_;  // the brackets that close what is open
  std::size_t size_ = 0;
  bool is_in_string_ = false, is_escaped_ = false;
};

/// Whether the text is one JSON value. Numbers may be of any size: those of a model may be beyond float64. Does not
/// recurse.
[[nodiscard]] bool is_json(std::string_view text);

}  // namespace gpux::generation

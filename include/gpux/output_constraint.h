#pragma once

#include <cstdint>
#include <string>

namespace gpux {

/// The form that a generated text must have. It is enforced token by token: no other text can come out.
struct OutputConstraint {
  /// Language that the form is described in.
  enum class Kind : std::uint8_t {
    none,
    json_object,  ///< any JSON object
    json_schema,  ///< JSON that is valid against the schema; see docs/constrained-output.md for its keywords
    regex,        ///< the whole text matches, in the syntax of Rust's regex crate without look-around
    grammar,      ///< a context-free grammar in llguidance's variant of Lark, with the rule `start`
  };

  Kind kind = Kind::none;
  std::string text;  ///< the schema, expression or grammar, UTF-8; empty for none and json_object
  /// A grammar of the whole text, in which @form stands for the form above and <[ID]> for a token of the vocabulary,
  /// also a special one. Empty: the form is the whole text. With an empty `text`, Kind::grammar is this grammar alone.
  std::string frame = {};

  bool operator==(const OutputConstraint&) const = default;
};

}  // namespace gpux

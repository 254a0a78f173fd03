#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "generation/stop_texts.h"
#include "text/tokenizer.h"

namespace gpux::generation {

/// Turns tokens into a text as they come: gives only whole characters, and nothing that may be the beginning of a text
/// that ends it. Tokens of single bytes that make no text (byte fallback) become U+FFFD, one for each byte that follows
/// the last whole character.
class TextStream {
 public:
  /// `stops`: texts that end it; none is empty. Special tokens have a text only if `shows_special_tokens`, or if they
  /// are among `shown_tokens`.
  TextStream(text::Tokenizer tokenizer, std::vector<std::string> stops, bool shows_special_tokens = false,
             std::vector<std::uint32_t> shown_tokens = {});

  /// The text continues that of `tokens`: whether its first word is preceded by a space is decided as in one text. To
  /// be called before add().
  void continue_text(std::span<const std::uint32_t> tokens);

  /// Adds a token. Returns the text that is certain now; may be empty, and is empty after a stop. `may_stop`: whether a
  /// stop that ends with this token counts.
  std::string add(std::uint32_t token, bool may_stop = true);

  /// Ends the text. Returns what was held back; empty after a stop.
  std::string finish();

  /// Whether one of the stops has come.
  [[nodiscard]] bool is_stopped() const noexcept { return is_stopped_; }

  /// Which one; empty before.
  [[nodiscard]] const std::string& stop() const noexcept { return stop_; }

 private:
  std::string certain(std::string piece, bool may_stop);
  [[nodiscard]] std::string added(const std::string& before, const std::string& now) const;
  [[nodiscard]] std::string decode(std::size_t first, std::size_t count) const;
  [[nodiscard]] bool is_hidden(std::uint32_t token) const;

  text::Tokenizer tokenizer_;
  StopTexts stops_;
  std::vector<std::uint32_t> tokens_;
  std::size_t prefix_ = 0;  // the first token that decides how the next ones are spelt
  std::size_t read_ = 0;    // tokens whose text was given
  std::string held_;        // text that may be the beginning of a stop
  bool shows_special_tokens_ = false;
  std::vector<std::uint32_t> shown_tokens_;
  bool is_stopped_ = false;
  std::string stop_;
};

/// Bytes at the end of `text` that may be the beginning of one of `stops`.
std::size_t held_back(std::string_view text, std::span<const std::string> stops);

}  // namespace gpux::generation

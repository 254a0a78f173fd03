#include "generation/text_stream.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace gpux::generation {
namespace {

constexpr std::string_view replacement = "\xef\xbf\xbd";  // what bytes that are no character yet are decoded to
// Bytes that do not become characters in so many tokens never will. All of them are decoded anew with each token.
constexpr std::size_t limit_undecided = 64;

}  // namespace

std::size_t held_back(std::string_view text, std::span<const std::string> stops) {
  std::size_t most = 0;
  for (const std::string& stop : stops) {
    for (std::size_t count = std::min(stop.size() - 1, text.size()); count > most; --count) {
      if (text.ends_with(std::string_view(stop).substr(0, count))) most = count;
    }
  }
  return most;
}

TextStream::TextStream(text::Tokenizer tokenizer, std::vector<std::string> stops, bool shows_special_tokens,
                       std::vector<std::uint32_t> shown_tokens)
    : tokenizer_(std::move(tokenizer)),
      stops_(std::move(stops)),
      shows_special_tokens_(shows_special_tokens),
      shown_tokens_(std::move(shown_tokens)) {}

// With `shown_tokens_`, tokens_ has no others that are special.
std::string TextStream::decode(std::size_t first, std::size_t count) const {
  const bool skips_special_tokens = !shows_special_tokens_ && shown_tokens_.empty();
  return tokenizer_.decode(std::span(tokens_).subspan(first, count), skips_special_tokens);
}

bool TextStream::is_hidden(std::uint32_t token) const {
  if (shows_special_tokens_ || shown_tokens_.empty()) return false;
  if (std::ranges::find(shown_tokens_, token) != shown_tokens_.end()) return false;
  return tokenizer_.decode({&token, 1}, true).empty() && !tokenizer_.decode({&token, 1}, false).empty();
}

// The last tokens are enough. Not so few that they begin within a character, which bytes of tokens are.
void TextStream::continue_text(std::span<const std::uint32_t> tokens) {
  for (std::size_t count = 4; count <= limit_undecided; count *= 2) {
    tokens_.clear();
    for (const std::uint32_t token : tokens.last(std::min(count, tokens.size()))) {
      if (tokenizer_.token(token) && !is_hidden(token)) tokens_.push_back(token);
    }
    read_ = tokens_.size();
    if (count >= tokens.size() || !decode(0, read_).starts_with(replacement)) return;
  }
}

// As transformers' TextIteratorStreamer does: how a token is spelt may depend on the ones before it (a leading space),
// and only on those since the last whole text.
std::string TextStream::add(std::uint32_t token, bool may_stop) {
  // Logits may have more positions than the tokenizer has tokens: they have no text.
  if (is_stopped_ || !tokenizer_.token(token) || is_hidden(token)) return {};
  tokens_.push_back(token);
  const std::string before = decode(prefix_, read_ - prefix_);
  const std::string now = decode(prefix_, tokens_.size() - prefix_);
  const bool is_undecided = now.size() <= before.size() || now.ends_with(replacement);
  if (is_undecided && tokens_.size() - read_ < limit_undecided) return {};
  const std::string piece = added(before, now);
  prefix_ = std::exchange(read_, tokens_.size());
  return certain(piece, may_stop);
}

// A run of bytes that is no text is decoded to U+FFFD for each byte, also for letters of it that were given before.
std::string TextStream::added(const std::string& before, const std::string& now) const {
  if (now.starts_with(before)) return now.substr(before.size());
  return decode(read_, tokens_.size() - read_);
}

std::string TextStream::certain(std::string piece, bool may_stop) {
  const std::size_t held = held_.size();
  std::string text = std::exchange(held_, {}) + piece;
  const std::optional<StopTexts::Found> found = stops_.add(piece);
  if (found && may_stop) {
    is_stopped_ = true;
    stop_ = stops_[found->text];
    return text.substr(0, held + found->end - stop_.size());
  }
  held_ = text.substr(text.size() - stops_.held());
  text.resize(text.size() - held_.size());
  return text;
}

std::string TextStream::finish() {
  if (is_stopped_) return {};
  const std::string before = decode(prefix_, read_ - prefix_);
  const std::string now = decode(prefix_, tokens_.size() - prefix_);
  const std::string piece = added(before, now);
  read_ = prefix_ = tokens_.size();
  return std::exchange(held_, {}) + piece;
}

}  // namespace gpux::generation

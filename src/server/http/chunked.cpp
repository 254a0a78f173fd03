#include "server/http/chunked.h"

#include <algorithm>

namespace gpux::http {

namespace {

int hexadecimal(char digit) noexcept {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

}  // namespace

std::string_view ChunkedDecoder::next(std::string_view& text) noexcept {
  while (!text.empty() && state_ != State::ended && state_ != State::malformed) {
    if (state_ == State::data) {
      const std::string_view data = text.substr(0, std::min<std::uint64_t>(remaining_, text.size()));
      text.remove_prefix(data.size());
      remaining_ -= data.size();
      if (remaining_ == 0) state_ = State::data_return;
      return data;
    }
    read(text.front());
    text.remove_prefix(1);
  }
  return {};
}

void ChunkedDecoder::read(char character) noexcept {
  switch (state_) {
    case State::size:
      return read_size(character);
    case State::extension:
      if (character == '\r') {
        state_ = State::size_line_end;
      } else if (character == '\n' || ++line_bytes_ > max_line_bytes_) {
        state_ = State::malformed;
      }
      return;
    case State::size_line_end:
      line_bytes_ = 0;
      digits_ = 0;
      line_is_empty_ = true;
      if (character != '\n') {
        state_ = State::malformed;
      } else {
        state_ = remaining_ == 0 ? State::trailer : State::data;
      }
      return;
    case State::data_return:
      state_ = character == '\r' ? State::data_line_end : State::malformed;
      return;
    case State::data_line_end:
      state_ = character == '\n' ? State::size : State::malformed;
      return;
    case State::trailer:
      return read_trailer(character);
    case State::data:
    case State::ended:
    case State::malformed:
      return;
  }
}

void ChunkedDecoder::read_size(char character) noexcept {
  constexpr std::size_t max_digits = 16;
  const int digit = hexadecimal(character);
  if (digit >= 0 && digits_ < max_digits) {
    remaining_ = remaining_ * 16 + static_cast<std::uint64_t>(digit);
    ++digits_;
  } else if (digits_ > 0 && character == '\r') {
    state_ = State::size_line_end;
  } else if (digits_ > 0 && (character == ';' || character == ' ' || character == '\t')) {
    state_ = State::extension;
  } else {
    state_ = State::malformed;
  }
}

void ChunkedDecoder::read_trailer(char character) noexcept {
  if (++line_bytes_ > max_line_bytes_ || (after_return_ && character != '\n') ||
      (!after_return_ && character == '\n')) {
    state_ = State::malformed;
  } else if (character == '\r') {
    after_return_ = true;
  } else if (character == '\n') {
    after_return_ = false;
    if (line_is_empty_) state_ = State::ended;
    line_is_empty_ = true;
  } else {
    line_is_empty_ = false;
  }
}

}  // namespace gpux::http

#include "server/http/message.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "base/utf8.h"
#include "gpux/error.h"
#include "server/http/body.h"
#include "tensor/json_writer.h"

namespace gpux::http {

namespace {

char lower_letter(char letter) noexcept {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + ('a' - 'A')) : letter;
}

constexpr std::array<bool, 256> token_characters = [] {
  std::array<bool, 256> is_one{};
  for (const char mark : std::string_view("!#$%&'*+-.^_`|~")) is_one[static_cast<unsigned char>(mark)] = true;
  for (char digit = '0'; digit <= '9'; ++digit) is_one[static_cast<unsigned char>(digit)] = true;
  for (char letter = 'a'; letter <= 'z'; ++letter) is_one[static_cast<unsigned char>(letter)] = true;
  for (char letter = 'A'; letter <= 'Z'; ++letter) is_one[static_cast<unsigned char>(letter)] = true;
  return is_one;
}();

bool is_token_character(char character) noexcept {
  return token_characters[static_cast<unsigned char>(character)];
}

bool is_control(char character) noexcept {
  const auto code = static_cast<unsigned char>(character);
  return code < 0x20 || code == 0x7f;
}

int hexadecimal(char digit) noexcept {
  if (digit >= '0' && digit <= '9') return digit - '0';
  const char letter = lower_letter(digit);
  return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

}  // namespace

bool same_name(std::string_view left, std::string_view right) noexcept {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](char a, char b) { return lower_letter(a) == lower_letter(b); });
}

void Headers::add(std::string_view name, std::string_view value) {
  if (name.empty() || !std::all_of(name.begin(), name.end(), is_token_character)) {
    throw Error(ErrorCode::internal, "a header field's name may not hold blanks, colons and the like");
  }
  if (std::any_of(value.begin(), value.end(), is_control)) {
    throw Error(ErrorCode::internal, "the value of header field " + std::string(name) + " holds control characters");
  }
  add_checked(name, value);
}

void Headers::add_checked(std::string_view name, std::string_view value) {
  // Most messages have no more.
  if (entries_.empty()) {
    entries_.reserve(8);
    text_.reserve(256);
  }
  entries_.push_back({static_cast<std::uint32_t>(text_.size()), static_cast<std::uint32_t>(name.size()),
                      static_cast<std::uint32_t>(value.size())});
  text_.append(name).append(value);
}

Headers::Field Headers::at(std::size_t index) const noexcept {
  const Entry& entry = entries_[index];
  const std::string_view text(text_);
  return {text.substr(entry.begin, entry.name_length),
          text.substr(entry.begin + entry.name_length, entry.value_length)};
}

std::optional<std::string_view> Headers::find(std::string_view name) const noexcept {
  for (std::size_t index = 0; index < entries_.size(); ++index) {
    const Field field = at(index);
    if (same_name(field.name, name)) return field.value;
  }
  return std::nullopt;
}

std::string_view Headers::operator[](std::string_view name) const noexcept {
  return find(name).value_or(std::string_view{});
}

std::size_t Headers::count(std::string_view name) const noexcept {
  std::size_t found = 0;
  for (std::size_t index = 0; index < entries_.size(); ++index) found += same_name(at(index).name, name) ? 1 : 0;
  return found;
}

void Headers::clear() noexcept {
  text_.clear();
  entries_.clear();
}

Piece Piece::of(std::string text) {
  auto owner = std::make_shared<const std::string>(std::move(text));
  const auto bytes = bytes_of(*owner);
  return {bytes, std::move(owner)};
}

Piece Piece::lasting(std::string_view text) noexcept {
  return {bytes_of(text), nullptr};
}

Piece make_body(std::string_view text, std::size_t aligned_at) {
  BodyBuffer buffer(std::make_shared<MemoryBudget>(text.size() + body_padding), aligned_at, text.size());
  if (buffer.reserve(text.size()) != BodyBuffer::Outcome::taken) throw std::bad_alloc();
  buffer.append(bytes_of(text));
  return buffer.finish();
}

std::optional<std::string> percent_decoded(std::string_view text, bool plus_is_blank) {
  const bool is_plain = std::all_of(text.begin(), text.end(), [](char character) {
    return !is_control(character) && character != '%' && character != '+' &&
           static_cast<unsigned char>(character) < 0x80;
  });
  if (is_plain) return std::string(text);
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '+' && plus_is_blank) {
      decoded.push_back(' ');
    } else if (text[at] != '%') {
      decoded.push_back(text[at]);
    } else {
      if (text.size() - at < 3) return std::nullopt;
      const int high = hexadecimal(text[at + 1]);
      const int low = hexadecimal(text[at + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      decoded.push_back(static_cast<char>(high * 16 + low));
      at += 2;
    }
  }
  if (std::any_of(decoded.begin(), decoded.end(), is_control) || !is_utf8(decoded)) return std::nullopt;
  return decoded;
}

std::vector<std::string> Request::segments() const {
  std::vector<std::string> parts;
  std::string_view raw = std::string_view(target).substr(0, target.find('?'));
  while (!raw.empty() && raw.front() == '/') {
    raw.remove_prefix(1);
    const std::size_t length = std::min(raw.find('/'), raw.size());
    if (length > 0 || length < raw.size()) parts.push_back(percent_decoded(raw.substr(0, length)).value_or(""));
    raw.remove_prefix(length);
  }
  return parts;
}

std::optional<std::string> Request::query_parameter(std::string_view name) const {
  std::string_view rest = query;
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
    const std::string_view key = pair.substr(0, pair.find('='));
    if (percent_decoded(key, true) != std::optional<std::string>(name)) continue;
    return percent_decoded(pair.substr(std::min(key.size() + 1, pair.size())), true);
  }
  return std::nullopt;
}

Response Response::json(int status, std::string text) {
  Response response;
  response.status = status;
  response.headers.add("Content-Type", "application/json");
  response.text = std::move(text);
  return response;
}

Response Response::streamed(std::string_view content_type) {
  Response response;
  response.headers.add("Content-Type", content_type);
  response.headers.add("Cache-Control", "no-cache");
  response.headers.add("X-Accel-Buffering", "no");
  return response;
}

Response Response::error(int status, std::string_view message) {
  std::string text = "{\"error\": ";
  append_json_string(text, message);
  text += "}\n";
  return json(status, std::move(text));
}

std::size_t Response::body_bytes() const noexcept {
  std::size_t total = text.size();
  for (const Piece& piece : pieces) total += piece.bytes.size();
  return total;
}

std::string_view reason_phrase(int status) noexcept {
  struct Phrase {
    int status;
    std::string_view text;
  };

  static constexpr std::array<Phrase, 39> phrases{{
      {200, "OK"},
      {201, "Created"},
      {202, "Accepted"},
      {204, "No Content"},
      {206, "Partial Content"},
      {301, "Moved Permanently"},
      {302, "Found"},
      {303, "See Other"},
      {304, "Not Modified"},
      {307, "Temporary Redirect"},
      {308, "Permanent Redirect"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {406, "Not Acceptable"},
      {408, "Request Timeout"},
      {409, "Conflict"},
      {410, "Gone"},
      {411, "Length Required"},
      {412, "Precondition Failed"},
      {413, "Content Too Large"},
      {414, "URI Too Long"},
      {415, "Unsupported Media Type"},
      {416, "Range Not Satisfiable"},
      {417, "Expectation Failed"},
      {422, "Unprocessable Content"},
      {424, "Failed Dependency"},
      {428, "Precondition Required"},
      {429, "Too Many Requests"},
      {431, "Request Header Fields Too Large"},
      {499, "Client Closed Request"},
      {500, "Internal Server Error"},
      {501, "Not Implemented"},
      {502, "Bad Gateway"},
      {503, "Service Unavailable"},
      {504, "Gateway Timeout"},
      {505, "HTTP Version Not Supported"},
  }};
  const auto* found =
      std::find_if(phrases.begin(), phrases.end(), [status](const Phrase& phrase) { return phrase.status == status; });
  return found == phrases.end() ? "" : found->text;
}

}  // namespace gpux::http

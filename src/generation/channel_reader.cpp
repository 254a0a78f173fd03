#include "generation/channel_reader.h"

#include <algorithm>
#include <array>

#include "generation/json_extent.h"
#include "generation/text_stream.h"
#include "generation/tool_call_elements.h"

namespace gpux::generation {
namespace {

constexpr std::string_view blanks = " \t\r\n";
constexpr std::string_view begin_body = "<|message|>", channel = "<|channel|>", recipient = "to=";
// What ends a message, or begins the next one.
const std::array<std::string, 5> ends{"<|end|>", "<|call|>", "<|return|>", "<|start|>", "<|channel|>"};
// A header is role, channel, recipient and type. What is longer is none.
constexpr std::size_t max_header_bytes = 256;

// The word that the text begins with.
std::string_view first_word(std::string_view text) {
  return text.substr(0, std::min(text.find_first_of(" \t\r\n<"), text.size()));
}

// What the first header may begin with: any marker, or its recipient.
constexpr std::array<std::string_view, 7> first_marks{channel,      "<|start|>", "<|end|>", "<|call|>",
                                                      "<|return|>", begin_body,  recipient};

std::string_view without_first_blanks(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(blanks), text.size()));
}

// Whether a text that <|message|> follows is a header. The first one begins with a marker, or there is none.
bool is_header(std::string_view text, bool is_first) {
  if (text.size() > max_header_bytes) return false;
  text = without_first_blanks(text);
  return !is_first || text.empty() ||
         std::ranges::any_of(first_marks, [&](std::string_view mark) { return text.starts_with(mark); });
}

// Whether a text may become a header with <|message|> behind it.
bool may_be_header(std::string_view text, bool is_first) {
  const std::string mark(begin_body);
  if (text.size() - held_back(text, std::span(&mark, 1)) > max_header_bytes) return false;
  text = without_first_blanks(text);
  return !is_first || std::ranges::any_of(first_marks, [&](std::string_view one) {
    return text.starts_with(one) || one.starts_with(text);
  });
}

// Where the first end is, and its size.
struct End {
  std::size_t at = std::string_view::npos, size = 0;
};

End find_end(std::string_view text, std::size_t from) {
  End first;
  for (const std::string& mark : ends) {
    const std::size_t at = text.find(mark, from);
    if (at < first.at) first = {at, mark.size()};
  }
  // The next header begins with it.
  if (first.at != std::string_view::npos && text.substr(first.at).starts_with(channel)) first.size = 0;
  return first;
}

}  // namespace

std::vector<ChannelReader::Part> ChannelReader::read(std::string& text, bool is_end) {
  std::vector<Part> parts;
  while (is_in_body_ ? read_body(text, is_end, parts) : read_header(text, is_end, parts)) {
  }
  return parts;
}

bool ChannelReader::read_header(std::string& text, bool is_end, std::vector<Part>& parts) {
  const std::size_t at = text.find(begin_body);
  if (at != std::string::npos && is_header(std::string_view(text).substr(0, at), !has_message_)) {
    begin_message(std::string_view(text).substr(0, at));
    text.erase(0, at + begin_body.size());
    return true;
  }
  if (at == std::string::npos && !is_end && may_be_header(text, !has_message_)) return false;
  // No message: what is written is content, but for markers that nothing follows.
  const std::string_view letters = without_first_blanks(text);
  if (is_end && has_message_ && letters.empty()) text.clear();
  if (is_end && (letters.starts_with(channel) || letters.starts_with("<|start|>"))) text.clear();
  if (text.empty()) return false;
  kind_ = Part::Kind::content;
  has_message_ = is_in_body_ = true;
  // A marker that begins no header would end the content.
  const auto mark = std::ranges::find_if(ends, [&](const std::string& one) { return letters.starts_with(one); });
  has_text_ = mark != ends.end();
  if (has_text_) {
    const std::size_t size = text.size() - letters.size() + mark->size();
    add(std::string_view(text).substr(0, size), parts);
    text.erase(0, size);
  }
  return true;
}

void ChannelReader::begin_message(std::string_view header) {
  has_message_ = is_in_body_ = true;
  has_text_ = false;
  searched_ = 0;
  const std::size_t to = header.find(recipient), of = header.find(channel);
  function_.clear();
  if (to != std::string_view::npos) {
    function_ = known_function(first_word(header.substr(to + recipient.size())), functions_);
  }
  const bool is_analysis = of != std::string_view::npos && first_word(header.substr(of + channel.size())) == "analysis";
  kind_ = !function_.empty() ? Part::Kind::call : is_analysis ? Part::Kind::reasoning : Part::Kind::content;
}

void ChannelReader::add(std::string_view text, std::vector<Part>& parts) {
  if (text.empty()) return;
  const auto index = static_cast<std::size_t>(kind_);
  // Messages of one kind are paragraphs of one text.
  const bool is_next = !has_text_ && has_kind_.at(index);
  has_text_ = has_kind_.at(index) = true;
  parts.push_back({.kind = kind_, .text = (is_next ? "\n" : "") + std::string(text)});
}

// What is no object is no call.
void ChannelReader::end_call(std::string_view text, std::vector<Part>& parts) {
  const std::size_t first = std::min(text.find_first_not_of(blanks), text.size());
  const std::string_view json = text.substr(first, text.find_last_not_of(blanks) + 1 - first);
  if (json.starts_with('{') && is_json(json)) {
    parts.push_back({.kind = Part::Kind::call, .text = std::string(json), .function = function_});
    return;
  }
  kind_ = Part::Kind::content;
  add(text, parts);
}

bool ChannelReader::read_body(std::string& text, bool is_end, std::vector<Part>& parts) {
  const bool is_call = kind_ == Part::Kind::call;
  const End end = find_end(text, is_call ? searched_ : 0);
  if (end.at != std::string_view::npos) {
    const std::string_view body = std::string_view(text).substr(0, end.at);
    if (is_call) {
      end_call(body, parts);
    } else {
      add(body, parts);
    }
    text.erase(0, end.at + end.size);
    is_in_body_ = false;
    return true;
  }
  if (is_call && !is_end) {
    constexpr std::size_t longest = 11;
    searched_ = text.size() < longest ? 0 : text.size() - longest;
    return false;
  }
  const std::size_t held = is_end ? 0 : held_back(text, ends);
  const std::string_view certain = std::string_view(text).substr(0, text.size() - held);
  if (is_call) {
    end_call(certain, parts);
  } else {
    add(certain, parts);
  }
  text.erase(0, certain.size());
  return false;
}

}  // namespace gpux::generation

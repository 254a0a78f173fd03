#include "generation/answer_parser.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "generation/text_stream.h"
#include "generation/tool_call_text.h"

namespace gpux::generation {
namespace {

using Kind = AnswerDelta::Kind;

constexpr std::string_view blanks = " \t\r\n";
constexpr std::string_view begin_arguments = "[ARGS]", begin_id = "[CALL_ID]";
// A name and an id: what is longer is no call, and need not be held back.
constexpr std::size_t max_head_bytes = 256;

// The first byte that is no white space; the size where there is none.
std::size_t first_letter(std::string_view text) {
  return std::min(text.find_first_not_of(blanks), text.size());
}

// Where the white space at the end begins.
std::size_t end_of_letters(std::string_view text) {
  return text.find_last_not_of(blanks) + 1;
}

enum class Match { no, maybe, yes };

// Whether the text begins with the marker, as far as it goes.
Match match(std::string_view text, std::string_view marker) {
  if (text.starts_with(marker)) return Match::yes;
  return marker.starts_with(text) ? Match::maybe : Match::no;
}

}  // namespace

std::string tool_call_id(std::uint64_t seed, std::size_t index) {
  // splitmix64
  std::uint64_t bits = seed + 0x9e3779b97f4a7c15ULL * (index + 1);
  bits = (bits ^ (bits >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  bits = (bits ^ (bits >> 27U)) * 0x94d049bb133111ebULL;
  bits ^= bits >> 31U;
  constexpr std::string_view letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  constexpr std::size_t size = 9;
  std::string id;
  for (std::size_t i = 0; i < size; ++i, bits /= letters.size()) id += letters[bits % letters.size()];
  return id;
}

std::vector<AnswerParser::Opener> AnswerParser::openers_of(ToolCallStyle style) {
  switch (style) {
    case ToolCallStyle::hermes:
      return {{.text = "<tool_call>", .end = "</tool_call>"}};
    case ToolCallStyle::mistral:
      return {{.text = "[TOOL_CALLS]", .end = ""}};
    case ToolCallStyle::phi:
      return {{.text = "<|tool_call|>", .end = "<|/tool_call|>"}, {.text = "functools", .end = ""}};
    case ToolCallStyle::llama:
      return {{.text = "<|python_tag|>", .end = "", .has_python = true}};
    case ToolCallStyle::gemma:
      return {{.text = "```tool_code", .end = "```", .has_python = true},
              {.text = "```tool_call", .end = "```", .has_python = true},
              {.text = "```json", .end = "```"}};
    case ToolCallStyle::none:
      break;
  }
  return {};
}

AnswerParser::AnswerParser(AnswerSettings settings) : settings_(std::move(settings)) {
  if (!settings_.functions.empty()) openers_ = openers_of(settings_.format.tool_calls);
}

std::vector<AnswerDelta> AnswerParser::add(std::string_view piece) {
  held_ += piece;
  return read(false);
}

std::vector<AnswerDelta> AnswerParser::finish() {
  drops_content_ = settings_.is_enforced;
  return read(true);
}

std::vector<AnswerDelta> AnswerParser::read(bool is_end) {
  while (step(is_end)) {
  }
  return std::exchange(deltas_, {});
}

void AnswerParser::emit(Kind kind, std::string_view text) {
  if (text.empty() || (drops_content_ && kind == Kind::content)) return;
  if (!deltas_.empty() && deltas_.back().kind == kind && kind != Kind::arguments) {
    deltas_.back().text += text;
  } else {
    deltas_.push_back({.kind = kind, .text = std::string(text)});
  }
  if (kind == Kind::content && first_letter(text) < text.size()) has_content_ = true;
}

bool AnswerParser::step(bool is_end) {
  if (drops_blanks_) {
    drop(first_letter(held_));
    if (held_.empty()) return false;
    drops_blanks_ = false;
  }
  switch (stage_) {
    case Stage::start:
      return step_start(is_end);
    case Stage::reasoning:
      return step_reasoning(is_end);
    case Stage::content:
      return step_content(is_end);
    case Stage::call:
      return step_call(is_end);
    case Stage::end_of_call:
      return step_end_of_call(is_end);
  }
  return false;
}

bool AnswerParser::step_start(bool is_end) {
  const std::string_view begin = settings_.format.reasoning_begin;
  const std::size_t first = first_letter(held_);
  const Match found = begin.empty() ? Match::no : match(std::string_view(held_).substr(first), begin);
  if (found == Match::maybe && !is_end) return false;
  // Models that were opened the reasoning for may open it again.
  stage_ = found == Match::yes || settings_.begins_in_reasoning ? Stage::reasoning : Stage::content;
  if (found == Match::yes) drop(first + begin.size());
  drops_blanks_ = stage_ == Stage::reasoning;
  return true;
}

bool AnswerParser::step_reasoning(bool is_end) {
  const std::string& end = settings_.format.reasoning_end;
  const std::string_view text = held_;
  if (const std::size_t at = text.find(end); at != std::string_view::npos) {
    emit(Kind::reasoning, text.substr(0, end_of_letters(text.substr(0, at))));
    drop(at + end.size());
    stage_ = Stage::content;
    drops_blanks_ = true;
    return true;
  }
  std::size_t certain = text.size();
  if (!is_end) certain = end_of_letters(text.substr(0, text.size() - held_back(text, std::span(&end, 1))));
  emit(Kind::reasoning, text.substr(0, certain));
  drop(certain);
  return false;
}

// Whether an answer that is JSON is a call, without a marker.
bool AnswerParser::begins_with_json() const noexcept {
  const ToolCallStyle style = settings_.format.tool_calls;
  return !has_content_ && (style == ToolCallStyle::llama || style == ToolCallStyle::gemma);
}

bool AnswerParser::step_content(bool is_end) {
  const std::string_view text = held_;
  if (openers_.empty()) {
    emit(Kind::content, text);
    held_.clear();
    return false;
  }
  std::size_t at = std::string_view::npos;
  const std::size_t first = first_letter(text);
  if (begins_with_json() && text.substr(first).starts_with('{')) {
    at = first;
    opener_ = {};
  }
  for (const Opener& opener : openers_) {
    const std::size_t found = text.find(opener.text);
    if (found >= at) continue;
    at = found;
    opener_ = opener;
  }
  if (at != std::string_view::npos) {
    const std::size_t letters = end_of_letters(text.substr(0, at));
    emit(Kind::content, text.substr(0, letters));
    before_ = text.substr(letters, at + opener_.text.size() - letters);
    drop(at + opener_.text.size());
    stage_ = Stage::call;
    extent_ = {};
    searched_ = 0;
    return true;
  }
  std::size_t held = 0;
  for (const Opener& opener : openers_) {
    const std::string marker(opener.text);
    held = std::max(held, held_back(text, std::span(&marker, 1)));
  }
  const std::size_t certain = is_end ? text.size() : end_of_letters(text.substr(0, text.size() - held));
  emit(Kind::content, text.substr(0, certain));
  drop(certain);
  return false;
}

bool AnswerParser::take_calls(std::vector<ToolCall> calls, std::size_t bytes) {
  for (ToolCall& call : calls) {
    if (calls_ != 0 && !settings_.allows_several) break;
    if (call.id.empty()) call.id = tool_call_id(settings_.id_seed, calls_);
    deltas_.push_back(
        {.kind = Kind::tool_call, .text = {}, .index = calls_, .id = std::move(call.id), .name = std::move(call.name)});
    deltas_.push_back(
        {.kind = Kind::arguments, .text = std::move(call.arguments), .index = calls_, .id = {}, .name = {}});
    ++calls_;
  }
  before_.clear();
  drop(bytes);
  stage_ = Stage::end_of_call;
  return true;
}

// It is no call: the marker is content, and the next bytes, too. What follows is read as content.
bool AnswerParser::refuse(std::size_t bytes) {
  before_ += std::string_view(held_).substr(0, bytes);
  drop(bytes);
  emit(Kind::content, std::exchange(before_, {}));
  has_content_ = true;
  stage_ = Stage::content;
  return true;
}

bool AnswerParser::step_call(bool is_end) {
  const std::size_t first = first_letter(held_);
  if (first == held_.size()) return is_end && refuse();
  const char next = held_[first];
  if (next == '{' || (next == '[' && !opener_.has_python)) return step_json(first, {}, {}, is_end);
  if (settings_.format.tool_calls == ToolCallStyle::mistral) return step_named(first, is_end);
  return opener_.has_python ? step_python(first, is_end) : refuse();
}

// JSON from `first` on: the calls, or the arguments of a call with this name.
bool AnswerParser::step_json(std::size_t first, std::string_view name, std::string_view id, bool is_end) {
  const JsonExtent::State state = extent_.read(std::string_view(held_).substr(first));
  if (state == JsonExtent::State::broken) return refuse();
  if (state == JsonExtent::State::open) return is_end && refuse();
  const std::size_t end = first + extent_.size();
  std::string json = held_.substr(first, extent_.size());
  if (!name.empty()) {
    json = nlohmann::json{{"name", name}, {"id", id}}.dump();
    json.pop_back();
    json += R"(, "arguments": )" + held_.substr(first, extent_.size()) + "}";
  }
  std::optional<std::vector<ToolCall>> calls = read_json_calls(json, settings_.functions);
  return calls ? take_calls(*std::move(calls), end) : refuse(end);
}

// name[ARGS]{…}, or name[CALL_ID]id[ARGS]{…}
bool AnswerParser::step_named(std::size_t first, bool is_end) {
  const std::string_view text = held_;
  const std::size_t at = text.substr(0, first + max_head_bytes).find(begin_arguments, first);
  if (at == std::string_view::npos) return (is_end || text.size() - first >= max_head_bytes) && refuse();
  const std::size_t arguments = at + begin_arguments.size() + first_letter(text.substr(at + begin_arguments.size()));
  if (arguments == text.size()) return is_end && refuse();
  const std::string head(text.substr(first, at - first));
  const std::size_t split = std::min(head.find(begin_id), head.size());
  const std::string_view id = std::string_view(head).substr(std::min(split + begin_id.size(), head.size()));
  if (text[arguments] != '{') return refuse();
  return step_json(arguments, std::string_view(head).substr(0, end_of_letters(std::string_view(head).substr(0, split))),
                   id, is_end);
}

// Up to the marker that ends it, or all of the rest.
bool AnswerParser::step_python(std::size_t first, bool is_end) {
  const std::string_view text = held_;
  std::size_t end = text.size();
  if (!opener_.end.empty()) {
    const std::size_t found = text.find(opener_.end, std::max(first, searched_));
    if (found == std::string_view::npos && !is_end) {
      searched_ = text.size() < opener_.end.size() ? 0 : text.size() - opener_.end.size() + 1;
      return false;
    }
    end = std::min(found, end);
  } else if (!is_end) {
    return false;
  }
  const std::string_view code = text.substr(first, end - first);
  std::optional<std::vector<ToolCall>> calls = read_python_calls(code, settings_.functions);
  // A list of JSON begins as one of Python does.
  if (!calls) calls = read_json_calls(code, settings_.functions);
  return calls ? take_calls(*std::move(calls), end) : refuse();
}

bool AnswerParser::step_end_of_call(bool is_end) {
  const std::size_t first = first_letter(held_);
  const std::string_view rest = std::string_view(held_).substr(first);
  if (rest.empty()) {
    if (is_end) held_.clear();
    return false;
  }
  std::size_t dropped = first;
  if (!opener_.end.empty()) {
    const Match found = match(rest, opener_.end);
    if (found == Match::maybe && !is_end) return false;
    if (found == Match::yes) dropped += opener_.end.size();
  } else if (begins_with_json() && rest.front() == ';') {
    // Between calls without a marker.
    const std::size_t next = 1 + first_letter(rest.substr(1));
    if (next == rest.size() && !is_end) return false;
    if (next < rest.size() && rest[next] == '{') dropped += next;
  }
  drop(dropped);
  stage_ = Stage::content;
  drops_blanks_ = true;
  return true;
}

}  // namespace gpux::generation

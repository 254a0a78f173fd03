#include "generation/answer_parser.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "generation/text_stream.h"
#include "generation/tool_call_elements.h"
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

AnswerParser::AnswerParser(AnswerSettings settings)
    : AnswerParser(std::make_shared<const AnswerSettings>(settings), settings.id_seed) {}

AnswerParser::AnswerParser(std::shared_ptr<const AnswerSettings> settings, std::uint64_t id_seed)
    : settings_(std::move(settings)), id_seed_(id_seed) {
  const bool reads_calls = !settings_->functions.empty();
  format_ = &tool_call_format(reads_calls ? settings_->format.tool_calls : ToolCallStyle::none);
  if (settings_->format.has_channels) {
    channels_.emplace(settings_->functions);
    return;
  }
  for (const CallBlock& block : format_->blocks) markers_.emplace_back(block.begin);
  for (const std::string_view marker : format_->around) markers_.emplace_back(marker);
  for (const std::string& marker : {settings_->format.content_begin, settings_->format.content_end}) {
    if (!marker.empty()) markers_.push_back(marker);
  }
}

std::vector<AnswerDelta> AnswerParser::add(std::string_view piece) {
  held_ += piece;
  return read(false);
}

std::vector<AnswerDelta> AnswerParser::finish() {
  // A text of a form has begun, or may have.
  const bool has_form = settings_->may_have_form && has_content_;
  drops_content_ = settings_->is_enforced && !has_form;
  return read(true);
}

std::vector<AnswerDelta> AnswerParser::read(bool is_end) {
  while (channels_ ? step_channels(is_end) : step(is_end)) {
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

// All of a message's arguments are one call.
bool AnswerParser::step_channels(bool is_end) {
  if (!channels_) return false;
  for (ChannelReader::Part& part : channels_->read(held_, is_end)) {
    if (part.kind != ChannelReader::Part::Kind::call) {
      emit(part.kind == ChannelReader::Part::Kind::reasoning ? Kind::reasoning : Kind::content, part.text);
      continue;
    }
    std::vector<ToolCall> calls{{.id = {}, .name = std::move(part.function), .arguments = std::move(part.text)}};
    (void)take_calls(std::move(calls), 0);
  }
  return false;
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
    case Stage::arguments:
      return step_arguments(is_end);
    case Stage::end_of_call:
      return step_end_of_call(is_end);
  }
  return false;
}

bool AnswerParser::step_start(bool is_end) {
  const std::string_view begin = settings_->format.reasoning_begin;
  const std::size_t first = first_letter(held_);
  const Match found = begin.empty() ? Match::no : match(std::string_view(held_).substr(first), begin);
  if (found == Match::maybe && !is_end) return false;
  // Models that were opened the reasoning for may open it again.
  stage_ = found == Match::yes || settings_->begins_in_reasoning ? Stage::reasoning : Stage::content;
  if (found == Match::yes) drop(first + begin.size());
  drops_blanks_ = stage_ == Stage::reasoning;
  return true;
}

bool AnswerParser::step_reasoning(bool is_end) {
  const std::string& end = settings_->format.reasoning_end;
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
  return !has_content_ && format_->begins_with_json;
}

// The first marker in content, of those that count here.
AnswerParser::Found AnswerParser::find_marker(std::string_view text) const {
  static constexpr CallBlock bare_json{};
  Found found;
  const std::size_t first = first_letter(text);
  const auto look_for = [&](std::string_view marker, const CallBlock* block, bool is_of_content) {
    const std::size_t at = text.find(marker);
    const bool is_in_form = settings_->may_have_form && (has_content_ || at > first);
    if (at < found.at && (is_of_content || !is_in_form)) found = {at, marker.size(), block};
  };
  if (begins_with_json() && text.substr(first).starts_with('{')) found = {first, 0, &bare_json};
  for (const CallBlock& block : format_->blocks) look_for(block.begin, &block, false);
  for (const std::string_view marker : format_->around) look_for(marker, nullptr, false);
  for (const std::string& marker : {settings_->format.content_begin, settings_->format.content_end}) {
    if (!marker.empty()) look_for(marker, nullptr, true);
  }
  return found;
}

bool AnswerParser::step_content(bool is_end) {
  const std::string_view text = held_;
  const Found found = find_marker(text);
  if (found.at != std::string_view::npos) {
    const std::size_t letters = end_of_letters(text.substr(0, found.at));
    emit(Kind::content, text.substr(0, letters));
    if (found.block == nullptr) {
      drop(found.at + found.size);
      drops_blanks_ = true;
      return true;
    }
    before_ = text.substr(letters, found.at + found.size - letters);
    block_ = *found.block;
    drop(found.at + found.size);
    stage_ = Stage::call;
    extent_ = {};
    searched_ = 0;
    return true;
  }
  std::size_t held = 0;
  for (const std::string& marker : markers_) held = std::max(held, held_back(text, std::span(&marker, 1)));
  const std::size_t certain =
      is_end || markers_.empty() ? text.size() : end_of_letters(text.substr(0, text.size() - held));
  emit(Kind::content, text.substr(0, certain));
  drop(certain);
  return false;
}

// False: it is one too many.
bool AnswerParser::give_call(std::string name, std::string id) {
  if (calls_ != 0 && !settings_->allows_several) return false;
  // Two calls of one id could not be told from each other.
  if (id.empty() || !ids_.insert(id).second) id = tool_call_id(id_seed_, calls_);
  deltas_.push_back(
      {.kind = Kind::tool_call, .text = {}, .index = calls_, .id = std::move(id), .name = std::move(name)});
  ++calls_;
  return true;
}

bool AnswerParser::take_calls(std::vector<ToolCall> calls, std::size_t bytes) {
  for (ToolCall& call : calls) {
    if (!give_call(std::move(call.name), std::move(call.id))) break;
    deltas_.push_back(
        {.kind = Kind::arguments, .text = std::move(call.arguments), .index = calls_ - 1, .id = {}, .name = {}});
  }
  before_.clear();
  drop(bytes);
  stage_ = Stage::end_of_call;
  return true;
}

// Its JSON begins at `first` of the text that is held, and its arguments at `arguments`.
bool AnswerParser::begin_call(CallHead head, std::size_t first, std::size_t arguments) {
  gives_ = give_call(std::move(head.name), std::move(head.id));
  before_.clear();
  arguments_ = {};
  first_ = first;
  at_arguments_ = arguments;
  given_ = 0;
  stage_ = Stage::arguments;
  return true;
}

bool AnswerParser::step_arguments(bool is_end) {
  const std::string_view text = std::string_view(held_).substr(at_arguments_);
  const JsonExtent::State state = arguments_.read(text);
  const bool is_cut = state == JsonExtent::State::open && is_end;
  const std::size_t certain = is_cut ? text.size() : arguments_.certain();
  if (gives_ && certain > given_) {
    const std::string_view more = text.substr(given_, certain - given_);
    deltas_.push_back({.kind = Kind::arguments, .text = std::string(more), .index = calls_ - 1, .id = {}, .name = {}});
  }
  given_ = certain;
  std::size_t end = at_arguments_ + certain;
  if (state == JsonExtent::State::broken) {
    has_broken_call_ = true;
  } else {
    const JsonExtent::State outer = extent_.read(std::string_view(held_).substr(first_));
    if (outer == JsonExtent::State::open && !is_end) return false;
    if (outer == JsonExtent::State::open) end = held_.size();
    if (outer == JsonExtent::State::complete) end = first_ + extent_.size();
  }
  drop(end);
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
  const bool takes_list = block_.body == CallBody::json || block_.body == CallBody::named_json;
  if (block_.body == CallBody::named || block_.is_part) return step_block(first, is_end);
  if (next == '{' || (next == '[' && takes_list)) return step_json(first, {}, {}, is_end);
  if (block_.body == CallBody::named_json) return step_named(first, is_end);
  return block_.body == CallBody::json ? refuse() : step_block(first, is_end);
}

// JSON from `first` on: the calls, or the arguments of a call with this name.
bool AnswerParser::step_json(std::size_t first, std::string_view name, std::string_view id, bool is_end) {
  const JsonExtent::State state = extent_.read(std::string_view(held_).substr(first));
  const bool is_bare = block_.begin.empty() && name.empty();
  const std::string_view text = std::string_view(held_).substr(first);
  if (is_bare && !may_be_call(text, settings_->functions)) return refuse();
  // Also where what follows is no JSON: it may not have come yet.
  const bool is_named = std::ranges::find(settings_->functions, name) != settings_->functions.end();
  if (is_named && begins_object(text)) {
    return begin_call({.name = std::string(name), .id = std::string(id)}, first, first);
  }
  if (name.empty()) {
    if (std::optional<CallHead> head = read_call_head(text, settings_->functions)) {
      const std::size_t arguments = first + head->arguments;
      return begin_call(*std::move(head), first, arguments);
    }
  }
  if (state == JsonExtent::State::broken) return refuse();
  if (state == JsonExtent::State::open) return is_end && refuse();
  const std::size_t end = first + extent_.size();
  std::string json = held_.substr(first, extent_.size());
  if (!name.empty()) {
    json = nlohmann::json{{"name", name}, {"id", id}}.dump();
    json.pop_back();
    json += R"(, "arguments": )" + held_.substr(first, extent_.size()) + "}";
  }
  std::optional<std::vector<ToolCall>> calls = read_json_calls(json, settings_->functions);
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
bool AnswerParser::step_block(std::size_t first, bool is_end) {
  const std::string_view text = held_;
  std::size_t end = text.size();
  std::string_view last;
  if (!block_.end.empty()) {
    const std::size_t found = text.find(block_.end, std::max(first, searched_));
    if (found == std::string_view::npos && !is_end) {
      searched_ = text.size() < block_.end.size() ? 0 : text.size() - block_.end.size() + 1;
      return false;
    }
    if (found != std::string_view::npos) last = block_.end;
    end = std::min(found, end);
  } else if (!is_end) {
    return false;
  }
  const std::string_view code = text.substr(first, end - first);
  std::optional<std::vector<ToolCall>> calls =
      block_.is_part ? calls_in(fmt::format("{}{}{}", block_.begin, code, last)) : calls_in(code);
  return calls ? take_calls(*std::move(calls), end) : refuse();
}

// The calls in a block, in the form that it has.
std::optional<std::vector<ToolCall>> AnswerParser::calls_in(std::string_view code) const {
  const std::vector<std::string>& functions = settings_->functions;
  if (block_.body == CallBody::elements) {
    return read_element_calls(code, format_->elements, {.names = functions, .parameters = settings_->parameters});
  }
  if (block_.body == CallBody::named) {
    std::optional<ToolCall> call = read_named_call(code, format_->separator, functions);
    if (!call) return std::nullopt;
    return std::vector{*std::move(call)};
  }
  std::optional<std::vector<ToolCall>> calls = read_python_calls(code, functions);
  // A list of JSON begins as one of Python does.
  return calls ? std::move(calls) : read_json_calls(code, functions);
}

bool AnswerParser::step_end_of_call(bool is_end) {
  const std::size_t first = first_letter(held_);
  const std::string_view rest = std::string_view(held_).substr(first);
  if (rest.empty()) {
    if (is_end) held_.clear();
    return false;
  }
  std::size_t dropped = first;
  if (!block_.end.empty()) {
    const Match found = match(rest, block_.end);
    if (found == Match::maybe && !is_end) return false;
    if (found == Match::yes) dropped += block_.end.size();
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

// Answers of models, taken apart while they are generated.
#include "generation/answer_parser.h"

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "fuzzer.h"
#include "generation/tool_call_formats.h"

namespace {

using gpux::generation::AnswerDelta;
using gpux::generation::AnswerParser;
using gpux::generation::AnswerSettings;
using gpux::generation::ToolCallStyle;

// An answer, its deltas joined.
struct Answer {
  std::string content, reasoning;

  struct Call {
    std::string id, name, arguments;

    bool operator==(const Call&) const = default;
  };

  std::vector<Call> calls;

  bool operator==(const Answer&) const = default;
};

bool goes_on(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0U) == 0x80U;
}

void take(Answer& answer, const std::vector<AnswerDelta>& deltas, bool has_channels) {
  for (const AnswerDelta& delta : deltas) {
    switch (delta.kind) {
      case AnswerDelta::Kind::content:
        answer.content += delta.text;
        break;
      case AnswerDelta::Kind::reasoning:
        gpux::fuzz::require(has_channels || (answer.content.empty() && answer.calls.empty()),
                            "reasoning behind the answer");
        answer.reasoning += delta.text;
        break;
      case AnswerDelta::Kind::tool_call:
        gpux::fuzz::require(delta.index == answer.calls.size(), "calls out of order");
        answer.calls.push_back({delta.id, delta.name, {}});
        break;
      case AnswerDelta::Kind::arguments:
        gpux::fuzz::require(delta.index + 1 == answer.calls.size(), "arguments of another call");
        answer.calls.back().arguments += delta.text;
        break;
    }
  }
}

// In pieces of so many characters.
Answer read(const AnswerSettings& settings, std::string_view text, std::size_t characters) {
  AnswerParser parser(settings);
  Answer answer;
  while (!text.empty()) {
    std::size_t size = 0;
    for (std::size_t i = 0; i < characters && size < text.size(); ++i) {
      ++size;
      while (size < text.size() && goes_on(text[size])) ++size;
    }
    take(answer, parser.add(text.substr(0, size)), settings.format.has_channels);
    text.remove_prefix(size);
  }
  take(answer, parser.finish(), settings.format.has_channels);
  return answer;
}

}  // namespace

void gpux::fuzz::read_hostile(std::string_view input) {
  constexpr std::size_t max_bytes = 4096;
  if (input.empty() || input.size() > max_bytes || !is_utf8(input.substr(1))) return;
  const auto choice = static_cast<unsigned char>(input.front());
  const auto styles = gpux::generation::tool_call_formats();
  const std::size_t style = (choice & 0x1fU) % (styles.size() + 1);
  AnswerSettings settings;
  settings.functions = {"f", "get_weather"};
  settings.parameters = {R"({"properties": {"x": {"type": ["integer", "array"]}, "y": {"type": "string"}}})"};
  settings.id_seed = 7;
  if (style < styles.size()) settings.format.tool_calls = styles[style].style;
  settings.format.has_channels = settings.format.tool_calls == ToolCallStyle::harmony;
  if (settings.format.tool_calls == ToolCallStyle::command) {
    settings.format.content_begin = "<|START_RESPONSE|>";
    settings.format.content_end = "<|END_RESPONSE|>";
  }
  settings.may_have_form = (choice & 0x80U) != 0;
  if ((choice & 0x40U) != 0) {
    settings.format.reasoning_begin = "<think>";
    settings.format.reasoning_end = "</think>";
    settings.begins_in_reasoning = (choice & 0x20U) != 0;
  }
  const std::string_view text = input.substr(1);
  const Answer whole = read(settings, text, max_bytes);
  for (const std::size_t characters : {1U, 2U, 7U}) {
    require(read(settings, text, characters) == whole, "another answer where the text is split");
  }
  // Messages of channels have a line between them, and a marker less.
  require(whole.content.size() + whole.reasoning.size() <= text.size(), "more text than the answer has");
  for (const Answer::Call& call : whole.calls) {
    require(call.name == "f" || call.name == "get_weather", "a call of an unknown function");
    require(nlohmann::json::parse(call.arguments, nullptr, false).is_object(), "arguments that are no object");
  }
}

#include "server/generation/answer_delta.h"

#include <iterator>
#include <utility>

namespace gpux::server {

std::size_t AnswerDelta::bytes() const noexcept {
  std::size_t bytes = sizeof(AnswerDelta) + text.size() + reasoning.size() + finish_reason.size() + stop_text.size() +
                      echo.size() + tokens.size() * sizeof(std::uint32_t);
  for (const ToolCallDelta& call : tool_calls) {
    bytes += sizeof(ToolCallDelta) + call.id.size() + call.name.size() + call.arguments.size();
  }
  for (const std::vector<TokenScore>* all : {&scores, &prompt_scores}) {
    for (const TokenScore& score : *all) {
      bytes += sizeof(TokenScore) + score.most_probable.size() * sizeof(TokenLogProbability);
    }
  }
  return bytes;
}

bool AnswerDelta::can_append(const AnswerDelta& next) const noexcept {
  if (choice != next.choice || next.is_first || !finish_reason.empty()) return false;
  // Reasoning comes first in an event, then text, then calls.
  if (!text.empty() && !next.reasoning.empty()) return false;
  const bool has_scores = !scores.empty() || !next.scores.empty();
  const bool mixes =
      (!reasoning.empty() && !next.text.empty()) || (!(reasoning.empty() && text.empty()) && !next.tool_calls.empty());
  if (has_scores && mixes) return false;
  return tool_calls.empty() || (next.reasoning.empty() && next.text.empty());
}

void AnswerDelta::append(AnswerDelta&& next) {
  echo += next.echo;
  if (!next.prompt_scores.empty()) prompt_scores = std::move(next.prompt_scores);
  text += next.text;
  reasoning += next.reasoning;
  for (ToolCallDelta& call : next.tool_calls) {
    const bool goes_on = !tool_calls.empty() && tool_calls.back().index == call.index && call.name.empty();
    if (goes_on) {
      tool_calls.back().arguments += call.arguments;
    } else {
      tool_calls.push_back(std::move(call));
    }
  }
  scores.insert(scores.end(), std::make_move_iterator(next.scores.begin()), std::make_move_iterator(next.scores.end()));
  finish_reason = std::move(next.finish_reason);
  stop_text = std::move(next.stop_text);
  stop_token = next.stop_token;
  if (!next.tokens.empty()) tokens = std::move(next.tokens);
}

}  // namespace gpux::server

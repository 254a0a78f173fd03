#include "server/generation/answer_writer.h"

#include <algorithm>
#include <utility>

namespace gpux::server {

AnswerWriter::AnswerWriter(std::shared_ptr<AnswerSink> sink, std::vector<std::unique_ptr<AnswerReader>> readers,
                           std::size_t answers, std::vector<std::uint32_t> prompt, std::vector<std::string> echoes)
    : sink_(std::move(sink)), answers_(answers), prompt_(std::move(prompt)), echoes_(std::move(echoes)) {
  for (auto& reader : readers) choices_.push_back({.reader = std::move(reader)});
}

AnswerDelta AnswerWriter::next_of(std::size_t choice) {
  AnswerDelta delta;
  delta.choice = choice;
  delta.is_first = !std::exchange(choices_.at(choice).has_begun, true);
  if (delta.is_first && !echoes_.empty()) delta.echo = echoes_.at(choice / answers_);
  return delta;
}

void AnswerWriter::prompt(std::size_t choice, std::vector<TokenScore>&& scores) {
  AnswerDelta delta = next_of(choice);
  delta.prompt_scores = std::move(scores);
  sink_->write(std::move(delta));
}

void AnswerWriter::token(std::size_t choice, GeneratedToken&& token) {
  AnswerDelta delta = next_of(choice);
  Choice& own = choices_[choice];
  own.given_bytes += token.text.size();
  ++own.tokens;
  own.reader->add(token.text, delta);
  if (!delta.reasoning.empty()) own.reasoning_tokens = own.tokens;
  if (token.score) delta.scores.push_back(*std::move(token.score));
  const bool is_empty =
      delta.text.empty() && delta.reasoning.empty() && delta.tool_calls.empty() && delta.scores.empty();
  if (delta.is_first || !is_empty) sink_->write(std::move(delta));
}

void AnswerWriter::ended(std::size_t choice, Completion&& completion) {
  AnswerDelta delta = next_of(choice);
  AnswerReader& reader = *choices_[choice].reader;
  const std::size_t given = std::min(choices_[choice].given_bytes, completion.text.size());
  reader.add(std::string_view(completion.text).substr(given), delta);
  const bool calls_tools = reader.finish(delta);
  if (!delta.reasoning.empty()) choices_[choice].reasoning_tokens = completion.tokens.size();
  const bool is_complete = completion.reason == FinishReason::stop;
  delta.finish_reason = calls_tools && is_complete ? "tool_calls" : to_string(completion.reason);
  delta.stop_text = std::move(completion.stop_text);
  delta.stop_token = completion.stop_token;
  if (!prompt_.empty()) {
    delta.tokens = prompt_;
    delta.tokens.insert(delta.tokens.end(), completion.tokens.begin(), completion.tokens.end());
    if (completion.end_token) delta.tokens.push_back(*completion.end_token);
  }
  if (choice % answers_ == 0) {
    usage_.prompt_tokens += completion.prompt_tokens;
    usage_.cached_tokens += completion.cached_tokens;
  }
  usage_.generated_tokens += completion.tokens.size();
  usage_.draft_tokens += completion.draft_tokens;
  usage_.accepted_draft_tokens += completion.accepted_draft_tokens;
  usage_.reasoning_tokens += choices_[choice].reasoning_tokens;
  usage_.queue_time = std::max(usage_.queue_time, completion.queue_time);
  usage_.prompt_time = std::max(usage_.prompt_time, completion.time_to_first_token - completion.queue_time);
  usage_.generation_time = std::max(usage_.generation_time, completion.time - completion.time_to_first_token);
  sink_->write(std::move(delta));
}

void AnswerWriter::done(const std::optional<Error>& error) {
  if (error) {
    sink_->fail(*error);
  } else {
    sink_->finish(usage_);
  }
}

}  // namespace gpux::server

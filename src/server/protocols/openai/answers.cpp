#include "server/protocols/openai/answers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/utf8.h"
#include "server/jobs/text_figures.h"
#include "server/protocols/error_answers.h"
#include "server/protocols/token_scores.h"
#include "tensor/json_writer.h"

namespace gpux::server {
namespace {

void append_member(std::string& out, std::string_view name, std::string_view text) {
  out += fmt::format(R"(,"{}":)", name);
  append_json_string(out, text);
}

void append_chat_log_probabilities(std::string& out, const std::vector<TokenScore>& scores) {
  if (scores.empty()) {
    out += R"(,"logprobs":null)";
    return;
  }
  out += R"(,"logprobs":{"content":[)";
  append_token_scores(out, scores);
  out += R"(],"refusal":null})";
}

// A token that is no whole text, as OpenAI writes it: "bytes:\xe2\x80".
std::string token_text(const TokenLogProbability& token) {
  if (is_utf8(token.bytes)) return token.bytes;
  std::string text = "bytes:";
  for (const char c : token.bytes) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return text;
}

// "logprobs" of POST /v1/completions, token by token.
class CompletionScores {
 public:
  // `offset`: characters of the text before the token.
  void add(const TokenScore& score, std::size_t offset) {
    const char* separator = tokens_.empty() ? "" : ",";
    tokens_ += separator;
    append_json_string(tokens_, token_text(score.chosen));
    offsets_ += fmt::format("{}{}", separator, offset);
    logarithms_ += separator;
    most_probable_ += separator;
    // The first token of a prompt.
    if (std::isnan(score.chosen.log_probability)) {
      logarithms_ += "null";
      most_probable_ += "null";
      return;
    }
    logarithms_ += fmt::format("{}", finite_logarithm(score.chosen.log_probability));
    has_most_probable_ = has_most_probable_ || !score.most_probable.empty();
    add_most_probable(score.most_probable);
  }

  void append_to(std::string& out) const {
    if (tokens_.empty()) {
      out += R"(,"logprobs":null)";
      return;
    }
    out += fmt::format(R"(,"logprobs":{{"tokens":[{}],"token_logprobs":[{}],"top_logprobs":)", tokens_, logarithms_);
    out += has_most_probable_ ? "[" + most_probable_ + "]" : "null";
    out += fmt::format(R"(,"text_offset":[{}]}})", offsets_);
  }

 private:
  // Names in an object differ; the highest comes first.
  void add_most_probable(const std::vector<TokenLogProbability>& tokens) {
    most_probable_ += '{';
    std::set<std::string> names;
    for (const TokenLogProbability& token : tokens) {
      std::string name = token_text(token);
      if (names.contains(name)) continue;
      if (!names.empty()) most_probable_ += ',';
      append_json_string(most_probable_, name);
      most_probable_ += fmt::format(":{}", finite_logarithm(token.log_probability));
      names.insert(std::move(name));
    }
    most_probable_ += '}';
  }

  std::string tokens_, logarithms_, most_probable_, offsets_;
  bool has_most_probable_ = false;
};

// Tokens that stand for no part of the prompt, as the one that begins all texts, take no place in it. A token for what
// the vocabulary has not is as long as the text up to the next one.
void add_prompt_scores(CompletionScores& to, const std::vector<TokenScore>& scores, std::string_view prompt) {
  constexpr std::size_t longest_gap_bytes = 64;
  std::size_t place = 0, offset = 0;
  bool has_gap = false;
  for (const TokenScore& score : scores) {
    std::string_view bytes = score.chosen.bytes;
    const std::string_view left = prompt.substr(place);
    // The space with which SentencePiece begins a text.
    if (place == 0 && bytes.starts_with(' ') && !left.starts_with(' ')) bytes.remove_prefix(1);
    const std::size_t at = left.substr(0, has_gap ? longest_gap_bytes : bytes.size()).find(bytes);
    if (at == std::string_view::npos) {
      has_gap = true;
      to.add(score, offset);
      continue;
    }
    has_gap = false;
    offset += count_characters(left.substr(0, at));
    to.add(score, offset);
    offset += count_characters(bytes);
    place += at + bytes.size();
  }
}

// `offset`: characters of the answer before this part; grows by those of the part.
void append_completion_part(std::string& out, const CompletionParts& parts, const AnswerDelta& delta,
                            std::size_t& offset) {
  append_json_string(out, delta.echo + delta.text);
  CompletionScores scores;
  if (parts.scores_echo) add_prompt_scores(scores, delta.prompt_scores, delta.echo);
  offset += count_characters(delta.echo);
  for (const TokenScore& score : delta.scores) {
    scores.add(score, offset);
    offset += count_characters(score.chosen.bytes);
  }
  scores.append_to(out);
}

// As vLLM has them: {"<token>": {"logprob", "rank", "decoded_token"}} for each token of the prompt, null for the first.
void append_prompt_scores(std::string& out, const std::vector<TokenScore>& scores) {
  const auto append = [&](const TokenLogProbability& token, std::size_t rank) {
    out += fmt::format(R"("{}":{{"logprob":{},"rank":{},"decoded_token":)", token.token,
                       finite_logarithm(token.log_probability), rank);
    append_json_string(out, token_text(token));
    out += '}';
  };
  out += R"(,"prompt_logprobs":[)";
  for (const TokenScore& score : scores) {
    if (&score != &scores.front()) out += ',';
    if (std::isnan(score.chosen.log_probability)) {
      out += "null";
      continue;
    }
    out += '{';
    append(score.chosen, score.rank);
    for (std::size_t i = 0; i < score.most_probable.size(); ++i) {
      if (score.most_probable[i].token == score.chosen.token) continue;
      out += ',';
      append(score.most_probable[i], i + 1);
    }
    out += '}';
  }
  out += ']';
}

void append_usage(std::string& out, const AnswerUsage& usage) {
  out += fmt::format(
      R"("usage":{{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},"prompt_tokens_details":{{"cached_tokens":{}}})",
      usage.prompt_tokens, usage.generated_tokens, usage.prompt_tokens + usage.generated_tokens, usage.cached_tokens);
  if (usage.draft_tokens != 0) {
    out += fmt::format(
        R"(,"completion_tokens_details":{{"accepted_prediction_tokens":{},"rejected_prediction_tokens":{}}})",
        usage.accepted_draft_tokens, usage.draft_tokens - usage.accepted_draft_tokens);
  }
  out += '}';
}

void append_head(std::string& out, const AnswerHead& head, std::string_view object) {
  out += R"({"id":)";
  append_json_string(out, head.id);
  out += fmt::format(R"(,"object":"{}","created":{},"model":)", object, head.created);
  append_json_string(out, head.model);
  append_member(out, "system_fingerprint", head.fingerprint);
}

// Text or null, as a finish_reason.
void append_reason(std::string& out, std::string_view reason) {
  if (reason.empty()) {
    out += R"(,"finish_reason":null)";
  } else {
    append_member(out, "finish_reason", reason);
  }
}

// Why the answer ended; as of vLLM also which text or token of the request ended it.
void append_ending(std::string& out, const AnswerDelta& delta) {
  append_reason(out, delta.finish_reason);
  if (!delta.stop_text.empty()) {
    append_member(out, "stop_reason", delta.stop_text);
  } else if (delta.stop_token) {
    out += fmt::format(R"(,"stop_reason":{})", *delta.stop_token);
  }
}

void append_tool_calls(std::string& out, const std::vector<ToolCallDelta>& calls, bool is_part) {
  out += R"("tool_calls":[)";
  for (const ToolCallDelta& call : calls) {
    if (&call != &calls.front()) out += ',';
    out += '{';
    std::string_view separator;
    if (is_part) {
      out += fmt::format(R"("index":{})", call.index);
      separator = ",";
    }
    const bool is_first = !call.name.empty();
    if (is_first) {
      out += separator;
      out += R"("id":)";
      append_json_string(out, call.id);
      out += R"(,"type":"function")";
    }
    out += R"(,"function":{)";
    if (is_first) {
      out += R"("name":)";
      append_json_string(out, call.name);
      out += ',';
    }
    out += R"("arguments":)";
    append_json_string(out, call.arguments);
    out += "}}";
  }
  out += ']';
}

class ServerSentEvents : public AnswerEvents {
 public:
  ServerSentEvents(AnswerHead head, std::string_view object, bool has_usage)
      : head_(std::move(head)), object_(object), has_usage_(has_usage) {}

  [[nodiscard]] std::string_view content_type() const noexcept override { return "text/event-stream; charset=utf-8"; }

  [[nodiscard]] std::string_view keep_alive() const noexcept override { return ": the answer is being prepared\n\n"; }

  void append_end(std::string& out, const AnswerUsage& usage) override {
    if (has_usage_) {
      begin(out);
      out += R"(,"choices":[],)";
      append_usage(out, usage);
      out += "}\n\n";
    }
    out += "data: [DONE]\n\n";
  }

  void append_error(std::string& out, const Error& error) override {
    out += "data: {\"error\":" + openai_error_json(error) + "}\n\ndata: [DONE]\n\n";
  }

 protected:
  void begin(std::string& out) const {
    out += "data: ";
    append_head(out, head_, object_);
  }

  // After the choices.
  void end(std::string& out) const { out += has_usage_ ? ",\"usage\":null}\n\n" : "}\n\n"; }

 private:
  AnswerHead head_;
  std::string_view object_;
  bool has_usage_;
};

class ChatEvents : public ServerSentEvents {
 public:
  ChatEvents(AnswerHead head, bool has_usage) : ServerSentEvents(std::move(head), "chat.completion.chunk", has_usage) {}

  void append(std::string& out, const AnswerDelta& delta) override {
    if (delta.is_first) append_event(out, delta, R"("role":"assistant","content":"")", {}, {});
    if (!delta.reasoning.empty()) {
      std::string part = R"("reasoning_content":)";
      append_json_string(part, delta.reasoning);
      append_event(out, delta, part, scores_of(delta, Part::reasoning), {});
    }
    if (!delta.text.empty() || (has_only_scores(delta))) {
      std::string part = R"("content":)";
      append_json_string(part, delta.text);
      append_event(out, delta, part, scores_of(delta, Part::text), {});
    }
    if (!delta.tool_calls.empty()) {
      std::string part;
      append_tool_calls(part, delta.tool_calls, true);
      append_event(out, delta, part, scores_of(delta, Part::calls), {});
    }
    if (!delta.finish_reason.empty()) append_event(out, delta, {}, {}, delta.finish_reason);
  }

 private:
  enum class Part : std::uint8_t { reasoning, text, calls };

  static bool has_only_scores(const AnswerDelta& delta) {
    return !delta.scores.empty() && delta.reasoning.empty() && delta.text.empty() && delta.tool_calls.empty();
  }

  // With the last of its parts.
  static std::vector<TokenScore> scores_of(const AnswerDelta& delta, Part part) {
    const Part last = !delta.tool_calls.empty()                        ? Part::calls
                      : !delta.text.empty() || delta.reasoning.empty() ? Part::text
                                                                       : Part::reasoning;
    return part == last ? delta.scores : std::vector<TokenScore>();
  }

  void append_event(std::string& out, const AnswerDelta& delta, std::string_view part,
                    const std::vector<TokenScore>& scores, std::string_view reason) const {
    begin(out);
    out += fmt::format(R"(,"choices":[{{"index":{},"delta":{{{}}})", delta.choice, part);
    append_chat_log_probabilities(out, scores);
    if (reason.empty()) {
      append_reason(out, reason);
    } else {
      append_ending(out, delta);
    }
    out += "}]";
    end(out);
  }
};

class CompletionEvents : public ServerSentEvents {
 public:
  CompletionEvents(AnswerHead head, const CompletionParts& parts, bool has_usage)
      : ServerSentEvents(std::move(head), "text_completion", has_usage), parts_(parts) {}

  void append(std::string& out, const AnswerDelta& delta) override {
    const bool has_text = !delta.text.empty() || !delta.echo.empty();
    if (!has_text && delta.scores.empty() && delta.finish_reason.empty()) return;
    begin(out);
    out += fmt::format(R"(,"choices":[{{"index":{},"text":)", delta.choice);
    append_completion_part(out, parts_, delta, offsets_[delta.choice]);
    append_ending(out, delta);
    out += "}]";
    end(out);
  }

 private:
  CompletionParts parts_;
  std::map<std::size_t, std::size_t> offsets_;
};

}  // namespace

std::string chat_answer_json(const AnswerHead& head, const std::vector<AnswerDelta>& choices,
                             const AnswerUsage& usage) {
  std::string out;
  append_head(out, head, "chat.completion");
  out += R"(,"choices":[)";
  for (const AnswerDelta& choice : choices) {
    if (&choice != &choices.front()) out += ',';
    out += fmt::format(R"({{"index":{},"message":{{"role":"assistant","content":)", choice.choice);
    if (choice.text.empty() && !choice.tool_calls.empty()) {
      out += "null";
    } else {
      append_json_string(out, choice.text);
    }
    if (!choice.reasoning.empty()) append_member(out, "reasoning_content", choice.reasoning);
    out += R"(,"refusal":null)";
    if (!choice.tool_calls.empty()) {
      out += ',';
      append_tool_calls(out, choice.tool_calls, false);
    }
    out += '}';
    append_chat_log_probabilities(out, choice.scores);
    append_ending(out, choice);
    out += '}';
  }
  out += ']';
  if (!choices.empty() && !choices.front().prompt_scores.empty())
    append_prompt_scores(out, choices.front().prompt_scores);
  out += ',';
  append_usage(out, usage);
  return out + "}";
}

std::string completion_answer_json(const AnswerHead& head, const CompletionParts& parts,
                                   const std::vector<AnswerDelta>& choices, const AnswerUsage& usage) {
  std::string out;
  append_head(out, head, "text_completion");
  out += R"(,"choices":[)";
  for (const AnswerDelta& choice : choices) {
    if (&choice != &choices.front()) out += ',';
    out += fmt::format(R"({{"index":{},"text":)", choice.choice);
    std::size_t offset = 0;
    append_completion_part(out, parts, choice, offset);
    if (parts.has_prompt_scores) append_prompt_scores(out, choice.prompt_scores);
    append_ending(out, choice);
    out += '}';
  }
  out += "],";
  append_usage(out, usage);
  return out + "}";
}

std::unique_ptr<AnswerEvents> chat_answer_events(AnswerHead head, bool has_usage) {
  return std::make_unique<ChatEvents>(std::move(head), has_usage);
}

std::unique_ptr<AnswerEvents> completion_answer_events(AnswerHead head, const CompletionParts& parts, bool has_usage) {
  return std::make_unique<CompletionEvents>(std::move(head), parts, has_usage);
}

}  // namespace gpux::server

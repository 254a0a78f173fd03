#include "server/protocols/openai/answers.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/utf8.h"
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

// The form of POST /v1/completions. `offset`: characters of the tokens before these.
void append_completion_log_probabilities(std::string& out, const std::vector<TokenScore>& scores, std::size_t& offset) {
  if (scores.empty()) {
    out += R"(,"logprobs":null)";
    return;
  }
  std::string tokens, logarithms, most_probable, offsets;
  bool has_most_probable = false;
  for (const TokenScore& score : scores) {
    const char* separator = &score == &scores.front() ? "" : ",";
    tokens += separator;
    append_json_string(tokens, token_text(score.chosen));
    logarithms += fmt::format("{}{}", separator, finite_logarithm(score.chosen.log_probability));
    offsets += fmt::format("{}{}", separator, offset);
    offset += static_cast<std::size_t>(std::ranges::count_if(
        score.chosen.bytes, [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
    most_probable += separator;
    most_probable += '{';
    has_most_probable = has_most_probable || !score.most_probable.empty();
    // Names in an object differ; the highest comes first.
    std::set<std::string> names;
    for (const TokenLogProbability& token : score.most_probable) {
      std::string name = token_text(token);
      if (names.contains(name)) continue;
      if (!names.empty()) most_probable += ',';
      append_json_string(most_probable, name);
      most_probable += fmt::format(":{}", finite_logarithm(token.log_probability));
      names.insert(std::move(name));
    }
    most_probable += '}';
  }
  out += fmt::format(R"(,"logprobs":{{"tokens":[{}],"token_logprobs":[{}],"top_logprobs":)", tokens, logarithms);
  out += has_most_probable ? "[" + most_probable + "]" : "null";
  out += fmt::format(R"(,"text_offset":[{}]}})", offsets);
}

void append_usage(std::string& out, const AnswerUsage& usage) {
  out += fmt::format(
      R"("usage":{{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},"prompt_tokens_details":{{"cached_tokens":{}}}}})",
      usage.prompt_tokens, usage.generated_tokens, usage.prompt_tokens + usage.generated_tokens, usage.cached_tokens);
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
  CompletionEvents(AnswerHead head, bool has_usage) : ServerSentEvents(std::move(head), "text_completion", has_usage) {}

  void append(std::string& out, const AnswerDelta& delta) override {
    if (delta.text.empty() && delta.scores.empty() && delta.finish_reason.empty()) return;
    begin(out);
    out += fmt::format(R"(,"choices":[{{"index":{},"text":)", delta.choice);
    append_json_string(out, delta.text);
    append_completion_log_probabilities(out, delta.scores, offsets_[delta.choice]);
    append_ending(out, delta);
    out += "}]";
    end(out);
  }

 private:
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
  out += "],";
  append_usage(out, usage);
  return out + "}";
}

std::string completion_answer_json(const AnswerHead& head, const std::vector<AnswerDelta>& choices,
                                   const AnswerUsage& usage) {
  std::string out;
  append_head(out, head, "text_completion");
  out += R"(,"choices":[)";
  for (const AnswerDelta& choice : choices) {
    if (&choice != &choices.front()) out += ',';
    out += fmt::format(R"({{"index":{},"text":)", choice.choice);
    append_json_string(out, choice.text);
    std::size_t offset = 0;
    append_completion_log_probabilities(out, choice.scores, offset);
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

std::unique_ptr<AnswerEvents> completion_answer_events(AnswerHead head, bool has_usage) {
  return std::make_unique<CompletionEvents>(std::move(head), has_usage);
}

}  // namespace gpux::server

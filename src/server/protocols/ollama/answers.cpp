#include "server/protocols/ollama/answers.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "generation/json_extent.h"
#include "server/protocols/text_inputs.h"
#include "server/protocols/token_scores.h"
#include "tensor/json_writer.h"

namespace gpux::server {
namespace {

std::int64_t nanoseconds(std::chrono::duration<double> duration) {
  return std::max<std::int64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count(), 0);
}

void append_head(std::string& out, const OllamaHead& head) {
  out += R"({"model":)";
  append_json_string(out, head.model);
  out += fmt::format(R"(,"created_at":"{}")", ollama_time(std::chrono::system_clock::now()));
}

// On one line: between its values a model may write line feeds.
void append_arguments(std::string& out, std::string_view json) {
  const std::size_t first = out.size();
  out += json;
  std::replace_if(
      out.begin() + static_cast<std::ptrdiff_t>(first), out.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
}

// Arguments are objects here: a call that a limit cut off within them is left out, and others that are none are text.
void keep_whole_calls(AnswerDelta& delta) {
  std::erase_if(delta.tool_calls, [&](const ToolCallDelta& call) {
    if (call.arguments.empty() || generation::is_json(call.arguments)) return false;
    if (delta.finish_reason != "length") delta.text += call.arguments;
    return true;
  });
}

void append_calls(std::string& out, const std::vector<ToolCallDelta>& calls) {
  out += R"(,"tool_calls":[)";
  for (const ToolCallDelta& call : calls) {
    if (&call != &calls.front()) out += ',';
    out += R"({"id":)";
    append_json_string(out, call.id);
    out += fmt::format(R"(,"function":{{"index":{},"name":)", call.index);
    append_json_string(out, call.name);
    out += R"(,"arguments":)";
    append_arguments(out, call.arguments.empty() ? "{}" : std::string_view(call.arguments));
    out += "}}";
  }
  out += ']';
}

void append_scores(std::string& out, const AnswerDelta& delta) {
  if (delta.scores.empty()) return;
  out += R"(,"logprobs":[)";
  append_token_scores(out, delta.scores);
  out += ']';
}

void append_thinking(std::string& out, const AnswerDelta& delta) {
  if (delta.reasoning.empty()) return;
  out += R"(,"thinking":)";
  append_json_string(out, delta.reasoning);
}

void append_text(std::string& out, OllamaRoute route, const AnswerDelta& delta) {
  if (route == OllamaRoute::generate) {
    out += R"(,"response":)";
    append_json_string(out, delta.text);
    append_thinking(out, delta);
    return;
  }
  out += R"(,"message":{"role":"assistant","content":)";
  append_json_string(out, delta.text);
  append_thinking(out, delta);
  if (!delta.tool_calls.empty()) append_calls(out, delta.tool_calls);
  out += '}';
}

// Calls of tools end a text as "stop", as Ollama has it. Clients require a context of /api/generate, also where there
// is none.
void append_end_members(std::string& out, OllamaRoute route, std::string_view reason,
                        std::span<const std::uint32_t> tokens, const AnswerUsage& usage) {
  if (route == OllamaRoute::generate) out += fmt::format(R"(,"context":[{}])", fmt::join(tokens, ","));
  const auto total = usage.queue_time + usage.prompt_time + usage.generation_time;
  out += fmt::format(
      R"(,"done":true,"done_reason":"{}","total_duration":{},"load_duration":0,"prompt_eval_count":{},"prompt_eval_duration":{},"eval_count":{},"eval_duration":{}}})",
      reason == "length" ? "length" : "stop", nanoseconds(total), usage.prompt_tokens, nanoseconds(usage.prompt_time),
      usage.generated_tokens, nanoseconds(usage.generation_time));
}

class OllamaLines : public AnswerEvents {
 public:
  explicit OllamaLines(OllamaHead head) : head_(std::move(head)) {}

  [[nodiscard]] std::string_view content_type() const noexcept override { return "application/x-ndjson"; }

  [[nodiscard]] std::string_view keep_alive() const noexcept override { return {}; }

  void append(std::string& out, const AnswerDelta& delta) override {
    if (!delta.finish_reason.empty()) reason_ = delta.finish_reason;
    if (!delta.tokens.empty()) tokens_ = delta.tokens;
    AnswerDelta given = delta;
    given.tool_calls = finished_calls(delta);
    keep_whole_calls(given);
    if (given.text.empty() && given.reasoning.empty() && given.tool_calls.empty() && given.scores.empty()) return;
    append_head(out, head_);
    append_text(out, head_.route, given);
    append_scores(out, given);
    out += ",\"done\":false}\n";
  }

  void append_end(std::string& out, const AnswerUsage& usage) override {
    append_head(out, head_);
    append_text(out, head_.route, {});
    append_end_members(out, head_.route, reason_, tokens_, usage);
    out += '\n';
  }

  void append_error(std::string& out, const Error& error) override {
    out += R"({"error":)";
    append_json_string(out, error.message());
    out += "}\n";
  }

 private:
  // A call is given whole: when another one begins, or the answer ends.
  std::vector<ToolCallDelta> finished_calls(const AnswerDelta& delta) {
    std::vector<ToolCallDelta> finished;
    for (const ToolCallDelta& call : delta.tool_calls) {
      if (!call.name.empty() || begun_.empty()) {
        finished.insert(finished.end(), begun_.begin(), begun_.end());
        begun_ = {call};
      } else {
        begun_.back().arguments += call.arguments;
      }
    }
    if (!delta.finish_reason.empty()) {
      finished.insert(finished.end(), begun_.begin(), begun_.end());
      begun_.clear();
    }
    return finished;
  }

  OllamaHead head_;
  std::string reason_;
  std::vector<ToolCallDelta> begun_;  // at most one
  std::vector<std::uint32_t> tokens_;
};

}  // namespace

std::string ollama_time(std::chrono::system_clock::time_point time) {
  const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  constexpr std::int64_t a_second = 1'000'000'000;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:09}Z", fmt::gmtime(static_cast<std::time_t>(since / a_second)),
                     since % a_second);
}

std::string ollama_answer_json(const OllamaHead& head, const AnswerDelta& choice, const AnswerUsage& usage) {
  std::string out;
  append_head(out, head);
  AnswerDelta given = choice;
  keep_whole_calls(given);
  append_text(out, head.route, given);
  append_scores(out, given);
  append_end_members(out, head.route, choice.finish_reason, choice.tokens, usage);
  return out;
}

std::string ollama_loaded_json(const OllamaHead& head, std::string_view reason) {
  std::string out;
  append_head(out, head);
  append_text(out, head.route, {});
  return out + fmt::format(R"(,"done":true,"done_reason":"{}"}})", reason);
}

http::Response ollama_vectors_json(const std::string& model, const std::vector<std::vector<float>>& vectors,
                                   std::size_t tokens, std::chrono::nanoseconds duration) {
  std::string out = R"({"model":)";
  append_json_string(out, model);
  out += R"(,"embeddings":[)";
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    if (i != 0) out += ',';
    append_vector(out, vectors[i], false);
  }
  out += fmt::format(R"(],"total_duration":{},"load_duration":0,"prompt_eval_count":{}}})", duration.count(), tokens);
  return http::Response::json(200, std::move(out));
}

http::Response ollama_vector_json(const std::vector<float>& vector) {
  std::string out = R"({"embedding":)";
  append_vector(out, vector, false);
  return http::Response::json(200, out + "}");
}

std::unique_ptr<AnswerEvents> ollama_answer_events(OllamaHead head) {
  return std::make_unique<OllamaLines>(std::move(head));
}

}  // namespace gpux::server

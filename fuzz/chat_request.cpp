// The body of a request for generated text, read by each of the readers; and texts through the writers of streams.
#include <functional>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "fuzzer.h"
#include "gpux/error.h"
#include "server/protocols/anthropic/answers.h"
#include "server/protocols/anthropic/requests.h"
#include "server/protocols/ollama/answers.h"
#include "server/protocols/ollama/requests.h"
#include "server/protocols/openai/answers.h"
#include "server/protocols/openai/chat_requests.h"
#include "server/protocols/openai/completion_requests.h"
#include "server/protocols/responses/answers.h"
#include "server/protocols/responses/requests.h"

namespace {

using gpux::fuzz::require;
using gpux::server::AnswerDelta;
using gpux::server::AnswerEvents;
using Json = nlohmann::json;

// Taken, or refused in one line: nothing else.
void read(const std::function<void()>& reader) {
  try {
    reader();
  } catch (const gpux::Error& error) {
    require(error.code() == gpux::ErrorCode::invalid_input, "refused as something else");
  }
}

void check(const gpux::generation::ChatRequest& chat) {
  const gpux::ChatOptions& options = chat.options;
  const auto functions = gpux::generation::tool_functions(options.tools);
  require(options.tool_choice == gpux::ToolChoice::automatic || !functions.empty(), "a choice of no tools");
  for (const auto& function : functions) {
    require(function.parameters.empty() || Json::parse(function.parameters).is_object(),
            "parameters that are no object");
  }
}

// The input as a text in two parts and as the arguments of a call: what valid UTF-8 a model may write.
std::vector<AnswerDelta> deltas_of(const std::string& text) {
  std::vector<AnswerDelta> deltas(3);
  deltas[0].is_first = true;
  deltas[0].reasoning = text;
  deltas[0].text = text;
  deltas[1].tool_calls.push_back({.index = 0, .id = "a", .name = "f", .arguments = Json{{"a", text}}.dump(2)});
  deltas[2].text = "end";
  deltas[2].finish_reason = "stop";
  return deltas;
}

// Each event is one line of JSON, and all of them together have what was written.
void write(AnswerEvents& events, const std::string& text, std::string_view begin, const char* content) {
  std::string out;
  for (const AnswerDelta& delta : deltas_of(text)) events.append(out, delta);
  events.append_end(out, {});
  std::string together;
  for (std::size_t at = 0; at < out.size();) {
    const std::size_t end = out.find('\n', at);
    require(end != std::string::npos, "a line without an end");
    std::string_view line = std::string_view(out).substr(at, end - at);
    at = end + 1;
    if (line.empty() || line == "data: [DONE]") continue;
    require(line.starts_with(begin), "a line of another kind");
    const Json event = Json::parse(line.substr(begin.size()));
    const Json& part = event.contains("choices") ? event["choices"].at(0)["delta"] : event["message"];
    together += part.value(content, "");
  }
  require(together == text + "end", "another text");
}

// Of a response: its items are messages, and what it repeats of the request is JSON in one line.
void check(const gpux::server::responses::ResponseRequest& request) {
  gpux::server::ConversationItems items;
  for (const auto& one : request.input) {
    if (one.item == nullptr) continue;
    require(one.item->json.empty() || Json::parse(one.item->json).is_object(), "an item that is no object");
    items.push_back(one.item);
  }
  const auto messages = gpux::server::responses::conversation_of(request.instructions, items);
  require(messages.size() <= items.size() + 1, "more messages than items");
  require(request.repeated.find_first_of("\r\n") == std::string::npos, "members on several lines");
  require(Json::parse("{" + request.repeated.substr(1) + "}").is_object(), "members that are no JSON");
}

// Events with names: each is one line of JSON, and what has `content` has what was written.
void write_named(AnswerEvents& events, const std::string& text, const char* type, const char* content) {
  std::string out, together;
  for (const AnswerDelta& delta : deltas_of(text)) {
    events.hold(delta);
    events.append(out, delta);
  }
  events.append_end(out, {});
  for (std::size_t at = 0; at < out.size();) {
    const std::size_t end = out.find('\n', at);
    require(end != std::string::npos, "a line without an end");
    const std::string_view line = std::string_view(out).substr(at, end - at);
    at = end + 1;
    if (line.empty() || line.starts_with("event: ")) continue;
    require(line.starts_with("data: "), "a line of another kind");
    const Json event = Json::parse(line.substr(6));
    if (event["type"] != type) continue;
    const Json& part = event["delta"];
    together += part.is_string() ? part.get<std::string>() : part.value(content, "");
  }
  require(together == text + "end", "another text");
}

}  // namespace

void gpux::fuzz::read_hostile(std::string_view input) {
  read([&] { check(server::read_chat(input).chat); });
  read([&] { check(server::read_ollama_chat(input).chat); });
  read([&] { (void)server::read_ollama_generate(input); });
  read([&] { require(!server::read_ollama_embed(input).texts.empty(), "no text"); });
  read([&] { (void)server::read_ollama_embeddings(input); });
  read([&] { (void)server::read_ollama_show(input); });
  read([&] { require(!server::read_completion(input).continuation.prompts.empty(), "no prompt"); });
  read([&] { check(server::responses::read_response_request(input)); });
  read([&] { require(!server::anthropic::read_message_request(input).chat.messages.empty(), "no message"); });
  read([&] { (void)server::anthropic::read_token_count_request(input); });
  const std::string text = Json::parse(Json(input).dump(-1, ' ', false, Json::error_handler_t::replace));
  write(*server::chat_answer_events({.id = "a", .created = 0, .model = text}, false), text, "data: ", "content");
  write(*server::ollama_answer_events({.route = server::OllamaRoute::chat, .model = text}), text, "", "content");
  const auto repeated = std::make_shared<const std::string>();
  write_named(*server::responses::response_events({.id = "a", .model = text, .repeated = repeated}, nullptr, nullptr),
              text, "response.output_text.delta", "");
  write_named(*server::anthropic::message_events({.id = "a", .model = text}, 1), text, "content_block_delta", "text");
}

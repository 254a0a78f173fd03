#include "generation/chat_stream.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/format_message.h"
#include "generation/answer_format.h"
#include "generation/special_markers.h"
#include "gpux/error.h"

namespace gpux::generation {
namespace {

std::uint64_t id_seed_of(const GenerationSettings& settings) {
  return settings.seed ? *settings.seed : std::uint64_t{std::random_device()()};
}

}  // namespace

std::vector<std::string> functions_of(std::string_view tools) {
  std::vector<std::string> names;
  if (tools.empty()) return names;
  const nlohmann::json list = nlohmann::json::parse(tools, nullptr, false);
  if (!list.is_array()) {
    throw Error(ErrorCode::invalid_input,
                format_message("{} are not JSON; accepted: an array", setting_named("tools")));
  }
  for (const nlohmann::json& tool : list) {
    const nlohmann::json* function = &tool;
    if (tool.is_object() && tool.contains("function")) function = &tool["function"];
    const bool has_name = function->is_object() && function->value("name", nlohmann::json()).is_string();
    if (!has_name) {
      throw Error(ErrorCode::invalid_input,
                  fmt::format("tools[{}] is no function; accepted: {{\"type\": \"function\", \"function\": "
                              "{{\"name\": …, \"parameters\": …}}}}",
                              names.size()));
    }
    names.push_back((*function)["name"]);
  }
  return names;
}

ChatRequest chat_request(const text::Tokenizer& tokenizer, const ChatPrompt& prompt,
                         std::span<const ChatMessage> messages, const ChatOptions& options,
                         GenerationSettings settings) {
  ChatRequest request;
  request.answer.functions = functions_of(options.tools);
  request.answer.format = answer_format_of(prompt.template_text(!options.tools.empty()));
  const std::string text = prompt.text(messages, options);
  request.answer.begins_in_reasoning = opens_reasoning(request.answer.format, text);
  request.answer.id_seed = id_seed_of(settings);
  request.request.shown_tokens = special_markers(request.answer.format, tokenizer);
  request.request.is_answer = true;
  request.request.prompt = prompt_tokens(tokenizer, text, false);
  request.request.settings = std::move(settings);
  return request;
}

void append(ChatMessage& message, const ChatDelta& delta) {
  switch (delta.kind) {
    case ChatDelta::Kind::content:
      message.content += delta.text;
      break;
    case ChatDelta::Kind::reasoning:
      message.reasoning += delta.text;
      break;
    case ChatDelta::Kind::tool_call:
      message.tool_calls.push_back({.id = delta.id, .name = delta.name, .arguments = {}});
      break;
    case ChatDelta::Kind::arguments:
      message.tool_calls.at(delta.index).arguments += delta.text;
      break;
  }
}

ChatDeltas::ChatDeltas(Engine& engine, ChatRequest request)
    : pieces_(engine, std::move(request.request)), parser_(std::move(request.answer)) {
  completion_.message.role = "assistant";
}

std::optional<ChatDelta> ChatDeltas::next() {
  while (deltas_.empty() && !has_ended_) {
    const std::optional<GeneratedPiece> piece = pieces_.next();
    has_ended_ = !piece;
    std::ranges::move(piece ? parser_.add(piece->text) : parser_.finish(), std::back_inserter(deltas_));
  }
  if (deltas_.empty()) {
    if (!was_taken_) completion_.completion = *pieces_.completion();
    was_taken_ = true;
    return std::nullopt;
  }
  ChatDelta delta = std::move(deltas_.front());
  deltas_.pop_front();
  append(completion_.message, delta);
  return delta;
}

void ChatDeltas::cancel() {
  pieces_.cancel();
}

const ChatCompletion* ChatDeltas::completion() const noexcept {
  return was_taken_ ? &completion_ : nullptr;
}

ChatCompletion chat(Engine& engine, ChatRequest request, const Generator::ChatSink& sink) {
  ChatDeltas deltas(engine, std::move(request));
  while (const std::optional<ChatDelta> delta = deltas.next()) {
    if (!sink || sink(*delta)) continue;
    // What the engine generates until it hears of it is nobody's.
    ChatMessage message = deltas.message();
    deltas.cancel();
    try {
      while (deltas.next()) {
      }
    } catch (const Error&) {  // of what nobody wants any more
    }
    const ChatCompletion* whole = deltas.completion();
    ChatCompletion completion{.message = std::move(message), .completion = {}};
    if (whole != nullptr) completion.completion = whole->completion;
    completion.completion.reason = FinishReason::cancelled;
    return completion;
  }
  return *deltas.completion();
}

}  // namespace gpux::generation

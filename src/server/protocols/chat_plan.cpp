#include "server/protocols/chat_plan.h"

#include <functional>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "generation/special_markers.h"
#include "server/generation/chat_reader.h"

namespace gpux::server {
namespace {

using generation::ToolCallStyle;

const generation::ChatPrompt& require_chat(const ServedModel& model) {
  if (model.chat() != nullptr) return *model.chat();
  throw Error(ErrorCode::invalid_input,
              fmt::format("'{}' takes no messages: {}; POST /v1/completions continues a text as it is", model.name(),
                          model.lack_of_chat()));
}

// How the answers to one request are read.
struct Reading {
  generation::AnswerSettings settings;
  bool allows_several = true;
  /// The form of an answer that has to call a tool, where the prompt has opened the reasoning; null: not such an
  /// answer.
  std::function<OutputConstraint()> form_in_reasoning;
};

// The whole answer has the form: it has neither reasoning nor calls.
void require_no_tools(const ToolUse& tools) {
  if (tools.choice == ToolChoice::none) return;
  throw Error(ErrorCode::invalid_input,
              "tools and a form of the answer (response_format, guided_… or format) are both there; accepted: one of "
              "them, or tool_choice none");
}

// The answer is nothing but calls, and reasoning before them where the model thinks first.
void force_calls(const ToolUse& tools, const generation::AnswerFormat& format, const text::Tokenizer& tokenizer,
                 GenerationSettings& settings, Reading& reading) {
  // What no constraint allows.
  const auto is_special = [&](const std::string& marker) { return generation::is_special_token(marker, tokenizer); };
  const bool has_special_calls =
      format.tool_calls == ToolCallStyle::hermes && (is_special("<tool_call>") || is_special("</tool_call>"));
  const ToolCallStyle style = has_special_calls ? ToolCallStyle::none : format.tool_calls;
  generation::ReasoningPart reasoning;
  if (!format.reasoning_end.empty() && !is_special(format.reasoning_begin) && !is_special(format.reasoning_end)) {
    reasoning = {.begin = format.reasoning_begin, .end = format.reasoning_end};
  }
  generation::ToolCallForm form = generation::tool_call_form(tools.functions, style, tools.allows_several, reasoning);
  settings.constraint = std::move(form.constraint);
  reading.settings.format = std::move(form.format);
  reading.settings.is_enforced = true;
  if (reasoning.end.empty()) return;
  reasoning.is_open = true;
  reading.form_in_reasoning = [functions = tools.functions, style, several = tools.allows_several, reasoning] {
    return generation::tool_call_form(functions, style, several, reasoning).constraint;
  };
}

Reading reading_of(const ServedModel& model, const ToolUse& tools, GenerationSettings& settings) {
  Reading reading{.settings = {}, .allows_several = tools.allows_several};
  for (const generation::ToolFunction& function : tools.functions) reading.settings.functions.push_back(function.name);
  reading.settings.id_seed = std::random_device()();
  if (settings.constraint.kind != OutputConstraint::Kind::none) {
    require_no_tools(tools);
    return reading;
  }
  const bool has_tools = tools.choice != ToolChoice::none;
  generation::AnswerFormat format = generation::answer_format_of(model.chat()->template_text(has_tools));
  if (tools.choice == ToolChoice::required) {
    force_calls(tools, format, model.engine()->tokenizer(), settings, reading);
    return reading;
  }
  if (has_tools && format.tool_calls == ToolCallStyle::none) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("tools: the chat template of '{}' has no calls in a form that is known; accepted: "
                            "tool_choice required, or a function by its name",
                            model.name()));
  }
  if (!has_tools) format.tool_calls = ToolCallStyle::none;
  reading.settings.format = std::move(format);
  return reading;
}

}  // namespace

GenerationPlan plan_chat(const std::shared_ptr<ServedModel>& model, Conversation conversation,
                         GenerationSettings settings, std::uint64_t body_bytes) {
  (void)require_chat(*model);
  const auto reading = std::make_shared<Reading>(reading_of(*model, conversation.tools, settings));
  const auto asked = std::make_shared<Conversation>(std::move(conversation));
  asked->options.tools = std::move(asked->tools.json);
  GenerationPlan plan;
  plan.settings = std::move(settings);
  plan.is_answer = true;
  plan.shown_tokens = generation::special_markers(reading->settings.format, model->engine()->tokenizer());
  plan.bytes_to_prepare = body_bytes;
  plan.prepare = [model, asked, reading](GenerationPlan& to_fill) {
    std::string prompt = model->chat()->text(asked->messages, asked->options);
    asked->messages.clear();
    reading->settings.begins_in_reasoning = generation::opens_reasoning(reading->settings.format, prompt);
    if (reading->settings.begins_in_reasoning && reading->form_in_reasoning) {
      to_fill.settings.constraint = reading->form_in_reasoning();
    }
    to_fill.prompts.clear();
    to_fill.prompts.emplace_back(std::move(prompt));
  };
  plan.format.reader = [reading] {
    ++reading->settings.id_seed;
    return std::make_unique<ChatReader>(reading->settings, reading->allows_several);
  };
  return plan;
}

}  // namespace gpux::server

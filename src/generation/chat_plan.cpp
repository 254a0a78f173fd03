#include "generation/chat_plan.h"

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/format_message.h"
#include "generation/answer_format.h"
#include "generation/special_markers.h"
#include "gpux/error.h"
#include "tensor/json_envelope.h"

namespace gpux::generation {
namespace {

std::uint64_t id_seed_of(const GenerationSettings& settings) {
  return settings.seed ? *settings.seed : std::uint64_t{std::random_device()()};
}

// The functions that the answer may call.
std::vector<ToolFunction> callable_functions(const ChatOptions& options) {
  const bool is_required = options.tool_choice == ToolChoice::required;
  if (!options.tool_name.empty() && !is_required) {
    throw Error(ErrorCode::usage,
                fmt::format("tool_name is '{}', and no call is required; accepted: none, or ToolChoice::required",
                            options.tool_name));
  }
  if (!offers_tools(options)) {
    if (!is_required) return {};
    throw Error(ErrorCode::invalid_input, "a call is required, and there are no tools");
  }
  std::vector<ToolFunction> functions = tool_functions(options.tools);
  if (!options.tool_name.empty()) {
    std::erase_if(functions, [&](const ToolFunction& one) { return one.name != options.tool_name; });
  }
  if (functions.empty() && is_required) {
    throw Error(ErrorCode::invalid_input,
                options.tool_name.empty()
                    ? "a call is required, and there are no tools"
                    : fmt::format("tool_name is '{}', which is none of the tools", options.tool_name));
  }
  return functions;
}

// The special tokens among the markers of a format.
std::map<std::string, std::uint32_t> special_tokens_of(const AnswerFormat& format, const text::Tokenizer& tokenizer) {
  std::map<std::string, std::uint32_t> tokens;
  for (const std::string& marker : markers_of(format)) {
    const std::optional<std::uint32_t> id = tokenizer.id(marker);
    if (id && is_special_token(marker, tokenizer)) tokens.emplace(marker, *id);
  }
  return tokens;
}

// The files of a model may not name the token behind a call, at which somebody else has to answer.
void end_at_calls(const AnswerFormat& format, const text::Tokenizer& tokenizer, GenerationSettings& settings) {
  if (!format.has_channels) return;
  for (const char* end : {"<|call|>", "<|return|>"}) {
    const std::optional<std::uint32_t> id = tokenizer.id(end);
    if (id && is_special_token(end, tokenizer)) settings.stop_tokens.push_back(*id);
  }
}

ReasoningPart reasoning_part(const AnswerFormat& format, std::string_view prompt) {
  if (format.reasoning_end.empty() || closes_reasoning(format, prompt)) return ReasoningPart::none;
  return opens_reasoning(format, prompt) ? ReasoningPart::is_open : ReasoningPart::may_come;
}

// An answer that has to be calls, or may be a text of a form.
void constrain(const AnswerParts& parts, OutputConstraint& constraint, AnswerSettings& answer) {
  ConstrainedAnswer constrained = constrained_answer(parts);
  answer.is_enforced = !parts.functions.empty();
  answer.may_have_form = answer.is_enforced && parts.form.kind != OutputConstraint::Kind::none;
  answer.format = std::move(constrained.format);
  constraint = std::move(constrained.constraint);
}

}  // namespace

std::vector<ToolFunction> tool_functions(std::string_view tools) {
  std::vector<ToolFunction> functions;
  if (tools.empty()) return functions;
  const nlohmann::json list = nlohmann::json::parse(tools, nullptr, false);
  if (!list.is_array()) {
    throw Error(ErrorCode::invalid_input,
                format_message("{} are not JSON; accepted: an array", setting_named("tools")));
  }
  // As they are written: the order of parameters counts.
  const std::vector<std::string_view> texts = split_array(tools);
  for (const nlohmann::json& tool : list) {
    const bool is_wrapped = tool.is_object() && tool.contains("function");
    const nlohmann::json& function = is_wrapped ? tool["function"] : tool;
    const bool has_name = function.is_object() && function.value("name", nlohmann::json()).is_string();
    if (!has_name) {
      throw Error(ErrorCode::invalid_input,
                  format_message("{}[{}] is no function; accepted: {{\"type\": \"function\", \"function\": "
                                 "{{\"name\": …, \"parameters\": …}}}}",
                                 setting_named("tools"), functions.size()));
    }
    const std::string_view text = texts.at(functions.size());
    functions.push_back(
        {.name = function["name"],
         .parameters = std::string(member_text(is_wrapped ? member_text(text, "function") : text, "parameters"))});
  }
  return functions;
}

ChatPlan plan_chat(const ChatPrompt& prompt, const text::Tokenizer& tokenizer, ChatRequest request,
                   const PromptCheck& check) {
  const ChatOptions& options = request.options;
  OutputConstraint& constraint = request.settings.constraint;
  const bool is_forced = options.tool_choice == ToolChoice::required;
  const bool is_constrained = constraint.kind != OutputConstraint::Kind::none;
  if (is_forced && is_constrained && !request.constrains_content) {
    throw Error(ErrorCode::invalid_input, "a call is required, and a constraint is there; accepted: one of them");
  }
  if (is_constrained && request.constrains_content && !is_forced && options.continues_last_message) {
    throw Error(ErrorCode::invalid_input,
                format_message("{} is true, and the text has a form, which it has from its beginning; accepted: one of "
                               "them",
                               setting_named("continues_last_message")));
  }
  const std::vector<ToolFunction> functions = callable_functions(options);
  ChatPlan plan;
  AnswerSettings& answer = plan.answer;
  for (const ToolFunction& function : functions) {
    answer.functions.push_back(function.name);
    answer.parameters.push_back(function.parameters);
  }
  answer.allows_several = options.allows_several_calls && options.tool_name.empty();
  answer.id_seed = id_seed_of(request.settings);
  answer.format = answer_format_of(prompt.template_text(offers_tools(options)));
  if (functions.empty()) answer.format.tool_calls = ToolCallStyle::none;

  const std::string text = prompt.text(request.messages, options);
  request.messages.clear();
  if (check) check(text);
  if (is_forced || (is_constrained && request.constrains_content)) {
    const AnswerParts parts{
        .format = answer.format,
        .tokens = special_tokens_of(answer.format, tokenizer),
        .reasoning = options.continues_last_message ? ReasoningPart::none : reasoning_part(answer.format, text),
        .functions = functions,
        .allows_several = answer.allows_several,
        .form = is_forced ? OutputConstraint() : constraint};
    constrain(parts, constraint, answer);
  }
  answer.begins_in_reasoning = opens_reasoning(answer.format, text);
  plan.request.shown_tokens = special_markers(answer.format, tokenizer);
  plan.request.is_answer = !options.continues_last_message;
  plan.request.prompt = prompt_tokens(tokenizer, text, false);
  end_at_calls(answer.format, tokenizer, request.settings);
  plan.request.settings = std::move(request.settings);
  return plan;
}

}  // namespace gpux::generation

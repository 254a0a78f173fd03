#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "generation/answer_parser.h"
#include "generation/chat_prompt.h"
#include "generation/engine.h"
#include "generation/tool_constraint.h"
#include "gpux/chat.h"
#include "gpux/generator.h"
#include "text/tokenizer.h"

namespace gpux::generation {

/// A conversation to answer: of the library, a command or a client of a protocol.
struct ChatRequest {
  std::vector<ChatMessage> messages;  ///< at least one
  ChatOptions options = {};
  GenerationSettings settings = {};
  /// settings.constraint is the form of the content alone: reasoning may precede it where the model thinks, and the
  /// answer may be calls instead. Without, it is the form of the whole text.
  bool constrains_content = false;
};

/// A planned chat request: the request to the engine, and how its answer is parsed.
struct ChatPlan {
  EngineRequest request;
  AnswerSettings answer;
};

/// Checks the rendered prompt before it is tokenized. An exception refuses the request.
using PromptCheck = std::function<void(std::string_view prompt)>;

/// Decides how a model with this template and tokenizer answers: the prompt, the form of its calls and of its content
/// where they have one (a call that is required comes instead of a content with a form), the special tokens that the
/// text shows, and how it is read. Pure, but for the ids of calls where the settings have no seed, and for templates
/// that write the date. Errors of ChatPrompt::text(), tool_functions(), constrained_answer(), prompt_tokens();
/// invalid_input: a call is required, and there is no such function, or a constraint of the whole text; usage:
/// tool_name without ToolChoice::required.
ChatPlan plan_chat(const ChatPrompt& prompt, const text::Tokenizer& tokenizer, ChatRequest request,
                   const PromptCheck& check = {});

/// The functions in ChatOptions::tools. Error invalid_input: an element is no function.
std::vector<ToolFunction> tool_functions(std::string_view tools);

}  // namespace gpux::generation

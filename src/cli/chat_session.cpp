#include "cli/chat_session.h"

#include <memory>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/standard_streams.h"
#include "base/utf8.h"
#include "cli/flag_names.h"
#include "generation/chat_messages.h"
#include "gpux/error.h"
#include "model/open_generator.h"

namespace gpux::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Shows an answer as it comes: its content on standard output, its reasoning dimmed on a terminal.
class AnswerPrinter {
 public:
  AnswerPrinter(bool prints_content, bool prints_reasoning)
      : prints_content_(prints_content), prints_reasoning_(prints_reasoning) {}

  void print(const ChatDelta& delta) {
    if (delta.kind == ChatDelta::Kind::reasoning && prints_reasoning_) {
      if (!is_dimmed_) write_to_standard_error("\x1b[2m");
      is_dimmed_ = true;
      write_to_standard_error(shown_on_terminal(delta.text));
    } else if (delta.kind == ChatDelta::Kind::content && prints_content_) {
      end_reasoning();
      print_piece(delta.text);
    }
  }

  ~AnswerPrinter() { end_reasoning(); }

  AnswerPrinter(const AnswerPrinter&) = delete;
  AnswerPrinter& operator=(const AnswerPrinter&) = delete;

  void end_reasoning() noexcept {
    if (std::exchange(is_dimmed_, false)) write_to_standard_error("\x1b[0m\n\n");
  }

 private:
  bool prints_content_, prints_reasoning_;
  bool is_dimmed_ = false;
};

void check_template_values(const std::string& json) {
  if (json.empty() || Json::parse(json, nullptr, false).is_object()) return;
  throw Error(ErrorCode::usage, "--template-values is no JSON object, as {\"enable_thinking\": false}");
}

}  // namespace

ChatSession::ChatSession(const ChatFlags& flags, const Context& context)
    : context_(&context), settings_(flags.generation), options_(flags.options), model_(load(flags)) {
  set_system(flags.system);
  say(context, line_of(model_.engine->verdict()));
}

// What the flags and the files say is read first: loading takes longer.
ChatSession::Model ChatSession::load(const ChatFlags& flags) {
  (void)settings_of(flags.generation);
  check_template_values(flags.options.template_values);
  const OpenGenerator open = open_generator(open_model(flags.model, {}, flags.load), flags.engine.draft, flags.load);
  generation::ModelChat chat = open.read_chat();
  (void)chat.require_prompt();
  return {.name = open.model.located.name, .chat = std::move(chat), .engine = open.load(flags.engine.options())};
}

void ChatSession::set_system(const std::string& text) {
  const bool has_one = !messages_.empty() && messages_.front().role == "system";
  if (has_one) messages_.erase(messages_.begin());
  if (!text.empty()) messages_.insert(messages_.begin(), ChatMessage{.role = "system", .content = text});
}

void ChatSession::clear() {
  const bool has_one = !messages_.empty() && messages_.front().role == "system";
  messages_.resize(has_one ? 1 : 0);
  last_.reset();
}

void ChatSession::answer(const std::string& text, Interrupts* interrupts) {
  std::vector<ChatMessage> messages = messages_;
  messages.push_back({.role = "user", .content = text});
  generation::ChatDeltas deltas(
      *model_.engine,
      generation::plan_chat(model_.chat.require_prompt(), model_.engine->tokenizer(),
                            {.messages = messages, .options = options_, .settings = settings_.settings()}));
  const bool is_text = !context_->wants_json();
  AnswerPrinter printer(is_text, is_text && !context_->quiet && ::isatty(STDERR_FILENO) != 0);
  {
    std::optional<AtInterrupt> stop;
    if (interrupts != nullptr) stop.emplace(*interrupts, [&] { deltas.cancel(); });
    while (const std::optional<ChatDelta> delta = deltas.next()) printer.print(*delta);
  }
  printer.end_reasoning();
  const ChatCompletion& completion = *deltas.completion();
  last_ = completion.completion;
  print(completion);
  const bool is_empty = completion.message.content.empty() && completion.message.reasoning.empty();
  if (completion.completion.reason == FinishReason::cancelled && is_empty) return;
  messages.push_back(completion.message);
  messages_ = std::move(messages);
}

void ChatSession::print(const ChatCompletion& completion) const {
  if (context_->wants_json()) {
    Json document{{"model", model_.name}, {"message", Json::parse(generation::to_json({&completion.message, 1}))[0]}};
    add_figures(document, completion.completion);
    document["cached_tokens"] = completion.completion.cached_tokens;
    document["verdict"] = Json::parse(json_text_of(model_.engine->verdict()));
    print_data(document.dump());
    return;
  }
  print_data("");
  if (completion.completion.reason == FinishReason::cancelled) say(*context_, "the answer was stopped");
  if (completion.completion.reason == FinishReason::length) {
    say(*context_, "the answer was cut: it had max-tokens, or the context is full");
  }
  if (context_->verbosity > 0) say(*context_, figures_line(completion.completion));
}

}  // namespace gpux::cli

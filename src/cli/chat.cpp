#include <memory>
#include <string>

#include <CLI/App.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "base/standard_input.h"
#include "base/standard_streams.h"
#include "cli/chat_commands.h"
#include "cli/chat_session.h"
#include "cli/command.h"
#include "cli/edited_lines.h"
#include "cli/flag_names.h"
#include "cli/interrupts.h"
#include "cli/line_reader.h"
#include "cli/load_flags.h"
#include "cli/pull_flag.h"
#include "cli/typed_lines.h"
#include "gpux/error.h"

namespace gpux::cli {
namespace {

bool is_blank(const std::string& text) {
  return text.find_first_not_of(" \t\r\n") == std::string::npos;
}

/// A conversation on a terminal.
class TerminalChat {
 public:
  TerminalChat(ChatSession& session, Context& context)
      : session_(&session),
        context_(&context),
        edited_lines_(EditedLines::open(interrupts_, TypedLines::max_bytes)),
        lines_(&interrupts_, TypedLines::max_bytes) {}

  void run() {
    say(*context_, "/help lists the commands, Ctrl-D leaves");
    while (step()) {
    }
  }

 private:
  LineReader::Event next_line(std::string& line) {
    const std::string prompt = context_->quiet ? "" : typed_.is_open() ? "... " : ">>> ";
    if (edited_lines_) return edited_lines_->next(line, prompt);
    write_to_standard_error(prompt);
    return lines_.next(line);
  }

  // Whether the conversation goes on.
  bool step() {
    std::string line;
    switch (next_line(line)) {
      case LineReader::Event::end:
        write_to_standard_error("\n");
        return false;
      case LineReader::Event::interrupt:
        return take_interrupt();
      case LineReader::Event::line:
        break;
    }
    was_interrupted_ = false;
    try {
      const std::optional<TypedInput> input = typed_.add(line);
      if (!input) return true;
      if (!input->command.empty()) return perform_chat_command(*session_, input->command, input->text);
      session_->answer(input->text, &interrupts_);
    } catch (const ReaderLeft&) {
      throw;
    } catch (const Error& error) {
      write_to_standard_error(fmt::format("gpux: {}\n", message_of(error)));
    }
    return true;
  }

  // One that stopped an answer does not come here.
  bool take_interrupt() {
    write_to_standard_error("\n");
    if (was_interrupted_) {
      context_->exit_code = static_cast<int>(ErrorCode::interrupted);
      return false;
    }
    was_interrupted_ = true;
    typed_.clear();
    say(*context_, "Ctrl-C again leaves; so do Ctrl-D and /exit");
    return true;
  }

  ChatSession* session_;
  Context* context_;
  Interrupts interrupts_;
  std::unique_ptr<EditedLines> edited_lines_;
  LineReader lines_;
  TypedLines typed_;
  bool was_interrupted_ = false;
};

// A line is a message, and there are no commands: what comes from a pipe is data.
void answer_lines(ChatSession& session) {
  LineReader lines(nullptr, TypedLines::max_bytes);
  bool has_any = false;
  for (std::string line; lines.next(line) == LineReader::Event::line;) {
    if (is_blank(line)) continue;
    has_any = true;
    session.answer(line);
  }
  if (!has_any) throw Error(ErrorCode::invalid_input, "standard input has no message");
}

void chat(const ChatFlags& flags, Context& context) {
  std::optional<std::string> message = flags.message;
  if (message && is_standard_input(*message)) message = read_standard_input();
  if (message && is_blank(*message)) throw Error(ErrorCode::invalid_input, "--message is empty");
  ChatSession session(flags, context);
  if (message) {
    session.answer(*message);
  } else if (::isatty(STDIN_FILENO) != 0) {
    TerminalChat(session, context).run();
  } else {
    answer_lines(session);
  }
}

}  // namespace

void add_chat(CLI::App& program, Context& context) {
  auto flags = std::make_shared<ChatFlags>();
  CLI::App* command = add_command(program, context, "chat", "Chat with a language model");
  command
      ->add_option("MODEL", flags->model,
                   "a name in the store, a folder with tokenizer.json and model.onnx, or hf.co/ORG/NAME")
      ->required();
  add_pull_flag(*command, flags->pull);
  command->add_option("--message", flags->message,
                      "print the answer to this message, and end; '-' reads standard input as one message");
  command->add_option("--system", flags->system, "the message of the system, before all others");
  command->add_option("--template-values", flags->options.template_values,
                      "more values of the chat template, as a JSON object: {\"enable_thinking\": false}");
  add_generation_flags(*command, flags->generation);
  add_engine_flags(*command, flags->engine);
  add_load_flags(*command, flags->load);
  add_isolation_flag(*command, flags->load, WorkerUse::restarted);
  add_timeout_flag(*command, flags->load);
  command->footer(
      "On a terminal it is a conversation; /help lists its commands. From a pipe, each line that is not blank is\n"
      "a message of one conversation.\n"
      "Examples:\n"
      "  gpux chat tiny-llm\n"
      "  gpux chat tiny-llm --system 'Answer in one word.' --message 'Is water wet?'\n"
      "  gpux chat tiny-llm --message - --json < question.txt");
  command->callback([flags, &context] {
    flags->model = pull_argument(flags->model, flags->pull, context);
    flags->engine.draft = pull_argument(flags->engine.draft, flags->pull, context);
    chat(*flags, context);
  });
}

}  // namespace gpux::cli

#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "gpux/error.h"

namespace CLI {
class App;
}

namespace gpux::cli {

/// Context of every command: the flags before all others, and a place for its exit code.
struct Context {
  bool json = false;   ///< --json
  bool table = false;  ///< --table: the default, said
  bool quiet = false;  ///< -q: no messages on stderr but errors
  int verbosity = 0;   ///< -v, -vv
  int exit_code = 0;

  /// Whether JSON is to be printed instead of a table. Where the output goes makes no difference.
  [[nodiscard]] bool wants_json() const noexcept { return json; }
};

/// The reader of standard output has left, as `head` does: no message is due.
class ReaderLeft : public Error {
 public:
  using Error::Error;
};

/// Writes data to standard output, a newline behind it; on a terminal as shown_on_terminal(). Error storage where it
/// cannot be written.
void print_data(std::string_view text);

/// Writes a part of a line to standard output at once.
void print_piece(std::string_view text);

/// Clears the terminal that standard output is; nothing where it is none.
void clear_terminal();

/// Prints one line on stderr, as one_line(), unless -q.
void say(const Context& context, std::string_view line);

/// Each adds its command to the program; the command runs when it is parsed.
void add_build(CLI::App& program, Context& context);
void add_run(CLI::App& program, Context& context);
void add_embed(CLI::App& program, Context& context);
void add_search(CLI::App& program, Context& context);
void add_chat(CLI::App& program, Context& context);
void add_generate(CLI::App& program, Context& context);
void add_import(CLI::App& program, Context& context);
void add_daemon(CLI::App& program, Context& context);
void add_serve(CLI::App& program, Context& context);
void add_ps(CLI::App& program, Context& context);
void add_health(CLI::App& program, Context& context);
void add_stats(CLI::App& program, Context& context);
void add_logs(CLI::App& program, Context& context);
void add_stop(CLI::App& program, Context& context);
void add_inspect(CLI::App& program, Context& context);
void add_bench(CLI::App& program, Context& context);
void add_verify(CLI::App& program, Context& context);
void add_providers(CLI::App& program, Context& context);
void add_doctor(CLI::App& program, Context& context);
void add_pull(CLI::App& program, Context& context);
void add_hub(CLI::App& program, Context& context);
void add_images(CLI::App& program, Context& context);
void add_tag(CLI::App& program, Context& context);
void add_rm(CLI::App& program, Context& context);
void add_prune(CLI::App& program, Context& context);
void add_push(CLI::App& program, Context& context);
void add_login(CLI::App& program, Context& context);
void add_logout(CLI::App& program, Context& context);
void add_save(CLI::App& program, Context& context);
void add_load(CLI::App& program, Context& context);
void add_schema(CLI::App& program, Context& context);
void add_version(CLI::App& program, Context& context);
void add_completion(CLI::App& program, Context& context);
void add_man_pages(CLI::App& program, Context& context);
void add_worker(CLI::App& program, Context& context);

/// A command that takes --json and --table beside its own flags.
CLI::App* add_command(CLI::App& program, Context& context, const std::string& name, const std::string& description);

}  // namespace gpux::cli

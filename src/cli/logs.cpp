#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <thread>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/spelling.h"
#include "cli/command.h"
#include "gpux/error.h"
#include "server/server_record.h"

namespace gpux::cli {
namespace {

struct LogsFlags {
  std::string server;
  bool follow = false;
  std::size_t tail = 1000;
};

std::string in_json(const std::string& line) {
  return nlohmann::json(line).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// One list, or with --follow one string a line: a list would have no end.
void print_lines(const std::vector<std::string>& lines, const LogsFlags& flags, const Context& context) {
  if (context.json && !flags.follow) {
    nlohmann::json list = nlohmann::json::array();
    for (const std::string& line : lines) list.push_back(line);
    print_data(list.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  for (const std::string& line : lines) print_data(context.json ? in_json(line) : line);
}

void show_log(const LogsFlags& flags, const Context& context) {
  const server::ServerRecord server = server::find_logged_server(flags.server);
  if (!server::is_running(server)) {
    say(context, fmt::format("server {} was killed, or its system was; its log:", server.pid));
  }
  std::ifstream file(server.log);
  if (!file) throw Error(ErrorCode::not_found, fmt::format("server {} keeps no log", server.pid));
  std::vector<std::string> lines;
  std::string line;
  while (std::getline(file, line)) {
    lines.push_back(line);
    if (lines.size() > 2 * flags.tail + 1000)
      lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(flags.tail));
  }
  if (lines.size() > flags.tail) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(flags.tail));
  print_lines(lines, flags, context);
  while (flags.follow) {
    file.clear();
    // A file that has been turned into FILE.1 is read on from its successor.
    const auto place = file.tellg();
    std::error_code error;
    if (std::filesystem::file_size(server.log, error) <
        static_cast<std::uintmax_t>(std::max<std::streamoff>(place, 0))) {
      file.close();
      file.open(server.log);
    }
    const bool running = server::is_running(server);
    lines.clear();
    while (std::getline(file, line)) lines.push_back(line);
    print_lines(lines, flags, context);
    if (!running) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

}  // namespace

void add_logs(CLI::App& program, Context& context) {
  auto flags = std::make_shared<LogsFlags>();
  CLI::App* command = add_command(program, context, "logs", "Show the log of a running server");
  command->add_option("SERVER", flags->server, "process id, port or model (default: the only server)");
  command->add_flag("--follow", flags->follow, "continue until the server ends");
  command->add_option("-n,--tail", flags->tail, "the last N lines")
      ->check(CLI::Range(std::size_t{0}, std::size_t{1} << 20));
  command->callback([flags, &context] { show_log(*flags, context); });
}

}  // namespace gpux::cli

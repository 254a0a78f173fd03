#include <csignal>
#include <memory>
#include <thread>

#include <CLI/App.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/setting_flags.h"
#include "gpux/error.h"
#include "server/server_record.h"
#include "settings/read_setting.h"

namespace gpux::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct StopFlags {
  std::vector<std::string> servers;
  Setting<std::string> timeout{"40s", flag_source("--timeout")};
  bool all = false, kill = false;
};

bool wait_for_end(const server::ServerRecord& server, std::chrono::milliseconds limit) {
  const Clock::time_point end = Clock::now() + limit;
  while (server::is_running(server)) {
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

void send(const server::ServerRecord& server, int signal) {
  // It may end by itself just now.
  if (::kill(server.pid, signal) != 0 && server::is_running(server)) {
    throw Error(ErrorCode::permission, fmt::format("server {} cannot be signalled", server.pid));
  }
}

// It has been told already, and a second signal would cut off what it answers.
bool is_shutting_down(const server::ServerRecord& server) {
  try {
    const auto health = nlohmann::json::parse(server::ask_server(server, "/health"));
    return health.at("status") == "stopping";
  } catch (const Error&) {
    return false;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

void stop_servers(const StopFlags& flags, const Context& context) {
  const auto limit = read_wait(flags.timeout.value, flags.timeout.source);
  std::vector<server::ServerRecord> servers;
  if (flags.all) {
    if (!flags.servers.empty()) throw Error(ErrorCode::usage, "--all stops every server: do not name any");
    servers = server::running_servers();
  } else if (flags.servers.empty()) {
    servers.push_back(server::find_server(""));
  }
  for (const std::string& text : flags.servers) servers.push_back(server::find_server(text));
  for (const server::ServerRecord& server : servers) {
    if (!flags.kill && is_shutting_down(server)) {
      say(context, fmt::format("server {} is shutting down already: waiting for it", server.pid));
    } else {
      send(server, flags.kill ? SIGKILL : SIGTERM);
    }
  }
  nlohmann::ordered_json stopped = nlohmann::ordered_json::array();
  for (const server::ServerRecord& server : servers) {
    bool killed = flags.kill;
    if (!wait_for_end(server, limit)) {
      say(context, fmt::format("server {} has not stopped within {}: killing it", server.pid, flags.timeout.value));
      send(server, SIGKILL);
      killed = true;
      if (!wait_for_end(server, std::chrono::seconds(10))) {
        throw Error(ErrorCode::internal, fmt::format("server {} does not stop", server.pid));
      }
    }
    if (!context.wants_json()) print_data(fmt::format("{} {}", killed ? "killed" : "stopped", server.pid));
    stopped.push_back({{"pid", server.pid}, {"killed", killed}});
  }
  // What a killed one left behind goes with this.
  (void)server::running_servers();
  if (context.wants_json()) print_data(stopped.dump());
}

}  // namespace

void add_stop(CLI::App& program, Context& context) {
  auto flags = std::make_shared<StopFlags>();
  CLI::App* command =
      add_command(program, context, "stop", "Stop servers after they have answered the requests in flight");
  command->add_option("SERVER", flags->servers, "process id, port or model (default: the only server)");
  command->add_flag("--all", flags->all, "all servers of this user");
  command->add_flag("--kill", flags->kill, "immediately, without answering requests in flight");
  command->add_option("--timeout", flags->timeout.value, "kill a server that takes longer than this");
  command->callback([flags, &context] { stop_servers(*flags, context); });
}

}  // namespace gpux::cli

#include <memory>

#include <CLI/App.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "gpux/error.h"
#include "server/server_record.h"

namespace gpux::cli {
namespace {

using Json = nlohmann::ordered_json;

struct HealthFlags {
  std::string server;
  bool ready = false;
};

// "degraded" and a line for each problem, or "not ready".
std::string lines_of(const Json& health, bool asks_ready) {
  if (asks_ready) return health.at("ready").get<bool>() ? "ready" : "not ready";
  std::string lines = health.at("status").get<std::string>();
  if (!health.contains("problems")) return lines;
  for (const auto& [model, problem] : health.at("problems").items()) {
    lines += fmt::format("\n  {}: {}", model, problem.is_string() ? problem.get<std::string>() : problem.dump());
  }
  return lines;
}

void show_health(const HealthFlags& flags, Context& context) {
  const server::ServerRecord server = server::find_server(flags.server);
  const server::ControlAnswer answer = server::get_from_server(server, flags.ready ? "/health/ready" : "/health");
  if (answer.status != 200) context.exit_code = static_cast<int>(ErrorCode::provider_unavailable);
  try {
    const Json health = Json::parse(answer.body);
    print_data(context.wants_json() ? health.dump() : lines_of(health, flags.ready));
  } catch (const Json::exception&) {
    throw Error(ErrorCode::network, fmt::format("server {} answered: '{}'", server.pid, answer.line));
  }
}

}  // namespace

void add_health(CLI::App& program, Context& context) {
  auto flags = std::make_shared<HealthFlags>();
  CLI::App* command =
      add_command(program, context, "health", "Show whether a running server is healthy: exit code 0, otherwise 5");
  command->add_option("SERVER", flags->server, "process id, port or model (default: the only server)");
  command->add_flag("--ready", flags->ready, "whether every model answers, instead of whether any can be used");
  command->callback([flags, &context] { show_health(*flags, context); });
}

}  // namespace gpux::cli

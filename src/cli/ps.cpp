#include <CLI/App.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/spelling.h"
#include "cli/command.h"
#include "cli/table.h"
#include "server/server_record.h"

namespace gpux::cli {
namespace {

using Json = nlohmann::ordered_json;

void list_servers(const Context& context) {
  const std::vector<server::ServerRecord> servers = server::running_servers();
  if (context.wants_json()) {
    Json list = Json::array();
    for (const server::ServerRecord& server : servers) {
      list.push_back({{"pid", server.pid},
                      {"address", server.address},
                      {"port", server.port},
                      {"grpc_port", server.grpc_port == 0 ? Json() : Json(server.grpc_port)},
                      {"models", server.models},
                      {"started", server.started}});
    }
    print_data(list.dump());
    return;
  }
  Table table{{"PID", "ADDRESS", "GRPC", "MODELS", "STARTED"}, {}};
  for (const server::ServerRecord& server : servers) {
    table.rows.push_back({std::to_string(server.pid), server.address,
                          server.grpc_port == 0 ? "-" : std::to_string(server.grpc_port), join(server.models),
                          server.started});
  }
  print_data(table.text());
}

}  // namespace

void add_ps(CLI::App& program, Context& context) {
  CLI::App* command = add_command(program, context, "ps", "List the running servers of this user");
  command->callback([&context] { list_servers(context); });
}

}  // namespace gpux::cli

#include <map>

#include <CLI/App.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/memory_size.h"
#include "base/spelling.h"
#include "cli/command.h"
#include "cli/table.h"
#include "gpux/error.h"
#include "server/server_record.h"

namespace gpux::cli {
namespace {

using Json = nlohmann::ordered_json;

// What the server reports of the devices of its models, each once; empty where it has none, or does not answer.
std::vector<Json> devices_of(const server::ServerRecord& server) {
  std::map<std::string, Json> devices;
  try {
    const Json page = Json::parse(server::ask_server(server, "/metrics"), nullptr, false);
    if (page.is_discarded()) return {};
    for (const Json& model : page.at("models")) {
      for (const Json& replica : model.at("replicas")) {
        if (!replica.contains("device")) continue;
        Json device = replica.at("device");
        device["state"] = replica.at("state");
        if (replica.contains("free_memory_bytes")) device["free_memory_bytes"] = replica.at("free_memory_bytes");
        Json& known = devices[fmt::format("{} {}", device.at("index").dump(), device.at("name").dump())];
        // Of several models, one that lost it tells more.
        if (known.is_null() || device.at("state") != "in_service") known = std::move(device);
      }
    }
  } catch (const Error&) {
    return {};
  } catch (const Json::exception&) {
    return {};  // of another version
  }
  std::vector<Json> all;
  all.reserve(devices.size());
  for (auto& [name, device] : devices) all.push_back(std::move(device));
  return all;
}

// "2", "3 of 4", "3 of 4 (120 GB free)"
std::string summary_of(const std::vector<Json>& devices) {
  if (devices.empty()) return "-";
  std::size_t in_service = 0;
  std::uint64_t free_bytes = 0;
  bool is_known = true;
  for (const Json& device : devices) {
    if (device.at("state") == "in_service") ++in_service;
    is_known = is_known && device.contains("free_memory_bytes");
    if (is_known) free_bytes += device.at("free_memory_bytes").get<std::uint64_t>();
  }
  std::string text =
      in_service == devices.size() ? std::to_string(in_service) : fmt::format("{} of {}", in_service, devices.size());
  if (is_known) text += fmt::format(" ({} free)", format_bytes(free_bytes));
  return text;
}

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
                      {"devices", devices_of(server)},
                      {"started", server.started}});
    }
    print_data(list.dump());
    return;
  }
  Table table{{"PID", "ADDRESS", "GRPC", "MODELS", "DEVICES", "STARTED"}, {}};
  for (const server::ServerRecord& server : servers) {
    table.rows.push_back({std::to_string(server.pid), server.address,
                          server.grpc_port == 0 ? "-" : std::to_string(server.grpc_port), join(server.models),
                          summary_of(devices_of(server)), server.started});
  }
  print_data(table.text());
}

}  // namespace

void add_ps(CLI::App& program, Context& context) {
  CLI::App* command = add_command(program, context, "ps", "List the running servers of this user");
  command->callback([&context] { list_servers(context); });
}

}  // namespace gpux::cli

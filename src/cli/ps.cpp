#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <CLI/App.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/memory_size.h"
#include "base/spelling.h"
#include "base/start_thread.h"
#include "cli/command.h"
#include "cli/table.h"
#include "gpux/error.h"
#include "server/server_record.h"

namespace gpux::cli {
namespace {

using Json = nlohmann::ordered_json;

// Of a server that hangs. Its answer takes milliseconds.
constexpr std::chrono::milliseconds answer_limit{1000};

/// What a server reports of itself.
struct Answer {
  std::string problem;        ///< why there is none; empty: there is
  std::vector<Json> devices;  ///< of its models, each once
  std::size_t workers = 0, ready_workers = 0;
  Json limits = Json::object();  ///< by the names of models, of those that have some
};

std::vector<Json> devices_of(const Json& models) {
  std::map<std::string, Json> devices;
  for (const Json& model : models) {
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
  std::vector<Json> all;
  all.reserve(devices.size());
  for (auto& [name, device] : devices) all.push_back(std::move(device));
  return all;
}

Answer ask(const server::ServerRecord& server) {
  Answer answer;
  try {
    const Json page = Json::parse(server::ask_server(server, "/metrics", answer_limit));
    const Json& models = page.at("models");
    answer.devices = devices_of(models);
    for (const Json& model : models) {
      if (model.contains("limits")) answer.limits[model.at("name").get<std::string>()] = model.at("limits");
      for (const Json& worker : model.value("workers", Json::array())) {
        ++answer.workers;
        if (worker.at("state") == "ready") ++answer.ready_workers;
      }
    }
  } catch (const Error& error) {
    answer.problem = error.message();
  } catch (const Json::exception&) {
    answer.problem = fmt::format("server {} is of another version", server.pid);
  }
  return answer;
}

// All servers at once, as far as threads go: a few that hang cost one time limit.
std::vector<Answer> ask_all(const std::vector<server::ServerRecord>& servers) {
  constexpr std::size_t max_threads = 16;
  std::vector<Answer> answers(servers.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t index = next++; index < servers.size(); index = next++) answers[index] = ask(servers[index]);
  };
  std::vector<std::jthread> threads =
      start_more_threads(std::clamp(servers.size(), std::size_t{1}, max_threads) - 1, work);
  work();
  threads.clear();
  return answers;
}

// "2", "1 of 2"
std::string counted_of(std::size_t part, std::size_t all) {
  return part == all ? std::to_string(all) : fmt::format("{} of {}", part, all);
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
  std::string text = counted_of(in_service, devices.size());
  if (is_known) text += fmt::format(" ({} free)", format_bytes(free_bytes));
  return text;
}

// "digits: memory 2 GB, requests_per_minute 600"
std::string limits_of(const Json& limits) {
  std::vector<std::string> models;
  for (const auto& [model, given] : limits.items()) {
    std::vector<std::string> parts;
    for (const auto& [name, value] : given.items()) {
      const auto number = value.get<std::uint64_t>();
      parts.push_back(fmt::format("{} {}", name, name == "memory" ? format_bytes(number) : std::to_string(number)));
    }
    models.push_back(fmt::format("{}: {}", model, join(parts)));
  }
  return models.empty() ? "-" : fmt::format("{}", fmt::join(models, "; "));
}

void list_servers(const Context& context) {
  const std::vector<server::ServerRecord> servers = server::running_servers();
  const std::vector<Answer> answers = ask_all(servers);
  for (const Answer& answer : answers) {
    if (!answer.problem.empty()) say(context, answer.problem);
  }
  if (context.wants_json()) {
    Json list = Json::array();
    for (std::size_t i = 0; i < servers.size(); ++i) {
      const server::ServerRecord& server = servers[i];
      const Answer& answer = answers[i];
      list.push_back({{"pid", server.pid},
                      {"address", server.address},
                      {"port", server.port},
                      {"grpc_port", server.grpc_port == 0 ? Json() : Json(server.grpc_port)},
                      {"models", server.models},
                      {"answers", answer.problem.empty()},
                      {"devices", answer.devices},
                      {"workers", answer.workers},
                      {"ready_workers", answer.ready_workers},
                      {"limits", answer.limits},
                      {"started", server.started}});
    }
    print_data(list.dump());
    return;
  }
  Table table{{"PID", "ADDRESS", "GRPC", "MODELS", "DEVICES", "WORKERS", "STARTED"}, {}};
  const bool has_limits = std::ranges::any_of(answers, [](const Answer& answer) { return !answer.limits.empty(); });
  if (has_limits) table.head.emplace_back("LIMITS");
  for (std::size_t i = 0; i < servers.size(); ++i) {
    const server::ServerRecord& server = servers[i];
    const Answer& answer = answers[i];
    const bool answers_in_time = answer.problem.empty();
    const std::string workers = answer.workers == 0 ? "-" : counted_of(answer.ready_workers, answer.workers);
    table.rows.push_back({std::to_string(server.pid), server.address,
                          server.grpc_port == 0 ? "-" : std::to_string(server.grpc_port), join(server.models),
                          answers_in_time ? summary_of(answer.devices) : "?", answers_in_time ? workers : "?",
                          server.started});
    if (has_limits) table.rows.back().push_back(answers_in_time ? limits_of(answer.limits) : "?");
  }
  print_data(table.text());
}

}  // namespace

void add_ps(CLI::App& program, Context& context) {
  CLI::App* command = add_command(program, context, "ps", "List the running servers of this user");
  command->callback([&context] { list_servers(context); });
}

}  // namespace gpux::cli

#include <chrono>
#include <memory>
#include <thread>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/memory_size.h"
#include "cli/command.h"
#include "cli/table.h"
#include "gpux/error.h"
#include "server/server_record.h"

namespace gpux::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

struct StatsFlags {
  std::string server;
  bool watch = false;
  double interval_s = 1;
};

struct Sample {
  Clock::time_point taken;
  Json json;
};

Sample take_sample(const server::ServerRecord& server) {
  Json json = Json::parse(server::ask_server(server, "/metrics"), nullptr, false);
  if (json.is_discarded()) throw Error(ErrorCode::network, fmt::format("server {} sent no JSON", server.pid));
  return {Clock::now(), std::move(json)};
}

const Json* same_model(const Json& model, const Json* before) {
  if (before == nullptr) return nullptr;
  for (const Json& other : before->at("models")) {
    if (other.at("name") == model.at("name") && other.at("version") == model.at("version")) return &other;
  }
  return nullptr;
}

std::string table_of(const server::ServerRecord& server, const Sample& now, const Sample* before) {
  Table table{{"MODEL", "VERSION", "PROVIDER", "REQ/S", "ANSWERED", "FAILED", "WAITING", "RUNNING", "ROWS/RUN",
               "MEAN MS", "QUEUE MS"},
              {}};
  for (const Json& model : now.json.at("models")) {
    const Json& requests = model.at("requests");
    std::uint64_t failed = 0;
    for (const auto& [kind, count] : requests.items()) {
      if (kind != "succeeded") failed += count.get<std::uint64_t>();
    }
    std::string rate = "-";
    if (const Json* old = same_model(model, before == nullptr ? nullptr : &before->json)) {
      const double seconds = std::chrono::duration<double>(now.taken - before->taken).count();
      const double more = requests.at("succeeded").get<double>() - old->at("requests").at("succeeded").get<double>();
      rate = fmt::format("{:.1f}", std::max(0.0, more) / seconds);
    }
    const auto runs = model.at("runs").get<double>();
    const Json& means = model.at("mean_ms");
    table.rows.push_back({model.at("name"), model.at("version"),
                          model.at("provider").is_null() ? "-" : model.at("provider").at("id").get<std::string>(), rate,
                          std::to_string(requests.at("succeeded").get<std::uint64_t>()), std::to_string(failed),
                          std::to_string(model.at("waiting").get<std::uint64_t>()),
                          std::to_string(model.at("running").get<std::uint64_t>()),
                          runs == 0 ? "-" : fmt::format("{:.1f}", model.at("rows").get<double>() / runs),
                          fmt::format("{:.3f}", means.at("total").get<double>()),
                          fmt::format("{:.3f}", means.at("queue").get<double>())});
  }
  return fmt::format("{}  {}  {}, {} resident\n\n{}", server.pid, server.address,
                     counted(now.json.at("http").at("connections").get<std::uint64_t>(), "connection"),
                     format_bytes(now.json.at("resident_bytes").get<std::uint64_t>()), table.text());
}

void show_statistics(const StatsFlags& flags, const Context& context) {
  const server::ServerRecord server = server::find_server(flags.server);
  Sample now = take_sample(server);
  if (context.wants_json() && !flags.watch) {
    print_data(now.json.dump());
    return;
  }
  if (!context.wants_json()) print_data(table_of(server, now, nullptr));
  while (flags.watch) {
    std::this_thread::sleep_for(std::chrono::duration<double>(flags.interval_s));
    if (!server::is_running(server)) {
      say(context, fmt::format("server {} has ended", server.pid));
      return;
    }
    const Sample before = std::move(now);
    now = take_sample(server);
    // One JSON object per line for programs, or a screen that is redrawn.
    if (context.wants_json()) {
      print_data(now.json.dump());
    } else {
      clear_terminal();
      print_data(table_of(server, now, &before));
    }
  }
}

}  // namespace

void add_stats(CLI::App& program, Context& context) {
  auto flags = std::make_shared<StatsFlags>();
  CLI::App* command = add_command(program, context, "stats", "Show the counters of a running server's models");
  command->alias("top");
  command->add_option("SERVER", flags->server, "process id, port or model (default: the only server)");
  command->add_flag("--watch", flags->watch, "repeat, with requests/s");
  command->add_option("--interval", flags->interval_s, "seconds between repetitions")->check(CLI::Range(0.1, 3600.0));
  command->callback([flags, &context] { show_statistics(*flags, context); });
}

}  // namespace gpux::cli

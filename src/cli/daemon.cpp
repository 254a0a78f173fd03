#include "daemon/daemon.h"

#include <chrono>
#include <csignal>
#include <memory>
#include <optional>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>
#include <sys/stat.h>

#include "base/counted.h"
#include "base/home.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/spelling.h"
#include "cli/command.h"
#include "cli/encoder_flags.h"
#include "cli/flag_names.h"
#include "cli/signals.h"
#include "cli/systemd.h"
#include "daemon/event_features.h"
#include "gpux/error.h"
#include "gpux/verdict.h"
#include "library/collection_facts.h"
#include "model/level_choice.h"
#include "server/http/server.h"

namespace gpux::cli {
namespace {

using namespace std::chrono_literals;

struct DaemonFlags {
  EncoderFlags encoder;
  std::string state_file;
  std::optional<std::uint16_t> metrics_port;
  unsigned workers = 0;
  std::string sink;      ///< --sink
  std::string features;  ///< --features
};

bool is_set(std::initializer_list<const char*> variables) {
  for (const char* variable : variables) {
    if (!environment_variable(variable).empty()) return true;
  }
  return false;
}

// Flags and variables come before the state file, and that before the defaults: cpu, and no level.
EncoderFlags with_state_file(EncoderFlags flags, const daemon::StateFile& state, std::string& said_by) {
  const std::string file = state.file.filename();
  if (flags.model.empty() && flags.level.empty()) {
    if (is_set({"GPUX_VECTOR_LEVEL"})) {
      said_by = "GPUX_VECTOR_LEVEL";
    } else if (is_set({"OP_DBUS_VECTOR_LEVEL"})) {
      said_by = "OP_DBUS_VECTOR_LEVEL";
    } else {
      flags.model = state.model;
      if (flags.model.empty()) flags.level = state.level.empty() ? "none" : state.level;
      said_by = state.model.empty() && state.level.empty() ? "default" : file;
    }
  } else {
    said_by = flags.model.empty() ? "--level" : "--model";
  }
  if (flags.model_dir.empty() && !is_set({"GPUX_MODEL_DIR", "OP_DBUS_MODEL_DIR"})) flags.model_dir = state.model_dir;
  const Source of_file{.kind = Source::Kind::file, .name = file, .place = {}};
  if (!flags.load.provider && !is_set({"GPUX_PROVIDER", "OP_DBUS_EXECUTION_PROVIDER"})) {
    const Source by_default{.kind = Source::Kind::by_default, .name = "default", .place = {}};
    flags.load.provider = state.provider.empty() ? Setting<std::string>{"cpu", by_default}
                                                 : Setting<std::string>{state.provider, of_file};
  }
  if (!flags.load.device && !is_set({"GPUX_DEVICE", "OP_DBUS_GPU_DEVICE"})) {
    flags.load.device = setting(state.device, of_file);
  }
  return flags;
}

// What stands for a model where features of events are made.
std::shared_ptr<const daemon::OpenModel> feature_maker() {
  auto model = std::make_shared<daemon::OpenModel>();
  model->features = daemon::features_of;
  model->name = daemon::features_model;
  model->digest = daemon::features_digest();
  model->level = daemon::features_level;
  model->provider = "none";
  model->facts = daemon::features_facts();
  model->verdict = "heuristic features of events, without a model";
  model->workers = usable_processors(Machine::this_one());
  return model;
}

std::shared_ptr<const daemon::OpenModel> open_model_of(const DaemonFlags& given, const daemon::StateFile& state,
                                                       const std::string& level, const Context& context) {
  std::string said_by;
  EncoderFlags flags = with_state_file(given.encoder, state, said_by);
  if (!level.empty()) {
    flags.model.clear();
    flags.level = level;
  } else if (asks_for_nothing(flags) && wants_features(given.features, state.features == "heuristic")) {
    say(context, fmt::format("level none ({}) with heuristic features: {} numbers are counted from each event", said_by,
                             daemon::features_dimension));
    return feature_maker();
  } else if (given.features == "heuristic") {
    throw Error(ErrorCode::usage, fmt::format("--features heuristic is for the level none, and {} says another level "
                                              "or a model",
                                              said_by));
  } else if (asks_for_nothing(flags)) {
    say(context, fmt::format("level none ({}): nothing is watched, and nothing will be written; 'level' or 'model' in "
                             "'{}', --level, --model or OP_DBUS_VECTOR_LEVEL says otherwise",
                             said_by, state.file.string()));
    return nullptr;
  }
  OpenEncoder encoder = open_encoder(flags, context);
  auto model = std::make_shared<daemon::OpenModel>();
  const Verdict verdict = encoder.embedder->runtime().verdict();
  model->name = encoder.embedder->encoder().model().name;
  model->digest = encoder.digest;
  model->level = encoder.level;
  model->provider = join(verdict.active);
  model->verdict = line_of(verdict);
  model->workers = encoder.workers;
  model->facts = facts_of(encoder, encoder.options);
  model->embed = [embedder = std::shared_ptr(std::move(encoder.embedder)),
                  options = encoder.options](const std::string& text) { return embedder->embed(text, options); };
  if (level.empty()) {
    say(context, model->level.empty() ? fmt::format("model {} ({})", model->name, said_by)
                                      : fmt::format("level {} ({}): {}", model->level, said_by, model->name));
  }
  return model;
}

/// Whether a file is another than when it was last asked, and has settled.
class FileWatch {
 public:
  explicit FileWatch(std::string file) : file_(std::move(file)), seen_(now()), used_(seen_) {}

  bool has_changed() {
    const Stamp stamp = now();
    const bool settled = stamp == seen_;
    seen_ = stamp;
    // In between two ways of replacing it there may be none.
    if (!settled || stamp == used_ || stamp.inode == 0) return false;
    used_ = stamp;
    return true;
  }

 private:
  struct Stamp {
    std::uint64_t inode = 0;
    std::int64_t size = 0, seconds = 0, nanoseconds = 0;

    bool operator==(const Stamp&) const = default;
  };

  [[nodiscard]] Stamp now() const {
    struct stat status {};

    if (::stat(file_.c_str(), &status) != 0) return {};
    return {status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
  }

  std::string file_;
  Stamp seen_, used_;
};

void reload(daemon::Daemon& daemon, const std::string& file) {
  notify_systemd("RELOADING=1");
  try {
    daemon.apply(daemon::read_state_file(file));
    log::info("'{}' was read again", file);
  } catch (const Error& error) {
    daemon.set_state_file_problem(message_of(error));
    log::error("the state file is not taken, and what it said before goes on: {}", message_of(error));
  }
  notify_systemd("READY=1");
}

std::unique_ptr<http::Server> serve_metrics(std::uint16_t port, const daemon::Daemon& daemon, const Context& context) {
  http::ServerOptions options;
  options.port = port;
  options.threads = 1;
  auto server = std::make_unique<http::Server>(options, [&daemon](const std::shared_ptr<http::Exchange>& exchange) {
    const std::string& path = exchange->request().path;
    if (exchange->request().method != "GET") return exchange->respond(http::Response::error(405, "GET is accepted"));
    if (path == "/metrics") {
      http::Response response;
      response.headers.add("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
      response.text = prometheus_text(daemon.status());
      return exchange->respond(std::move(response));
    }
    if (path == "/status") return exchange->respond(http::Response::json(200, to_json(daemon.status())));
    if (path == "/health") {
      daemon::HealthAnswer health = health_of(daemon.status());
      return exchange->respond(http::Response::json(health.http_status, std::move(health.json)));
    }
    exchange->respond(http::Response::error(404, "/metrics, /status and /health exist"));
  });
  server->start();
  say(context, fmt::format("GET http://127.0.0.1:{0}/metrics /status /health", server->port()));
  return server;
}

void run_daemon(const DaemonFlags& flags, const Context& context) {
  if (context.table) throw Error(ErrorCode::usage, "--table: daemon prints nothing");
  if (!context.quiet && environment_variable("GPUX_LOG_LEVEL").empty()) log::lower_to(log::Level::info);
  const daemon::ModelSource open = [&](const daemon::StateFile& state, const std::string& level) {
    return open_model_of(flags, state, level, context);
  };
  // From the start, so that who ends it while it loads sees it end as a daemon does.
  const Signals signals({SIGHUP});
  FileWatch watch(flags.state_file);
  std::optional<vector_store::StoreUrl> sink;
  if (!flags.sink.empty()) sink = vector_store::parse_store_url(flags.sink);
  daemon::Daemon daemon(open, flags.workers, std::move(sink));
  daemon.apply(daemon::read_state_file(flags.state_file));
  std::unique_ptr<http::Server> metrics;
  if (flags.metrics_port) metrics = serve_metrics(*flags.metrics_port, daemon, context);
  if (context.json)
    print_data(fmt::format(R"({{"metrics_port": {}}})", metrics ? std::to_string(metrics->port()) : "null"));
  notify_systemd("READY=1");
  for (;;) {
    const int signal = signals.wait(500ms);
    if (signal == SIGINT || signal == SIGTERM) break;
    const bool changed = watch.has_changed();
    if (changed || signal == SIGHUP) reload(daemon, flags.state_file);
    daemon.tick();
  }
  notify_systemd("STOPPING=1");
  metrics.reset();
  daemon.stop();
  const daemon::DaemonStatus ended = daemon.status();
  say(context, fmt::format("ended: {} written, {} set aside or refused", counted(ended.written, "vector"),
                           counted(ended.refused, "event")));
}

}  // namespace

void add_daemon(CLI::App& program, Context& context) {
  auto flags = std::make_shared<DaemonFlags>();
  CLI::App* command = add_command(program, context, "daemon",
                                  "Watch files, sockets or D-Bus, and write an embedding vector for each event");
  command->get_option("--table")->group("");
  command
      ->add_option("--state-file", flags->state_file,
                   "the sources and the output of the daemon: 'gpux schema --daemon'")
      ->required();
  command->add_option("--sink", flags->sink,
                      "put the vectors into a collection instead of files: postgres://…, qdrant://…, file:PATH, as "
                      "'gpux embed --to'");
  command
      ->add_option("--features", flags->features,
                   "heuristic: with the level none, 64 numbers that are counted from each event without a model (also "
                   "GPUX_FEATURES)")
      ->check(CLI::IsMember({"none", "heuristic"}));
  add_encoder_flags(*command, flags->encoder, WorkerUse::restarted);
  command->add_option("--workers", flags->workers, "events embedded in parallel (default: processors of this process)")
      ->check(CLI::Range(1U, 1024U));
  command->add_option(
      "--metrics-port", flags->metrics_port,
      "serve /metrics, /status and /health on this port of 127.0.0.1; 0 picks a free port and prints it");
  command->footer(
      "Example:\n"
      "  gpux daemon --state-file state.json --level low --metrics-port 9464");
  command->callback([flags, &context] { run_daemon(*flags, context); });
}

}  // namespace gpux::cli

#include <algorithm>
#include <atomic>
#include <csignal>
#include <future>
#include <thread>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <unistd.h>

#include "base/counted.h"
#include "base/home.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/memory_size.h"
#include "base/recent_log.h"
#include "base/spelling.h"
#include "base/unique_fd.h"
#include "cli/background.h"
#include "cli/child.h"
#include "cli/command.h"
#include "cli/flag_names.h"
#include "cli/load_flags.h"
#include "cli/pull_flag.h"
#include "cli/serve_flags.h"
#include "cli/serve_options.h"
#include "cli/signals.h"
#include "cli/systemd.h"
#include "generation/cache_budget.h"
#include "gpux/error.h"
#include "project/models_file.h"
#include "runtime/scheduling/runs_in_flight.h"
#include "server/grpc/server.h"
#include "server/http/server.h"
#include "server/models/served_models.h"
#include "server/requests/access.h"
#include "server/server_record.h"
#include "server/service.h"
#include "server/store_changes/store_changes.h"
#include "server/telemetry/exporters.h"
#include "server/telemetry/telemetry_settings.h"
#include "server/telemetry/tracer.h"
#include "settings/read_setting.h"
#include "tensor/json_writer.h"

namespace gpux::cli {
namespace {

using Clock = std::chrono::steady_clock;

std::string host_and_port(const std::string& host, std::uint16_t port) {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", is_ipv6 ? "[" : "", host, is_ipv6 ? "]" : "", port);
}

std::string address_of(const ServeFlags& flags, const server::ListenAddress& listen) {
  return fmt::format("{}://{}", flags.tls_certificate.empty() ? "http" : "https",
                     host_and_port(listen.host, listen.port));
}

// Messages also go to the log that `gpux logs` shows.
void list_route(const Context& context, const std::string& line) {
  say(context, line);
  log::note(line);
}

// And to that of the console.
void tell(const Context& context, const std::string& line) {
  list_route(context, line);
  log::add_recent(log::Level::info, line);
}

// Null where it is off: by --no-grpc, or because its port is taken and nobody asked for that very port.
std::unique_ptr<server::GrpcServer> open_grpc(const Context& context, const ServeFlags& flags,
                                              const server::ListenAddress& listen,
                                              const server::ServiceOptions& service,
                                              server::ModelRepository& repository) {
  if (flags.no_grpc) return nullptr;
  try {
    return std::make_unique<server::GrpcServer>(repository, grpc_options_of(flags, listen, service));
  } catch (const Error& error) {
    if (flags.grpc_port || error.code() != ErrorCode::network) throw error.within("--grpc-port");
    tell(context, fmt::format("without gRPC: {}; --grpc-port gives another, --no-grpc none", message_of(error)));
    return nullptr;
  }
}

// MODEL or NAME=MODEL, pulled where it is a full reference.
std::string pulled_argument(const std::string& argument, const ServeFlags& flags, const Context& context) {
  if (is_full_reference(argument)) return pull_argument(argument, flags.pull, context);
  const std::size_t equals = argument.find('=');
  if (equals == std::string::npos || !is_full_reference(argument.substr(equals + 1))) return argument;
  return argument.substr(0, equals + 1) + pull_argument(argument.substr(equals + 1), flags.pull, context);
}

// The full references among the entries of --models.
void pull_listed_models(ServeFlags& flags, const Context& context) {
  if (flags.models_file.empty()) return;
  for (const ListedModel& listed : read_models_file(flags.models_file).models) {
    if (!is_full_reference(listed.model)) continue;
    flags.pulled_models[listed.model] = pull_argument(listed.model, flags.pull, context);
  }
}

// Another model would have other tokens.
void require_one_for_draft(const ServeFlags& flags) {
  const bool is_one =
      flags.models.size() == 1 && flags.models_file.empty() && flags.repository.empty() && !flags.serves_store;
  if (flags.draft.empty() || is_one) return;
  throw Error(ErrorCode::usage,
              "--draft is about one model; accepted: with one MODEL, and without --models, "
              "--repository and --store");
}

void announce(const Context& context, const ServeFlags& flags, const server::ListenAddress& listen,
              std::optional<std::uint16_t> grpc_port, const std::vector<std::shared_ptr<server::ServedModel>>& models,
              const std::vector<std::string>& warnings, bool is_on_record, bool has_console) {
  const std::string address = address_of(flags, listen);
  for (const auto& model : models) {
    tell(context, fmt::format("{} {}: {}", model->name(), model->version(), line_of(model->verdict())));
    if (const RunSharing& sharing = model->options().sharing; sharing.source != RunSharing::Source::single_run) {
      tell(context, fmt::format("  {}", to_line(sharing)));
    }
    if (!model->workers().choice.empty()) tell(context, fmt::format("  {}", model->workers().choice));
  }
  tell(context, fmt::format("listening on {}{}", address,
                            flags.unix_path.empty() ? "" : fmt::format(" and unix:{}", flags.unix_path)));
  if (models.size() == 1 || !server::default_model(flags).empty())
    list_route(context, fmt::format("  POST {}/predict", address));
  for (const auto& model : models) {
    list_route(context, fmt::format("  POST {}/v2/models/{}/infer", address, model->name()));
  }
  if (std::any_of(models.begin(), models.end(), [](const auto& model) { return model->encoder() != nullptr; })) {
    list_route(context, fmt::format("  POST {}/v1/embeddings /embed /similarity /tokenize /decode", address));
  }
  if (std::any_of(models.begin(), models.end(), [](const auto& model) { return model->engine() != nullptr; })) {
    list_route(context,
               fmt::format("  POST {}/v1/chat/completions /v1/responses /v1/messages /v1/completions /api/chat "
                           "/api/generate",
                           address));
  }
  list_route(context, fmt::format("  GET  {}/docs /health /info /metrics /v2", address));
  if (has_console) list_route(context, fmt::format("  console {}/console", address));
  if (grpc_port) {
    list_route(context,
               fmt::format("  gRPC {} (Open Inference Protocol, health, reflection{})",
                           host_and_port(listen.host, *grpc_port), flags.tls_certificate.empty() ? "" : ", TLS"));
  }
  if (!context.json) return;
  std::string text = R"({"address": )";
  append_json_string(text, address);
  text += fmt::format(R"(, "port": {}, "grpc_port": {}, "pid": {}, "models": [)", listen.port,
                      grpc_port ? std::to_string(*grpc_port) : "null", ::getpid());
  for (std::size_t i = 0; i < models.size(); ++i) {
    text += i == 0 ? R"({"name": )" : R"(, {"name": )";
    append_json_string(text, models[i]->name());
    text += R"(, "version": )";
    append_json_string(text, models[i]->version());
    text += fmt::format(R"(, "verdict": {}}})", json_text_of(models[i]->verdict()));
  }
  text += R"(], "warnings": [)";
  for (std::size_t i = 0; i < warnings.size(); ++i) {
    if (i != 0) text += ", ";
    append_json_string(text, warnings[i]);
  }
  print_data(text + fmt::format(R"(], "on_record": {}}})", is_on_record));
}

// Tells people of what the server does without; --detach passes it on.
void warn(const Context& context, std::vector<std::string>& warnings, std::string line) {
  tell(context, line);
  warnings.push_back(std::move(line));
}

// A socket for `gpux stats`, whose folder is the user's alone, so no key is asked for. Null where the home cannot be
// written: that costs the commands for running servers, not the server.
std::unique_ptr<http::Server> open_control(const Context& context, server::Service& service,
                                           std::vector<std::string>& warnings) {
  try {
    http::ServerOptions options;
    options.port = std::nullopt;
    options.unix_path = server::own_control_socket();
    options.threads = 1;
    if (options.unix_path.empty()) return nullptr;
    auto control = std::make_unique<http::Server>(
        options, [&](const std::shared_ptr<http::Exchange>& exchange) { service.handle(exchange); });
    control->start();
    return control;
  } catch (const Error& error) {
    warn(context, warnings, fmt::format("'gpux stats' cannot ask this server: {}", message_of(error)));
    return nullptr;
  }
}

// For `gpux ps` and `gpux stop`; null as above.
std::unique_ptr<server::OwnRecord> put_on_record(const Context& context, server::ServerRecord record,
                                                 std::vector<std::string>& warnings) {
  try {
    record.log = server::own_log_file();
    return std::make_unique<server::OwnRecord>(std::move(record));
  } catch (const Error& error) {
    warn(context, warnings, fmt::format("'gpux ps' will not know of this server: {}", message_of(error)));
    return nullptr;
  }
}

// The log has each failure already, and the names of required models end the start.
void report_unserved(const Context& context, const server::ModelRepository& repository,
                     std::vector<std::string>& warnings) {
  for (const server::ModelStatus& status : repository.index()) {
    if (server::is_serving(status.state) || !status.has_failed) continue;
    warnings.push_back(fmt::format("{} {} is not served: {}", status.name, status.version, status.reason));
  }
  if (repository.models().empty()) warn(context, warnings, "no model is served");
}

void start_log(const Context& context, std::vector<std::string>& warnings) {
  try {
    log::copy_to(server::own_log_file());
  } catch (const Error& error) {
    warn(context, warnings, fmt::format("'gpux logs' will show nothing of this server: {}", message_of(error)));
  }
}

// A connection is a file: as many as the system allows this user.
void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// What serves, in the order in which it depends on each other.
struct Serving {
  server::OwnFiles files;
  std::shared_ptr<server::SpanExporter> spans;  // null: requests are not traced
  std::unique_ptr<server::ModelRepository> repository;
  std::unique_ptr<server::Service> service;
  std::unique_ptr<http::Server> http;
  std::unique_ptr<server::GrpcServer> grpc;         // null: HTTP alone
  std::unique_ptr<http::Server> control;            // null: none
  std::unique_ptr<server::MetricExporter> metrics;  // null: they are not sent
  std::unique_ptr<server::OwnRecord> record;        // null: none; until the process ends `gpux stop` finds it

  // At once, whatever hangs.
  [[noreturn]] void quit(int exit_code) {
    record.reset();
    server::OwnFiles::remove();
    ::_exit(exit_code);
  }
};

constexpr int interrupted = static_cast<int>(ErrorCode::interrupted);

/// How far the end of a server has come, for the thread that keeps its limit.
struct EndProgress {
  enum class State : std::uint8_t { goes_on, done, left_behind };

  std::atomic<State> state = State::goes_on;
  std::atomic<Clock::time_point> limit;  ///< the process ends by then
};

// What destructors may take once the models are closed.
constexpr auto clean_up_time = std::chrono::seconds(1);

// Everything here may wait for devices and clients, so it has a thread of its own. False where a load or a run does not
// come back.
bool end_serving(Serving& serving, const Context& context, Clock::time_point drain_deadline, EndProgress& progress) {
  const auto grpc_drained = std::make_shared<std::promise<void>>();
  const std::future<void> grpc_end = grpc_drained->get_future();
  std::thread other([grpc = serving.grpc.get(), drain_deadline, grpc_drained] {
    if (grpc != nullptr) (void)grpc->drain(drain_deadline);
    grpc_drained->set_value();
  });
  (void)serving.http->drain(drain_deadline);
  // gRPC waits for its handlers, of which one may hang: that is not to keep HTTP's clients from their answers.
  (void)grpc_end.wait_until(drain_deadline + clean_up_time / 2);
  serving.service->stop_work();
  const http::Counters ended = serving.http->counters();
  tell(context, fmt::format("answered {} of {}", ended.answered, counted(ended.handled, "request")));
  // Their clients get an answer.
  const Clock::time_point now = Clock::now();
  const auto close_deadline = std::clamp<Clock::time_point>(
      drain_deadline + std::chrono::seconds(1), now + std::chrono::milliseconds(500), now + std::chrono::seconds(5));
  progress.limit = close_deadline + clean_up_time;
  const bool is_closed = serving.repository->close(close_deadline);
  // A device that hangs took all of that time.
  (void)serving.http->drain(close_deadline + clean_up_time / 2);
  if (grpc_end.wait_until(close_deadline) != std::future_status::ready) {
    other.detach();
    return false;
  }
  other.join();
  if (!is_closed) return false;
  serving.control.reset();
  serving.grpc.reset();
  serving.http.reset();
  serving.service.reset();
  serving.repository.reset();
  return true;
}

// Whether a signal says so within the time. One to read the keys again does not.
bool ends_now(const Signals& signals, std::chrono::milliseconds limit) {
  const Clock::time_point end = Clock::now() + limit;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    const int signal = signals.wait(std::max(left, std::chrono::milliseconds(0)));
    if (signal != SIGHUP) return signal != 0;
  }
}

// Answers what is in flight, and ends within the drain limit and the seconds that closing the models may take, whatever
// loads, readers and devices do. A second signal ends at once.
void shut_down(Serving& serving, const Context& context, const Signals& signals, std::chrono::milliseconds drain_delay,
               std::chrono::milliseconds drain_timeout) {
  notify_systemd("STOPPING=1");
  serving.service->set_ready(false);
  serving.http->close_after_answers();
  if (serving.grpc) serving.grpc->set_ready(false);
  tell(context, "shutting down: a second signal exits immediately");
  if (ends_now(signals, drain_delay)) serving.quit(interrupted);

  const Clock::time_point drain_deadline = Clock::now() + drain_timeout;
  EndProgress progress;
  progress.limit = drain_deadline + clean_up_time;
  std::thread ending([&] {
    using State = EndProgress::State;
    try {
      progress.state = end_serving(serving, context, drain_deadline, progress) ? State::done : State::left_behind;
    } catch (const std::exception& error) {
      log::error("the server could not be ended: {}", error.what());
      progress.state = State::left_behind;
    }
  });
  while (progress.state == EndProgress::State::goes_on && Clock::now() < progress.limit.load()) {
    if (ends_now(signals, std::chrono::milliseconds(20))) serving.quit(interrupted);
  }
  if (progress.state == EndProgress::State::done) {
    ending.join();
    serving.record.reset();
    return;
  }
  tell(context, progress.state == EndProgress::State::left_behind
                    ? "a device does not respond: shutting down without it"
                    : "requests do not finish within the limit: shutting down without them");
  serving.quit(0);
}

// With all its models loaded.
std::unique_ptr<server::ModelRepository> open_repository(const ServeFlags& flags,
                                                         const server::ServiceOptions& service) {
  server::RepositoryOptions options;
  options.budget = {.memory_bytes = flags.memory_budget_bytes, .device_memory_bytes = flags.device_memory_budget_bytes};
  generation::CacheBudget::of_process()->set_memory(options.budget.memory_bytes);
  options.load_timeout = flags.load_timeout;
  options.loads_by_name = flags.serves_store;
  options.tracer = service.tracer;
  options.idle_unload = flags.idle_unload.value_or(std::chrono::milliseconds(0));
  const auto models = std::make_shared<server::ServedModels>(flags);
  options.configure = [models](const std::string& name, const std::optional<std::string>& json) {
    return models->configure(name, json);
  };
  auto repository = std::make_unique<server::ModelRepository>([models] { return models->look(); }, options);
  repository->load_all();
  const std::vector<std::string> names = repository->names();
  const std::string& default_name = service.default_model;
  if (!default_name.empty() && std::ranges::find(names, repository->name_of(default_name)) == names.end()) {
    throw Error(ErrorCode::usage, fmt::format("--default {}: no such model is served", default_name));
  }
  return repository;
}

// Without a model, those of the store are served. Requests decide which are loaded, and must not decide over the
// memory.
ServeFlags completed(ServeFlags flags) {
  constexpr std::uint64_t quarters_for_models = 3;
  if (!flags.models.empty() || !flags.repository.empty() || !flags.models_file.empty()) {
    for (const auto& [flag, is_given] : {std::pair("--allow-pull", flags.pulls_on_demand),
                                         std::pair("--private-registry", !flags.private_registries.empty())}) {
      if (is_given) {
        throw Error(ErrorCode::usage,
                    fmt::format("{} is for gpux serve without a MODEL, which serves the store", flag));
      }
    }
    return flags;
  }
  for (const std::string& host : flags.private_registries) server::require_registry_host(host);
  flags.serves_store = true;
  if (!flags.idle_unload) flags.idle_unload = std::chrono::minutes(5);
  if (flags.memory_budget_bytes == 0) {
    flags.memory_budget_bytes = usable_memory_bytes(Machine::this_one()) / 4 * quarters_for_models;
  }
  return flags;
}

std::shared_ptr<server::SpanExporter> trace_requests(const server::TelemetrySettings& telemetry,
                                                     server::ServiceOptions& options) {
  auto exporter = std::make_shared<server::SpanExporter>(telemetry);
  options.tracer = std::make_shared<const server::Tracer>(
      telemetry.sampler, telemetry.reads_parent,
      [exporter](std::vector<server::Span>&& spans) { exporter->add(std::move(spans)); });
  options.span_counts = [exporter] { return exporter->counts(); };
  return exporter;
}

void tell_of_store(const Context& context, const server::ModelRepository& repository,
                   std::vector<std::string>& warnings) {
  const std::size_t count = repository.on_demand().size();
  if (count == 0) {
    warn(context, warnings, "the store holds no model yet: 'gpux pull' and 'gpux import' put some there");
    return;
  }
  tell(context, fmt::format("{} of the store, each loaded when a request names it", counted(count, "model")));
}

void require_key_for_pulls(const ServeFlags& flags, const server::ServiceOptions& service,
                           const server::ListenAddress& listen) {
  if (!flags.pulls_on_demand || service.access->rules()->keys.are_required() ||
      service.browser_access.listens_on_loopback())
    return;
  throw Error(ErrorCode::usage,
              fmt::format("--allow-pull: other machines reach {}, and could fill the disk without an API key; "
                          "--api-key-file sets keys",
                          listen.host));
}

bool has_terminal() {
  return UniqueFd(::open("/dev/tty", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC)).get() >= 0;
}

// SIGHUP asks for new keys, or says that the terminal has gone. After nohup it does not come.
Signals catch_signals() {
  struct sigaction hangup {};

  ::sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler == SIG_IGN) return Signals();
  return Signals({SIGHUP});
}

// The last lines of the log that the console shows.
constexpr std::size_t console_log_lines = 200;

void serve(const ServeFlags& given, Context& context) {
  const ServeFlags flags = completed(given);
  if (context.table) throw Error(ErrorCode::usage, "--table: serve tells people on standard error anyway");
  server::ServiceOptions service_options = service_options_of(flags);
  Serving serving;
  std::vector<std::string> warnings;
  start_log(context, warnings);
  if (flags.console.value_or(true)) log::keep_recent(console_log_lines);
  const server::TelemetrySettings telemetry = server::read_telemetry_settings(
      [](const std::string& name) { return environment_variable(name.c_str()); }, "gpux");
  if (telemetry.traces) serving.spans = trace_requests(telemetry, service_options);
  serving.repository = open_repository(flags, service_options);
  if (std::string line = server::check_worker_flags(flags, *serving.repository); !line.empty()) {
    warn(context, warnings, std::move(line));
  }
  server::ListenAddress listen = server::listen_address(flags, *serving.repository);
  service_options.browser_access =
      browser_access_of(flags, listen.host, service_options.access->rules()->keys.are_required());
  service_options.has_console = flags.console.value_or(service_options.browser_access.listens_on_loopback());
  service_options.console_is_for_this_machine = !flags.console.has_value();
  if (!service_options.has_console) log::keep_recent(0);
  require_key_for_pulls(flags, service_options, listen);

  raise_file_limit();
  const Signals signals = catch_signals();
  if (!context.quiet && environment_variable("GPUX_LOG_LEVEL").empty()) log::lower_to(log::Level::info);
  if (flags.serves_store) {
    tell_of_store(context, *serving.repository, warnings);
  } else {
    report_unserved(context, *serving.repository, warnings);
  }
  serving.service = std::make_unique<server::Service>(*serving.repository, service_options);
  server::Service& service = *serving.service;
  serving.http = std::make_unique<http::Server>(
      http_options_of(flags, listen, service_options),
      [&service](const std::shared_ptr<http::Exchange>& exchange) { service.handle(exchange); },
      [&service](const http::Request& request) { return service.admit(request); });
  service.set_counters([&http = *serving.http] { return http.counters(); });
  serving.grpc = open_grpc(context, flags, listen, service_options, *serving.repository);
  if (serving.grpc) service.set_grpc_counts(serving.grpc->counts());
  if (telemetry.metrics) {
    serving.metrics =
        std::make_unique<server::MetricExporter>(telemetry, [&service] { return service.metrics_page(); });
  }
  const auto grpc_port = serving.grpc ? std::optional(serving.grpc->port()) : std::nullopt;
  serving.http->start();
  listen.port = serving.http->port();
  server::ServerRecord record;
  record.address = address_of(flags, listen);
  record.port = listen.port;
  record.grpc_port = grpc_port.value_or(0);
  record.models = serving.repository->names();
  serving.control = open_control(context, service, warnings);
  if (serving.control) record.control = server::own_control_socket();
  serving.record = put_on_record(context, std::move(record), warnings);
  announce(context, flags, listen, grpc_port, serving.repository->models(), warnings, serving.record != nullptr,
           service_options.has_console);
  notify_systemd("READY=1");
  if (flags.in_background) leave_foreground();

  const bool had_terminal = has_terminal();
  for (;;) {
    const int signal = signals.wait(flags.watch.count() == 0 ? std::chrono::milliseconds(-1) : flags.watch);
    if (signal == 0) {
      serving.repository->refresh(nullptr);
    } else if (signal == SIGHUP && (!had_terminal || has_terminal())) {
      service_options.access->reload();
      service_options.audit->reopen();
    } else {
      break;
    }
  }
  shut_down(serving, context, signals, flags.drain_delay, flags.drain_timeout);
}

void serve_in_background(const CLI::App& command, const Context& context) {
  std::vector<std::string> arguments = typed_arguments(command, {"detach", "json"});
  arguments.insert(arguments.begin(), {"serve", "--json", "--in-background"});
  const std::string ready = start_in_background(std::move(arguments));
  if (context.json) {
    print_data(ready);
    return;
  }
  const auto json = nlohmann::json::parse(ready);
  for (const auto& warning : json.at("warnings")) say(context, "warning: " + warning.get<std::string>());
  const int pid = json.at("pid").get<int>();
  const std::string hint = json.at("on_record").get<bool>() ? "'gpux logs' shows its log, 'gpux stop' stops it"
                                                            : fmt::format("'kill {}' stops it", pid);
  say(context, fmt::format("server {} listens on {}; {}", pid, json.at("address").get<std::string>(), hint));
  print_data(std::to_string(json.at("pid").get<int>()));
}

}  // namespace

void add_serve(CLI::App& program, Context& context) {
  auto flags = std::make_shared<ServeFlags>();
  CLI::App* command = add_command(program, context, "serve", "Serve models over HTTP and gRPC");
  command->get_option("--table")->group("");
  add_serve_flags(*command, *flags);
  command->footer(
      "Examples:\n"
      "  gpux serve digits --port 8080\n"
      "  gpux serve small=a.onnx large=b.onnx --default small --provider cuda");
  command->callback([flags, command, &context] {
    if (flags->detach) {
      serve_in_background(*command, context);
    } else {
      for (std::string& model : flags->models) model = pulled_argument(model, *flags, context);
      pull_listed_models(*flags, context);
      require_one_for_draft(*flags);
      flags->draft = pull_argument(flags->draft, flags->pull, context);
      serve(*flags, context);
    }
  });
}

}  // namespace gpux::cli

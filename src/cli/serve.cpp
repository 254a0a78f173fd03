#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <thread>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/files.h"
#include "base/home.h"
#include "base/log.h"
#include "base/memory_size.h"
#include "base/spelling.h"
#include "cli/command.h"
#include "cli/load_flags.h"
#include "cli/serve_flags.h"
#include "cli/served_models.h"
#include "gpux/error.h"
#include "server/grpc/server.h"
#include "server/http/server.h"
#include "server/service.h"
#include "tensor/json_writer.h"

namespace gpux::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Signals as bytes in a pipe, so that they can be waited for.
class Signals {
 public:
  Signals() {
    if (::pipe2(pipe_.data(), O_CLOEXEC | O_NONBLOCK) != 0) throw_file_error("create", "a pipe", errno);
    written_ = pipe_[1];

    struct sigaction action {};

    action.sa_handler = [](int signal) {
      const auto byte = static_cast<char>(signal);
      [[maybe_unused]] const auto ignored = ::write(written_, &byte, 1);
    };
    ::sigaction(SIGINT, &action, nullptr);
    ::sigaction(SIGTERM, &action, nullptr);
  }

  /// The signal, or 0 where none comes in time; negative: for ever.
  int wait(std::chrono::milliseconds limit) const {
    const Clock::time_point end = Clock::now() + limit;
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
      pollfd waited{.fd = pipe_[0], .events = POLLIN, .revents = 0};
      const int timeout = limit.count() < 0 ? -1 : static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
      const int count = ::poll(&waited, 1, timeout);
      char byte = 0;
      if (count > 0 && ::read(pipe_[0], &byte, 1) == 1) return byte;
      if (count == 0) return 0;
    }
  }

 private:
  static inline int written_ = -1;
  std::array<int, 2> pipe_{};
};

std::vector<std::string> read_api_keys(const std::string& file) {
  std::vector<std::string> keys;
  const auto add = [&](std::string_view text, const std::string& where) {
    for (std::string& line : split(std::string(text), '\n')) {
      while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
      if (line.empty() || line.starts_with('#')) continue;
      if (line.size() < 8) throw Error(ErrorCode::usage, fmt::format("{}: a key has less than 8 characters", where));
      keys.push_back(std::move(line));
    }
  };
  if (!file.empty()) {
    add(read_file(file), file);
    if (keys.empty()) throw Error(ErrorCode::usage, fmt::format("{} holds no key", file));
  }
  if (const std::string key = environment_variable("GPUX_API_KEY"); !key.empty()) add(key, "GPUX_API_KEY");
  return keys;
}

std::string host_and_port(const std::string& host, std::uint16_t port) {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", is_ipv6 ? "[" : "", host, is_ipv6 ? "]" : "", port);
}

std::string address_of(const ServeFlags& flags, std::uint16_t port) {
  return fmt::format("{}://{}", flags.tls_certificate.empty() ? "http" : "https", host_and_port(flags.host, port));
}

// Null where it is off: by --no-grpc, or because its port is taken and nobody asked for that very port.
std::unique_ptr<server::GrpcServer> open_grpc(const Context& context, const ServeFlags& flags,
                                              const server::ServiceOptions& service,
                                              server::ModelRepository& repository) {
  if (flags.no_grpc) return nullptr;
  server::GrpcServerOptions options;
  options.host = flags.host;
  options.port = flags.grpc_port;
  options.tls_certificate = flags.tls_certificate;
  options.tls_key = flags.tls_key;
  options.api_keys = service.api_keys;
  options.probe = {service.probe_timeout, service.probe_after};
  options.log_requests = service.log_requests;
  options.max_message_bytes = flags.max_body_bytes;
  try {
    return std::make_unique<server::GrpcServer>(repository, options);
  } catch (const Error& error) {
    if (flags.is_grpc_port_given || error.code() != ErrorCode::resource_exhausted) throw error.within("--grpc-port");
    say(context, fmt::format("without gRPC: {}; --grpc-port gives another, --no-grpc none", error.message()));
    return nullptr;
  }
}

void announce(const Context& context, const ServeFlags& flags, std::uint16_t port,
              std::optional<std::uint16_t> grpc_port, const std::vector<std::shared_ptr<server::ServedModel>>& models) {
  const std::string address = address_of(flags, port);
  for (const auto& model : models) {
    say(context, fmt::format("{} {}: {}", model->name(), model->version(), to_line(model->runtime().verdict())));
  }
  say(context, fmt::format("listening on {}{}", address,
                           flags.unix_path.empty() ? "" : fmt::format(" and unix:{}", flags.unix_path)));
  if (models.size() == 1 || !flags.default_model.empty()) say(context, fmt::format("  POST {}/predict", address));
  for (const auto& model : models) {
    say(context, fmt::format("  POST {}/v2/models/{}/infer", address, model->name()));
  }
  say(context, fmt::format("  GET  {}/health /info /metrics /v2", address));
  if (grpc_port) {
    say(context, fmt::format("  gRPC {} (Open Inference Protocol, health, reflection{})",
                             host_and_port(flags.host, *grpc_port), flags.tls_certificate.empty() ? "" : ", TLS"));
  }
  if (!context.json) return;
  std::string text = R"({"address": )";
  append_json_string(text, address);
  text += fmt::format(R"(, "port": {}, "grpc_port": {}, "models": [)", port,
                      grpc_port ? std::to_string(*grpc_port) : "null");
  for (std::size_t i = 0; i < models.size(); ++i) {
    text += i == 0 ? R"({"name": )" : R"(, {"name": )";
    append_json_string(text, models[i]->name());
    text += R"(, "version": )";
    append_json_string(text, models[i]->version());
    text += fmt::format(R"(, "verdict": {}}})", to_json(models[i]->runtime().verdict()));
  }
  print_data(text + "]}");
}

std::uint64_t memory_budget_of(const std::string& text) {
  const auto bytes = parse_memory_size(text);
  if (!bytes) {
    throw Error(ErrorCode::usage,
                fmt::format("--memory-budget is '{}'; accepted: a number of bytes, or a size like 8GB", text));
  }
  return *bytes;
}

// A connection is a file: as many as the system allows this user.
void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void serve(const ServeFlags& flags, Context& context) {
  if (context.table) throw Error(ErrorCode::usage, "--table: serve tells people on standard error anyway");
  const auto drain_delay = duration_of(flags.drain_delay, "--drain-delay");
  const auto drain_timeout = duration_of(flags.drain_timeout, "--drain-timeout");
  server::ServiceOptions service_options;
  service_options.default_model = flags.default_model;
  service_options.api_keys = read_api_keys(flags.api_key_file);
  service_options.log_requests = flags.log_requests;

  server::RepositoryOptions repository_options;
  if (!flags.memory_budget.empty()) repository_options.memory_budget_bytes = memory_budget_of(flags.memory_budget);
  const auto watch = duration_of(flags.watch.empty() ? "0" : flags.watch, "--watch");
  if (flags.models.empty() && flags.repository.empty()) {
    throw Error(ErrorCode::usage, "nothing to serve: name a MODEL, or a folder of models with --repository DIR");
  }

  server::ModelRepository repository([&flags] { return served_models(flags); }, repository_options);
  repository.load_all();
  const std::vector<std::string> names = repository.names();
  if (!flags.default_model.empty() && std::find(names.begin(), names.end(), flags.default_model) == names.end()) {
    throw Error(ErrorCode::usage, fmt::format("--default {}: no such model is served", flags.default_model));
  }

  raise_file_limit();
  const Signals signals;
  server::Service service(repository, service_options);
  http::ServerOptions http_options;
  http_options.host = flags.host;
  http_options.port = flags.port;
  http_options.unix_path = flags.unix_path;
  http_options.threads = flags.io_threads;
  http_options.tls_certificate = flags.tls_certificate;
  http_options.tls_key = flags.tls_key;
  http_options.limits.max_body_bytes = flags.max_body_bytes;
  http_options.limits.max_decompressed_bytes = flags.max_body_bytes;
  http::Server http(
      http_options, [&](const std::shared_ptr<http::Exchange>& exchange) { service.handle(exchange); },
      [&](const http::Request& request) { return service.admit(request); });
  service.set_counters([&] { return http.counters(); });
  const std::unique_ptr<server::GrpcServer> grpc = open_grpc(context, flags, service_options, repository);
  http.start();
  announce(context, flags, http.port(), grpc ? std::optional(grpc->port()) : std::nullopt, repository.models());

  while (signals.wait(watch.count() == 0 ? std::chrono::milliseconds(-1) : watch) == 0) {
    repository.refresh([](const std::optional<Error>&) {});
  }
  service.set_ready(false);
  if (grpc) grpc->set_ready(false);
  say(context, "shutting down: a second signal ends at once");
  if (signals.wait(drain_delay) != 0) {
    context.exit_code = static_cast<int>(ErrorCode::interrupted);
    return;
  }
  std::atomic<bool> drained = false;
  std::thread drain([&] {
    const Clock::time_point deadline = Clock::now() + drain_timeout;
    std::thread other([&] {
      if (grpc) (void)grpc->drain(deadline);
    });
    (void)http.drain(deadline);
    other.join();
    drained = true;
  });
  while (!drained) {
    if (signals.wait(std::chrono::milliseconds(20)) == 0) continue;
    // The second signal: whoever waits is cut off.
    std::fflush(nullptr);
    ::_exit(static_cast<int>(ErrorCode::interrupted));
  }
  drain.join();
  if (repository.close(Clock::now() + std::chrono::seconds(5))) return;
  say(context, "a device does not come back: leaving it behind");
  std::fflush(nullptr);
  ::_exit(0);
}

}  // namespace

void add_serve(CLI::App& program, Context& context) {
  auto flags = std::make_shared<ServeFlags>();
  CLI::App* verb = add_verb(program, context, "serve", "Put models behind an HTTP and a gRPC port");
  verb->add_option("MODEL", flags->models,
                   "names, .onnx files or folders with gpux.yml; NAME=MODEL gives another name");
  verb->add_option("--repository", flags->repository, "serve the models in this folder: DIR/NAME/VERSION/model.onnx")
      ->type_name("DIR");
  verb->add_option("--watch", flags->watch, "look so often for models that have changed, and load them: 2s");
  verb->add_option("--memory-budget", flags->memory_budget,
                   "unload the models used least lately beyond this, until they are asked for: 8GB");
  verb->add_flag("--log-requests", flags->log_requests, "a line of the log for each request");
  // -h and -p mean what they mean elsewhere to those who serve.
  verb->set_help_flag("--help", "print this and end");
  verb->add_option("-h,--host", flags->host, "address to listen on");
  verb->add_option("-p,--port", flags->port, "port; 0 picks a free one and says which");
  auto* grpc_port =
      verb->add_option("--grpc-port", flags->grpc_port, "port of gRPC; 0 picks a free one and says which");
  verb->add_flag("--no-grpc", flags->no_grpc, "serve HTTP alone")->excludes(grpc_port);
  verb->add_option("--unix", flags->unix_path, "listen on this unix socket too");
  verb->add_option("--default", flags->default_model, "the model of routes without a name");
  verb->add_option("--api-key-file", flags->api_key_file, "ask for one of the keys in this file, one a line");
  auto* certificate = verb->add_option("--tls-cert", flags->tls_certificate, "certificate chain, PEM");
  auto* key = verb->add_option("--tls-key", flags->tls_key, "its key, PEM");
  certificate->needs(key);
  key->needs(certificate);
  verb->add_option("--max-batch-size", flags->max_batch_size, "rows that share a run, at most; 1: no batching")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  verb->add_option("--max-queue-delay", flags->max_queue_delay, "how long a request waits for others to share its run");
  verb->add_option("--max-queue", flags->max_queue, "requests that may wait for a model")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 20));
  verb->add_option("--max-body", flags->max_body_bytes, "bytes of a request's body, at most")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40));
  verb->add_option("--io-threads", flags->io_threads, "threads that read and write; default: by the processors")
      ->check(CLI::Range(1U, 256U));
  verb->add_option("--drain-delay", flags->drain_delay, "how long to serve on, unready, after SIGTERM");
  verb->add_option("--drain-timeout", flags->drain_timeout, "how long requests in flight may then take");
  verb->add_option("-c,--config", flags->config, "another gpux.yml");
  add_timeout_flag(*verb, flags->timeout);
  verb->add_option("--provider", flags->load.provider,
                   "auto, fastest, gpu, npu, a provider (cuda), or a list (tensorrt,cuda,cpu)");
  add_load_flags(*verb, flags->load, false);
  verb->footer(
      "Examples:\n"
      "  gpux serve digits --port 8080\n"
      "  gpux serve small=a.onnx large=b.onnx --default small --provider cuda");
  verb->callback([flags, grpc_port, &context] {
    flags->is_grpc_port_given = grpc_port->count() != 0;
    serve(*flags, context);
  });
}

}  // namespace gpux::cli

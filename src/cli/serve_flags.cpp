#include "cli/serve_flags.h"

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>

#include "base/format_message.h"
#include "cli/generation_flags.h"
#include "cli/load_flags.h"
#include "cli/pull_flag.h"
#include "cli/setting_flags.h"
#include "cli/size_flag.h"
#include "runtime/scheduling/runs_in_flight.h"
#include "settings/read_setting.h"

namespace gpux::cli {
namespace {

std::uint64_t read_budget(const std::string& text, const Source& source) {
  const auto bytes = parse_memory_size(text);
  if (!bytes) refuse(text, source, "a number of bytes, or a size like 8GB");
  return *bytes;
}

void add_models(CLI::App& command, ServeFlags& flags) {
  command.add_option("MODEL", flags.models,
                     "names, .onnx files or folders with gpux.yml; NAME=MODEL gives another name");
  add_pull_flag(command, flags.pull);
  command.add_option("--models", flags.models_file, "serve what this file lists");
  CLI::Option* repository = command.add_option("--repository", flags.repository,
                                               "serve the models in this folder: FOLDER/NAME/VERSION/model.onnx");
  command
      .add_option_function<std::string>(
          "--version-policy",
          [&flags](const std::string& text) { flags.version_policy = server::read_version_policy(text); },
          "which versions of a model of --repository are served side by side: latest (the default), latest:2, all, or "
          "versions as 1,3")
      ->needs(repository);
  add_value(command, "--watch", flags.watch, read_wait, "interval to check for changed models, and load them: 2s");
  add_value(command, "--idle-unload", flags.idle_unload, read_wait,
            "unload models that had no request for so long, until they are requested: 5m; requests of Ollama's clients "
            "then decide with keep_alive");
  command.add_flag("--allow-pull", flags.pulls_on_demand,
                   "without a MODEL: an inference request for a model that is not stored pulls it first");
  command
      .add_option("--private-registry", flags.private_registries,
                  "without a MODEL: HOST or HOST:PORT of this machine or a private network that requests may pull from "
                  "and push to; may be repeated")
      ->allow_extra_args(false);
  add_value(command, "--memory-budget", flags.memory_budget_bytes, read_budget,
            "unload the least recently used models if models, keys and values take more than this, until they "
            "are requested: 8GB");
  add_value(command, "--device-memory-budget", flags.device_memory_budget_bytes, read_budget,
            "the same for the memory of each device: 20GB");
}

void add_addresses(CLI::App& command, ServeFlags& flags) {
  command.add_flag("-d,--detach", flags.detach, "run in the background once it listens; print the process id");
  command.add_flag("--in-background", flags.in_background)->group("");
  command.add_flag("--log-requests", flags.log_requests, "log one line per request");
  command.add_flag("--strict-requests", flags.is_strict, "refuse requests with members that are not known");
  // -h and -p mean what they mean elsewhere to those who serve.
  command.add_option("--host", flags.host, "address to listen on (default: 127.0.0.1)");
  const CLI::Range ports(0U, 65535U);
  // Elsewhere -p is the provider.
  const auto is_number = [](const std::string& text) {
    const bool holds = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
    return holds ? std::string() : format_message("'{}' is no port; the provider is --provider", text);
  };
  command.add_option("-p,--port", flags.port, "port (default: 8080); 0 picks a free port and prints it")
      ->check(is_number)
      ->check(ports);
  auto* grpc_port =
      command
          .add_option("--grpc-port", flags.grpc_port, "gRPC port (default: 8081); 0 picks a free port and prints it")
          ->check(ports);
  command.add_flag("--no-grpc", flags.no_grpc, "serve only HTTP")->excludes(grpc_port);
  command.add_option("--unix", flags.unix_path, "also listen on this unix socket");
  command.add_option("--default", flags.default_model, "the model for routes without a name");
  command.add_option("--api-key-file", flags.api_key_file, "require one of the keys in this file, one per line");
  command.add_option("--admin-key-file", flags.admin_key_file,
                     "require one of the keys in this file for changes of models: load, unload, pull, push, create, "
                     "copy, delete");
  command.add_option("--limits", flags.limits_file,
                     "requests and tokens that each API key may send, YAML: see the page on serving");
  command.add_option("--audit-log", flags.audit_log,
                     "append a line of JSON for each change of models to this file (default: lines of the log)");
  command
      .add_option("--cors-origin", flags.cors_origins,
                  "origin of web pages that may use the server, besides those of this machine: "
                  "https://app.example.org; * for all")
      ->allow_extra_args(false);
  command
      .add_option("--allowed-host", flags.allowed_hosts,
                  "name by which clients may address a server without keys, besides this machine's: "
                  "models.example.org; * for all")
      ->allow_extra_args(false);
  command.add_flag_function(
      "--console,!--no-console", [&flags](std::int64_t count) { flags.console = count > 0; },
      "serve a page for browsers at /console (default: if the server listens on loopback)");
  command.add_option("--shared-memory", flags.shared_memory,
                     "clients may have inputs and outputs in POSIX shared memory whose name begins with this, as "
                     "/infer-; /: any (Triton's system shared memory)");
  auto* certificate = command.add_option("--tls-cert", flags.tls_certificate, "certificate chain, PEM");
  auto* key = command.add_option("--tls-key", flags.tls_key, "its key, PEM");
  command
      .add_option("--tls-client-ca", flags.tls_client_ca,
                  "require a certificate of clients that one of those in this file has signed, PEM")
      ->needs(certificate);
  certificate->needs(key);
  key->needs(certificate);
}

void add_scheduling(CLI::App& command, server::ServingFlags& flags) {
  add_number(command, "--max-batch-size", flags.serving.max_batch_size,
             "maximum rows in a shared run (default: 32); 1: no batching")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  add_number(command, "--max-batch-cost", flags.serving.max_batch_cost,
             "maximum elements of the largest input of a shared run, with padding (default: no limit)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  add_batch_axis_flag(command, flags.load);
  add_setting(command, "--batching", flags.serving.batching, read_batching,
              "how texts share runs: exact, if each vector is bit-identical to that of the text alone, or throughput "
              "(default: throughput on a GPU or NPU, else exact)")
      ->check(CLI::IsMember({"exact", "throughput"}));
  add_setting(command, "--max-queue-delay", flags.serving.max_queue_delay, read_wait,
              "how long the server waits to fill a batch");
  add_setting(command, "--workers", flags.serving.workers, read_workers,
              "concurrent runs (default: 1); auto: measured at load; devices: one per device");
  add_number(command, "--max-workers", flags.serving.max_workers, "maximum for auto and devices")
      ->check(CLI::Range(1U, 1024U));
  add_number(command, "--runs-in-flight", flags.serving.runs_in_flight,
             "runs of a session that are computed or copied at the same time, where copies overlap with "
             "computations (default: 2, or as many as workers)")
      ->check(CLI::Range(1U, runtime::max_runs_in_flight));
  add_setting(command, "--stop-grace", flags.serving.stop_grace, read_wait,
              "how long a run may continue after the request to stop, before its worker process is killed "
              "(default: 5s)");
  add_setting(command, "--max-restart-delay", flags.serving.max_restart_delay, read_wait,
              "longest delay before a worker process that keeps ending is started again (default: 10s)");
  add_number(command, "--max-queue", flags.serving.max_queue, "requests that may wait for a model (default: 1024)")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 20));
  add_number(command, "--max-sequences", flags.serving.max_sequences,
             "texts that a model generates at the same time (default: 16)")
      ->check(CLI::Range(1U, 256U));
  add_number(command, "--context-length", flags.serving.context_length,
             "maximum tokens of a text with its prompt (default: the model's, or what the memory holds)")
      ->check(CLI::Range(2U, 1U << 30));
  add_number(command, "--cache-memory", flags.serving.cache_bytes,
             "memory for keys and values of generated texts: 4GiB (default: half of the free memory, which the "
             "models share)")
      ->transform(size_in_bytes());
  command.add_flag("--no-prefix-caching", flags.no_prefix_caching,
                   "compute each prompt as a whole, also if an earlier one began alike");
  command.add_flag("--no-prompt-lookup", flags.no_prompt_lookup,
                   "compute each generated token in a step of its own, also if the text repeats itself");
  add_draft_flag(command, flags.draft);
  add_cache_precision_flag(command, flags.cache_precision);
  add_prompt_cache_flags(command, flags.prompt_cache, flags.prompt_cache_bytes);
}

void add_limits(CLI::App& command, ServeFlags& flags) {
  command
      .add_option("--max-body", flags.max_body_bytes, "maximum size of a request's body: bytes, or a size like 64MiB")
      ->transform(size_in_bytes())
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40));
  command
      .add_option("--max-responses", flags.max_responses,
                  "responses of /v1/responses that are kept in memory (default: 1024); 0: none")
      ->check(CLI::Range(std::size_t{0}, std::size_t{1} << 20));
  add_value(command, "--response-ttl", flags.response_ttl, read_wait,
            "how long they are kept (default: 24h); 0: not at all");
  command
      .add_option("--response-cache", flags.response_cache_bytes,
                  "memory for answers that are given again to the same request, but not generated texts: 256MiB "
                  "(default: 0, none)")
      ->transform(size_in_bytes());
  command.add_option("--io-threads", flags.io_threads, "threads that read and write (default: by the processors)")
      ->check(CLI::Range(1U, 256U));
  command
      .add_option("--busy-poll-us", flags.busy_poll_us,
                  "how long such a thread polls before it sleeps, in microseconds (default: 50; 0: not at all)")
      ->check(CLI::Range(0U, 1000U));
  add_value(command, "--drain-delay", flags.drain_delay, read_wait,
            "how long to continue serving, not ready, after SIGTERM");
  add_value(command, "--drain-timeout", flags.drain_timeout, read_wait,
            "how long requests in flight may take after that");
  add_value(command, "--load-timeout", flags.load_timeout, read_wait,
            "timeout of a request to load a model; the load continues (default: 10m; 0: no limit)");
  command.add_option("-c,--config", flags.config, "another gpux.yml");
  add_timeout_flag(command, flags.load);
  add_setting(command, "--provider", flags.load.provider, read_text,
              "auto, fastest, gpu, npu, a provider (cuda), or a list (tensorrt,cuda,cpu)");
  add_load_flags(command, flags.load, false);
  add_isolation_flag(command, flags.load, WorkerUse::restarted);
}

}  // namespace

void add_serve_flags(CLI::App& command, ServeFlags& flags) {
  add_models(command, flags);
  add_addresses(command, flags);
  add_scheduling(command, flags);
  add_limits(command, flags);
}

}  // namespace gpux::cli

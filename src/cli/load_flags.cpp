#include "cli/load_flags.h"

#include <filesystem>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>

#include "cli/setting_flags.h"
#include "settings/read_setting.h"

namespace gpux::cli {
namespace {

std::filesystem::path read_path(const std::string& text, const Source& /*source*/) {
  return text;
}

Setting<std::filesystem::path> read_library(const std::string& text, const Source& source) {
  return {text, source};
}

}  // namespace

void add_load_flags(CLI::App& command, LoadRequest& request, bool with_provider) {
  const char* group = "Loading the model";
  if (with_provider) {
    add_setting(command, "-p,--provider", request.provider, read_text,
                "auto, fastest, gpu, npu, a provider (cuda), or a list (tensorrt,cuda,cpu)")
        ->group(group);
  }
  add_list(command, "--provider-library", request.provider_libraries, read_provider_library,
           "a plugin provider's library: NAME=PATH")
      ->group(group);
  add_list(command, "--provider-option", request.provider_options, read_provider_option,
           "an option of a provider: [PROVIDER.]KEY=VALUE")
      ->group(group);
  const std::string strict_help =
      "fail unless the first requested provider holds a node; --strict=nodes: and no other provider does";
  command.add_flag("--strict{true}", strict_help)
      ->each([&strict = request.strict, source = flag_source("--strict")](const std::string& text) {
        strict = {read_strictness(text, source), source};
      })
      ->group(group);
  add_setting(command, "--device", request.device, read_number, "number of the provider's device, from 0")
      ->group(group);
  add_setting(command, "--memory", request.memory_bytes, read_memory_size, "limit of the model's memory: 2GB")
      ->group(group);
  add_setting(command, "--precision", request.precision, read_precision,
              "fp32, tf32, fp16, bf16, int8, int8-bf16, if the package has a variant or the provider supports it; any: "
              "the fastest, with --provider fastest")
      ->group(group);
  add_setting(command, "--min-cosine", request.min_cosine, read_min_cosine,
              "minimum mean cosine to the model's outputs for --precision any (default: 0.999)")
      ->group(group);
  add_setting(command, "--cache-dir", request.cache_directory, read_path,
              "the folder for engines that the provider compiles; auto: one of GPUX_HOME")
      ->group(group);
  add_setting(command, "--threads", request.intra_threads, read_thread_count,
              "threads inside an operator (default: one for each core)")
      ->group(group);
  add_setting(command, "--inter-threads", request.inter_threads, read_thread_count,
              "threads between operators (default: 1)")
      ->group(group);
  add_setting(command, "--optimization-level", request.optimization, read_optimization,
              "optimization of the graph: disabled, basic, extended, layout, all")
      ->group(group);
  add_list(command, "--session-option", request.session_config, read_entry,
           "an ONNX Runtime configuration entry: KEY=VALUE")
      ->group(group);
  add_list(command, "--custom-ops", request.custom_operator_libraries, read_library,
           "a library of custom operators, whose code runs with the model; may be repeated")
      ->group(group);
  add_setting(command, "--profile", request.profile, read_path, "write ONNX Runtime's profile to this file")
      ->group(group);
}

void add_isolation_flag(CLI::App& command, LoadRequest& request, WorkerUse use) {
  request.worker_use = use;
  add_setting(command, "--isolation", request.isolation, read_isolation,
              "where models run: thread, in this process, or process, in a worker process each (default: thread; "
              "process with --provider-library, --custom-ops and for pulled packages)")
      ->check(CLI::IsMember({"thread", "process"}))
      ->group("Loading the model");
  add_setting(command, "--preflight", request.preflight, read_switch,
              "on (the default): the first load of a provider's library is tried in a child process, and a provider "
              "that crashes or hangs is left out; off")
      ->check(CLI::IsMember({"on", "off"}))
      ->group("Loading the model");
  add_setting(command, "--preflight-timeout", request.preflight_timeout, read_duration,
              "maximum time of such a first load, with the compilation of the model (default: 10m)")
      ->group("Loading the model");
  add_setting(command, "--sandbox", request.sandbox, read_sandbox,
              "restrict worker processes to the model's files and the devices: on, off, strict (fail where the "
              "kernel does not support all of it); default: on for pulled packages")
      ->check(CLI::IsMember({"on", "off", "strict"}))
      ->group("Loading the model");
}

void add_batch_axis_flag(CLI::App& command, LoadRequest& request) {
  add_setting(command, "--batch-axis", request.batch_axis, read_batch_axis,
              "the batch axis: 0, so that requests share runs, or none (default: decided by a trial)")
      ->check(CLI::IsMember({"0", "none"}));
}

void add_timeout_flag(CLI::App& command, LoadRequest& request) {
  add_setting(command, "--timeout", request.timeout, read_duration, "maximum time of a run: 5s, 500ms (exit code 9)");
}

}  // namespace gpux::cli

#include "cli/load_flags.h"

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>

namespace gpux::cli {

void add_load_flags(CLI::App& command, LoadFlags& flags, bool with_provider) {
  const char* group = "Loading the model";
  if (with_provider) {
    command
        .add_option("-p,--provider", flags.provider,
                    "auto, fastest, gpu, npu, a provider (cuda), or a list (tensorrt,cuda,cpu)")
        ->group(group);
  }
  command.add_option("--provider-library", flags.provider_libraries, "a plugin provider's library: NAME=PATH")
      ->allow_extra_args(false)
      ->group(group);
  command.add_option("--provider-option", flags.provider_options, "an option of a provider: [PROVIDER.]KEY=VALUE")
      ->allow_extra_args(false)
      ->group(group);
  command
      .add_flag("--strict{true}", flags.strict,
                "fail unless the first requested provider holds a node; --strict=nodes: and no other provider does")
      ->group(group);
  command.add_option("--device", flags.device, "number of the provider's device, from 0")->group(group);
  command.add_option("--memory", flags.memory, "limit of the model's memory: 2GB")->group(group);
  command
      .add_option(
          "--precision", flags.precision,
          "fp32, tf32, fp16, bf16, int8, int8-bf16, if the package has a variant or the provider supports it; any: "
          "the fastest, with --provider fastest")
      ->group(group);
  command
      .add_option("--min-cosine", flags.min_cosine,
                  "minimum mean cosine to the model's outputs for --precision any (default: 0.999)")
      ->group(group);
  command
      .add_option("--cache-dir", flags.cache_directory,
                  "the folder for engines that the provider compiles; auto: one of GPUX_HOME")
      ->group(group);
  command
      .add_option("--threads", flags.intra_threads, "threads inside an operator (default: processors of this process)")
      ->group(group);
  command.add_option("--inter-threads", flags.inter_threads, "threads between operators (default: 1)")->group(group);
  command
      .add_option("--optimization-level", flags.optimization,
                  "optimization of the graph: disabled, basic, extended, layout, all")
      ->group(group);
  command.add_option("--session-option", flags.session_options, "an ONNX Runtime configuration entry: KEY=VALUE")
      ->allow_extra_args(false)
      ->group(group);
  command
      .add_option("--custom-ops", flags.custom_operators,
                  "a library of custom operators, whose code runs with the model; may be repeated")
      ->allow_extra_args(false)
      ->group(group);
  command.add_option("--profile", flags.profile, "write ONNX Runtime's profile to this file")->group(group);
}

void add_isolation_flag(CLI::App& command, LoadFlags& flags, WorkerUse use) {
  flags.worker_use = use;
  command
      .add_option("--isolation", flags.isolation,
                  "where models run: thread, in this process, or process, in a worker process each (default: thread; "
                  "process with --provider-library, --custom-ops and for pulled packages)")
      ->check(CLI::IsMember({"thread", "process"}))
      ->group("Loading the model");
  command
      .add_option(
          "--preflight", flags.preflight,
          "on (the default): the first load of a provider's library is tried in a child process, and a provider "
          "that crashes or hangs is left out; off")
      ->check(CLI::IsMember({"on", "off"}))
      ->group("Loading the model");
  command
      .add_option("--preflight-timeout", flags.preflight_timeout,
                  "maximum time of such a first load, with the compilation of the model (default: 10m)")
      ->group("Loading the model");
  command
      .add_option("--sandbox", flags.sandbox,
                  "restrict worker processes to the model's files and the devices: on, off, strict (fail where the "
                  "kernel does not support all of it); default: on for pulled packages")
      ->check(CLI::IsMember({"on", "off", "strict"}))
      ->group("Loading the model");
}

void add_batch_axis_flag(CLI::App& command, std::string& batch_axis) {
  command
      .add_option("--batch-axis", batch_axis,
                  "the batch axis: 0, so that requests share runs, or none (default: decided by a trial)")
      ->check(CLI::IsMember({"0", "none"}));
}

void add_timeout_flag(CLI::App& command, std::string& timeout) {
  command.add_option("--timeout", timeout, "maximum time of a run: 5s, 500ms (exit code 9)");
}

}  // namespace gpux::cli

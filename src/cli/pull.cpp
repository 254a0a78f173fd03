#include "gpux/pull.h"

#include <memory>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>

#include "base/memory_size.h"
#include "base/spelling.h"
#include "cli/command.h"
#include "cli/print_json.h"
#include "cli/pull_flag.h"
#include "gpux/error.h"

namespace gpux::cli {
namespace {

struct PullFlags {
  std::string reference;
  PullOptions options;
  std::vector<std::string> tags;
};

// One object per line, so that a program can follow the download.
PullListener json_listener() {
  return {.on_progress =
              [](const PullProgress& progress) {
                print_json({{"event", "progress"},
                            {"file", progress.file},
                            {"file_bytes", progress.file_bytes},
                            {"file_done", progress.file_done},
                            {"bytes", progress.bytes},
                            {"done", progress.done}});
              },
          .on_message =
              [](const std::string& line) {
                print_json({{"event", "message"}, {"text", line}});
              }};
}

Json to_json(const PulledModel& pulled, const std::vector<std::string>& names) {
  return {{"event", "pulled"},
          {"names", names},
          {"id", pulled.package.id},
          {"source", pulled.package.source},
          {"revision", pulled.revision},
          {"file", pulled.file},
          {"size_bytes", pulled.package.size_bytes},
          {"was_current", pulled.was_current},
          {"received_bytes", pulled.received_bytes},
          {"reused_bytes", pulled.reused_bytes}};
}

std::string line_of(const PulledModel& pulled, const std::vector<std::string>& names) {
  constexpr std::size_t id_begin = 7, shown_digits = 12;
  const std::string id = pulled.package.id.substr(id_begin, shown_digits);
  if (pulled.was_current) return fmt::format("{} is up to date ({})", join(names), id);
  const std::string reused =
      pulled.reused_bytes == 0 ? "" : fmt::format(", {} were here", format_bytes(pulled.reused_bytes));
  return fmt::format("pulled {} ({}, {}; {} received{}): {}", join(names), id, format_bytes(pulled.package.size_bytes),
                     format_bytes(pulled.received_bytes), reused, pulled.summary);
}

void pull_model(const PullFlags& flags, const Context& context) {
  PullOptions options = flags.options;
  if (!flags.tags.empty()) options.name = flags.tags.front();
  PullDisplay display(context);
  const PulledModel pulled =
      pull(flags.reference, options, context.wants_json() ? json_listener() : display.listener());
  std::vector<std::string> names{pulled.package.name + ":" + pulled.package.tag};
  ModelStore store;
  for (std::size_t i = 1; i < flags.tags.size(); ++i) {
    const StoredPackage tagged = store.tag(names.front(), flags.tags[i]);
    names.push_back(tagged.name + ":" + tagged.tag);
  }
  if (context.wants_json()) {
    print_json(to_json(pulled, names));
  } else {
    print_data(line_of(pulled, names));
  }
}

}  // namespace

void add_pull(CLI::App& program, Context& context) {
  auto flags = std::make_shared<PullFlags>();
  CLI::App* command = add_command(program, context, "pull", "Download a model and store it, ready to run");
  command->get_option("--json")->description("JSON lines on standard output: progress, messages, the result");
  command
      ->add_option(
          "MODEL", flags->reference,
          "hf.co/ORG/NAME[@REVISION|:QUANTIZATION] or ORG/NAME of the Hugging Face hub, https://HOST/PATH.onnx, or "
          "REGISTRY/REPOSITORY[:TAG][@sha256:DIGEST]")
      ->required();
  command->add_option("-t,--tag", flags->tags, "NAME[:TAG] in the store (default: the reference); repeatable")
      ->allow_extra_args(false);
  command->add_option("--file", flags->options.file, "the ONNX or GGUF file of the repository that is the model");
  command
      ->add_option("--precision", flags->options.precision,
                   "the ONNX file of the repository with these weights: fp32, fp16, int8")
      ->check(CLI::IsMember({"fp32", "fp16", "int8"}));
  command
      ->add_option("--reranker", flags->options.reranker,
                   "the model is a causal language model that scores pairs of texts in this format: qwen3 "
                   "(Qwen3-Reranker; default: as its README.md or modules.json says)")
      ->check(CLI::IsMember({"qwen3"}));
  command->add_option("--sha256", flags->options.sha256, "the digest that a file from an address must have");
  command->add_option_function<std::string>(
      "--verify-key", [flags](const std::string& file) { flags->options.verify_key = file; },
      "refuse a package of a registry unless this public key (PEM, P-256) has signed it, as cosign does");
  command->add_option("--connections", flags->options.connections, "downloads at the same time (default: 8)")
      ->check(CLI::Range(1U, 64U));
  command->add_option_function<std::string>(
      "--ca-file", [flags](const std::string& file) { flags->options.ca_file = file; },
      "trust the authorities in this PEM file instead of the system's");
  command
      ->add_option(
          "--insecure", flags->options.insecure,
          "do not check the certificate of HOST or HOST:PORT, and allow a registry there plain HTTP; repeatable")
      ->allow_extra_args(false);
  command->footer(
      "Examples:\n"
      "  gpux pull sentence-transformers/all-MiniLM-L6-v2\n"
      "  gpux pull hf.co/BAAI/bge-small-en-v1.5@main -t bge --precision int8\n"
      "  gpux pull hf.co/bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M\n"
      "  gpux pull https://example.com/model.onnx --sha256 DIGEST\n"
      "  gpux pull registry.example/team/digits:1.0.0 --verify-key signer.pub");
  command->callback([flags, &context] { pull_model(*flags, context); });
}

}  // namespace gpux::cli

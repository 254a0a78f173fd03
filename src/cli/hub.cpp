#include "registry/hub/hub.h"

#include <algorithm>
#include <memory>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>

#include "base/machine.h"
#include "base/memory_size.h"
#include "base/spelling.h"
#include "cli/command.h"
#include "cli/flag_names.h"
#include "cli/print_json.h"
#include "cli/table.h"
#include "gpux/error.h"
#include "registry/hub/file_choice.h"
#include "registry/hub/hub_reference.h"

namespace gpux::cli {
namespace {

using registry::HubModelInfo;

struct HubFlags {
  std::string action;
  std::vector<std::string> words;
  unsigned limit = 20;
};

// The weights that gpux could pull, as the hub's tags tell.
std::string formats_of(const HubModelInfo& info) {
  std::vector<std::string> formats;
  for (const char* tag : {"onnx", "safetensors", "gguf", "pytorch"}) {
    if (std::ranges::find(info.tags, tag) != info.tags.end()) formats.emplace_back(tag);
  }
  return join(formats);
}

Json to_json(const HubModelInfo& info) {
  return {{"name", info.repository},     {"commit", info.commit},      {"task", info.task},
          {"library", info.library},     {"license", info.license},    {"last_modified", info.last_modified},
          {"downloads", info.downloads}, {"likes", info.likes},        {"private", info.is_private},
          {"gated", info.gated},         {"formats", formats_of(info)}};
}

void search_hub(registry::Hub& hub, const HubFlags& flags, const Context& context) {
  const std::vector<HubModelInfo> results = hub.search(join(flags.words, " "), flags.limit);
  if (context.wants_json()) {
    Json list = Json::array();
    for (const HubModelInfo& info : results) list.push_back(to_json(info));
    return print_json(list);
  }
  Table table{.head = {"NAME", "TASK", "FORMATS", "DOWNLOADS", "LIKES", "UPDATED"}, .rows = {}};
  constexpr std::size_t day_length = 10;
  for (const HubModelInfo& info : results) {
    table.rows.push_back({info.repository, info.task, formats_of(info), std::to_string(info.downloads),
                          std::to_string(info.likes), info.last_modified.substr(0, day_length)});
  }
  print_data(table.text());
}

// Empty where pull refuses it, with the reason in `problem`.
std::vector<std::string> files_to_pull(registry::Hub& hub, const HubModelInfo& info,
                                       const registry::HubReference& reference, std::string& problem) {
  std::vector<std::string> names;
  for (const registry::HubFile& file : info.files) names.push_back(file.name);
  const std::string repository = "hf.co/" + info.repository;
  try {
    registry::FileRequest request{.file = reference.file,
                                  .precision = {},
                                  .is_x86 = is_x86(),
                                  .adds_bytes_exactly = adds_byte_products_exactly(Machine::this_one()),
                                  .quantization = reference.quantization,
                                  .layout = {}};
    request.layout = registry::read_layout(names, request, repository,
                                           [&](const std::string& file) { return hub.read(info, file); });
    return registry::choose_files(names, request, repository).files;
  } catch (const Error& error) {
    problem = message_of(error);
    return {};
  }
}

void show_model(registry::Hub& hub, const HubFlags& flags, const Context& context) {
  if (flags.words.size() != 1)
    throw Error(ErrorCode::usage, "hub info: give one model, ORG/NAME[@REVISION|:QUANTIZATION]");
  const registry::HubReference reference = registry::parse_hub_reference(flags.words.front(), true);
  const HubModelInfo info = hub.info(reference.repository, reference.revision);
  std::string problem;
  const std::vector<std::string> pulled = files_to_pull(hub, info, reference, problem);
  const auto is_pulled = [&](const std::string& name) { return std::ranges::find(pulled, name) != pulled.end(); };
  if (context.wants_json()) {
    Json json = to_json(info);
    json["files"] = Json::array();
    for (const registry::HubFile& file : info.files) {
      json["files"].push_back({{"name", file.name},
                               {"bytes", file.bytes},
                               {"sha256", file.sha256.empty() ? Json(nullptr) : Json(file.sha256)},
                               {"pulled", is_pulled(file.name)}});
    }
    json["problem"] = problem.empty() ? Json(nullptr) : Json(problem);
    return print_json(json);
  }
  Table model{.head = {},
              .rows = {{"name", info.repository},
                       {"commit", info.commit},
                       {"task", info.task},
                       {"library", info.library},
                       {"license", info.license},
                       {"gated", info.gated.empty() ? "no" : info.gated},
                       {"downloads", std::to_string(info.downloads)},
                       {"likes", std::to_string(info.likes)},
                       {"updated", info.last_modified}}};
  if (!problem.empty()) model.rows.push_back({"problem", problem});
  Table files{.head = {"FILE", "SIZE", "PULLED"}, .rows = {}};
  for (const registry::HubFile& file : info.files) {
    files.rows.push_back({file.name, format_bytes(file.bytes), is_pulled(file.name) ? "yes" : "no"});
  }
  print_data(sections({{"Model", std::move(model)}, {"Files", std::move(files)}}));
}

void ask_hub(const HubFlags& flags, const Context& context) {
  registry::HubSettings settings = registry::read_hub_settings(Machine::this_one());
  if (!settings.offline_variable.empty()) {
    throw Error(ErrorCode::not_found, fmt::format("cannot ask the hub: {} forbids it", settings.offline_variable));
  }
  registry::Client client;
  registry::Hub hub(client, std::move(settings));
  if (flags.action == "search") {
    search_hub(hub, flags, context);
  } else {
    show_model(hub, flags, context);
  }
}

}  // namespace

void add_hub(CLI::App& program, Context& context) {
  auto flags = std::make_shared<HubFlags>();
  CLI::App* command = add_command(program, context, "hub", "Search the Hugging Face hub, and show its models");
  command->add_option("ACTION", flags->action, "search: models that match words; info: one model and its files")
      ->required()
      ->check(CLI::IsMember({"search", "info"}));
  command->add_option("WORDS", flags->words, "search: the words; info: ORG/NAME[@REVISION]")->required();
  command->add_option("--limit", flags->limit, "search: number of results (default: 20)")->check(CLI::Range(1U, 100U));
  command->footer(
      "Examples:\n"
      "  gpux hub search minilm\n"
      "  gpux hub info sentence-transformers/all-MiniLM-L6-v2 --json");
  command->callback([flags, &context] { ask_hub(*flags, context); });
}

}  // namespace gpux::cli

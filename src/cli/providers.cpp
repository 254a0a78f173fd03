#include <memory>

#include <CLI/App.hpp>
#include <fmt/format.h>

#include "cli/command.h"
#include "cli/load_flags.h"
#include "cli/print_json.h"
#include "cli/table.h"
#include "diagnosis/machine_report.h"
#include "gpux/provider_manager.h"

namespace gpux::cli {
namespace {

void print_providers(const std::vector<std::string>& libraries, const Context& context) {
  const std::vector<ProviderReport> reports = ProviderManager(read_provider_libraries(libraries)).providers();
  const RuntimeLibrary library = runtime_library();
  if (context.wants_json()) {
    Json json;
    json["onnxruntime"] = diagnosis::to_json(library);
    json["providers"] = Json::array();
    for (const ProviderReport& report : reports) json["providers"].push_back(diagnosis::to_json(report));
    print_json(json);
    return;
  }
  Table table{.head = {"PROVIDER", "NAME", "AVAILABLE", "DEVICES", "SOURCE", "REASON", "REMEDY"}, .rows = {}};
  for (const ProviderReport& report : reports) {
    table.rows.push_back({report.id, report.ort_name, report.available ? "yes" : "no",
                          diagnosis::device_list(report.devices), report.source,
                          report.available ? report.note : report.reason, report.remedy});
  }
  print_data(table.text());
  say(context, fmt::format("ONNX Runtime {} ({})", library.version, library.path.string()));
}

}  // namespace

void add_providers(CLI::App& program, Context& context) {
  auto libraries = std::make_shared<std::vector<std::string>>();
  CLI::App* command =
      add_command(program, context, "providers", "List execution providers, and which of them this machine can use");
  command->add_option("--provider-library", *libraries, "a plugin provider's library: NAME=PATH; repeatable")
      ->allow_extra_args(false);
  command->callback([libraries, &context] { print_providers(*libraries, context); });
}

}  // namespace gpux::cli

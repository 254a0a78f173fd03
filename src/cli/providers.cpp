#include <memory>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>

#include "cli/command.h"
#include "cli/flag_names.h"
#include "cli/load_flags.h"
#include "cli/print_json.h"
#include "cli/provider_installation.h"
#include "cli/setting_flags.h"
#include "cli/table.h"
#include "diagnosis/machine_report.h"
#include "gpux/error.h"
#include "gpux/provider_manager.h"
#include "settings/read_setting.h"

namespace gpux::cli {
namespace {

void print_providers(const std::vector<ProviderLibrary>& libraries, const Context& context) {
  const std::vector<ProviderReport> reports = ProviderManager(libraries).providers();
  const RuntimeLibrary library = runtime_library();
  if (context.wants_json()) {
    Json json;
    json["onnxruntime"] = diagnosis::to_json(library);
    json["providers"] = Json::array();
    for (const ProviderReport& report : reports) json["providers"].push_back(diagnosis::to_json(report, flag_name));
    print_json(json);
    return;
  }
  Table table{.head = {"PROVIDER", "NAME", "AVAILABLE", "DEVICES", "SOURCE", "REASON", "REMEDY"}, .rows = {}};
  for (const ProviderReport& report : reports) {
    table.rows.push_back({report.id, report.ort_name, report.available ? "yes" : "no",
                          diagnosis::device_list(report.devices), report.source,
                          report.available ? report.note : report.reason, to_string(report.remedy, flag_name)});
  }
  print_data(table.text());
  say(context, fmt::format("ONNX Runtime {} ({})", library.version, library.path.string()));
}

struct ProvidersFlags {
  std::string action;
  std::vector<ProviderLibrary> libraries;
  InstallationFlags installation;
};

// What an action has no use for is refused.
void check_flags(const ProvidersFlags& flags) {
  const auto refuse = [&](bool is_given, const char* what, const char* whose) {
    if (is_given) throw Error(ErrorCode::usage, fmt::format("{}: only 'gpux providers {}' takes it", what, whose));
  };
  const bool installs = flags.action == "install";
  refuse(!installs && !flags.installation.from.empty(), "--from", "install");
  refuse(!installs && flags.installation.is_dry_run, "--dry-run", "install");
  const bool lists = flags.action.empty() || flags.action == "list";
  refuse(!lists && !flags.libraries.empty(), "--provider-library", "list");
  refuse(lists && !flags.installation.names.empty(), "NAME", "install, installed, check and remove");
}

void run_providers(const ProvidersFlags& flags, Context& context) {
  check_flags(flags);
  if (flags.action == "install") return install_providers(flags.installation, context);
  if (flags.action == "installed") return list_installed_providers(flags.installation, context);
  if (flags.action == "check") return check_installed_providers(flags.installation, context);
  if (flags.action == "remove") return remove_providers(flags.installation, context);
  print_providers(flags.libraries, context);
}

}  // namespace

void add_providers(CLI::App& program, Context& context) {
  auto flags = std::make_shared<ProvidersFlags>();
  CLI::App* command =
      add_command(program, context, "providers",
                  "List the providers (CPU, GPU and NPU backends) and which of them work here; install others");
  command
      ->add_option("ACTION", flags->action,
                   "list: all providers (the default); install: with pip, into GPUX_HOME; installed: what was; check: "
                   "compare it with its digests; remove: one of it")
      ->check(CLI::IsMember({"list", "install", "installed", "check", "remove"}));
  command->add_option("NAME", flags->installation.names,
                      "providers to install, check or remove: NAME, or NAME@VERSION, as webgpu@0.4.0");
  command->add_option("--from", flags->installation.from, "install: from wheels in this folder, without the network");
  command->add_flag("--dry-run", flags->installation.is_dry_run, "install: only print what would be installed");
  add_list(*command, "--provider-library", flags->libraries, read_provider_library,
           "list: a plugin provider's library: NAME=PATH; repeatable");
  command->footer(
      "Examples:\n"
      "  gpux providers\n"
      "  gpux providers install webgpu\n"
      "  gpux providers install cuda --dry-run\n"
      "  gpux providers install openvino@1.24.1 --from wheels\n"
      "  gpux providers remove webgpu@0.4.0");
  command->callback([flags, &context] { run_providers(*flags, context); });
}

}  // namespace gpux::cli

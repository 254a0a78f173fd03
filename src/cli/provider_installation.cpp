#include "cli/provider_installation.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/folders.h"
#include "base/machine.h"
#include "base/memory_size.h"
#include "base/spelling.h"
#include "cli/flag_names.h"
#include "cli/print_json.h"
#include "cli/table.h"
#include "gpux/error.h"
#include "installation/installation.h"
#include "installation/package_choice.h"
#include "installation/packages.h"
#include "provider/probe.h"
#include "registry/hub/hub_settings.h"

namespace gpux::cli {
namespace {

using installation::InstallResult;
using installation::PackageSet;
using ort::InstalledProvider;

Json packages_json(const InstalledProvider& provider) {
  Json packages = Json::array();
  for (const ort::InstalledPackage& package : provider.packages) {
    packages.push_back(
        {{"name", package.name}, {"version", package.version}, {"wheel", package.wheel}, {"sha256", package.sha256}});
  }
  return packages;
}

Json to_json(const InstalledProvider& provider) {
  return {{"name", provider.name},
          {"version", provider.version},
          {"folder", provider.folder.string()},
          {"installed", provider.installed},
          {"client", provider.client},
          {"bytes", bytes_below(provider.folder)},
          {"damage", provider.damage.empty() ? Json(nullptr) : Json(provider.damage)},
          {"packages", packages_json(provider)}};
}

// Downloads are forbidden; wheels in a folder are none.
void check_online(const InstallationFlags& flags) {
  if (!flags.from.empty()) return;
  const std::string variable = registry::offline_variable(Machine::this_one());
  if (variable.empty()) return;
  throw Error(
      ErrorCode::not_found,
      fmt::format("cannot install: {} forbids downloads; --from FOLDER installs from wheels in a folder", variable));
}

// Whether it works here is known as far as it can be without a session.
void tell_use(const PackageSet& set, const Context& context) {
  const Machine& machine = Machine::this_one();
  const std::vector<std::string> ids{std::string(set.provider)};
  const std::vector<ort::CoreFile> cores = ort::find_cores(machine);
  const ProviderReport report = provider::survey(ids, cores, provider::find_plugins({}, machine), machine).front();
  if (!report.available) {
    say(context,
        fmt::format("{} cannot be used here yet: {}{}", set.provider, report.reason,
                    report.remedy.empty() ? "" : fmt::format("; next: {}", to_string(report.remedy, flag_name))));
  } else if (cores.empty()) {
    say(context, fmt::format("{} needs an ONNX Runtime: gpux providers install cpu", set.provider));
  }
}

void tell_result(const InstallResult& result, const PackageSet& set, bool is_dry_run, const Context& context) {
  const InstalledProvider& provider = result.provider;
  const std::string name = fmt::format("{} {}", provider.name, provider.version);
  if (result.was_there) {
    say(context, fmt::format("{} is already installed in '{}'", name, provider.folder.string()));
  } else if (is_dry_run) {
    say(context, fmt::format("{} would be installed in '{}'; nothing was installed", name, provider.folder.string()));
  } else {
    say(context, fmt::format("installed {} ({}) in '{}'", name, format_bytes(result.bytes), provider.folder.string()));
  }
  if (!set.needs.empty() && !result.was_there) say(context, fmt::format("it also needs {}", set.needs));
  if (!is_dry_run) tell_use(set, context);
}

std::vector<InstalledProvider> chosen_of(const std::vector<std::string>& names,
                                         std::vector<InstalledProvider> installed) {
  if (names.empty()) return installed;
  std::vector<InstalledProvider> chosen;
  for (const std::string& name : names) {
    const installation::Wanted wanted = installation::parse_wanted(name);
    const auto before = chosen.size();
    std::ranges::copy_if(installed, std::back_inserter(chosen), [&](const InstalledProvider& provider) {
      return provider.name == wanted.name && (wanted.version.empty() || provider.version == wanted.version);
    });
    if (chosen.size() == before) {
      throw Error(ErrorCode::not_found,
                  fmt::format("{} is not installed; 'gpux providers installed' lists what is", name));
    }
  }
  return chosen;
}

void print_installed(const std::vector<InstalledProvider>& providers, const Context& context) {
  if (context.wants_json()) {
    Json json = Json::array();
    for (const InstalledProvider& provider : providers) json.push_back(to_json(provider));
    return print_json(json);
  }
  Table table{.head = {"NAME", "VERSION", "INSTALLED", "SIZE", "STATE", "PACKAGES"}, .rows = {}};
  for (const InstalledProvider& provider : providers) {
    std::vector<std::string> packages;
    for (const ort::InstalledPackage& package : provider.packages) {
      packages.push_back(fmt::format("{} {}", package.name, package.version));
    }
    table.rows.push_back({provider.name, provider.version, provider.installed,
                          format_bytes(bytes_below(provider.folder)),
                          provider.damage.empty() ? "ok" : "damaged: " + provider.damage, join(packages)});
  }
  print_data(table.text());
}

void require_names(const InstallationFlags& flags, const char* action) {
  if (!flags.names.empty()) return;
  throw Error(
      ErrorCode::usage,
      fmt::format("providers {}: give a NAME or NAME@VERSION, as in 'gpux providers {} webgpu'", action, action));
}

}  // namespace

void install_providers(const InstallationFlags& flags, const Context& context) {
  require_names(flags, "install");
  const installation::MachineFacts facts = installation::machine_facts(Machine::this_one());
  std::vector<std::pair<installation::PackageChoice, std::string>> choices;
  for (const std::string& name : flags.names) {
    const installation::Wanted wanted = installation::parse_wanted(name);
    choices.emplace_back(installation::choose_packages(wanted, facts), wanted.version);
  }
  check_online(flags);
  const installation::InstallOptions options{.source = {flags.from}, .is_dry_run = flags.is_dry_run};
  Json json = Json::array();
  Table table{.head = {"PROVIDER", "PACKAGE", "VERSION", "SHA256"}, .rows = {}};
  for (const auto& [choice, version] : choices) {
    const PackageSet* set = choice.set;
    if (!choice.reason.empty()) say(context, fmt::format("{}: {}", set->name, choice.reason));
    const InstallResult result = installation::install(Machine::this_one(), *set, version, options,
                                                       [&](const std::string& what) { say(context, what); });
    const InstalledProvider& provider = result.provider;
    tell_result(result, *set, flags.is_dry_run, context);
    json.push_back({{"name", provider.name},
                    {"version", provider.version},
                    {"folder", provider.folder.string()},
                    {"was_there", result.was_there},
                    {"dry_run", flags.is_dry_run},
                    {"reason", choice.reason},
                    {"bytes", result.bytes},
                    {"packages", packages_json(provider)}});
    for (const ort::InstalledPackage& package : provider.packages) {
      table.rows.push_back({provider.name, package.name, package.version, package.sha256});
    }
  }
  if (context.wants_json()) return print_json(json);
  print_data(table.text());
}

void list_installed_providers(const InstallationFlags& flags, const Context& context) {
  print_installed(chosen_of(flags.names, ort::find_installed_providers(Machine::this_one())), context);
}

void check_installed_providers(const InstallationFlags& flags, Context& context) {
  const std::vector<InstalledProvider> providers =
      chosen_of(flags.names, ort::find_installed_providers(Machine::this_one(), ort::Comparison::content));
  print_installed(providers, context);
  const auto damaged = std::ranges::count_if(providers, [](const auto& provider) { return !provider.damage.empty(); });
  if (damaged == 0) return say(context, fmt::format("{}, none damaged", counted(providers.size(), "installation")));
  say(context, fmt::format("{} of {} damaged and not used; 'gpux providers install NAME@VERSION' replaces one", damaged,
                           counted(providers.size(), "installation")));
  context.exit_code = static_cast<int>(ErrorCode::provider_unavailable);
}

void remove_providers(const InstallationFlags& flags, const Context& context) {
  require_names(flags, "remove");
  std::vector<installation::Wanted> all;
  for (const std::string& name : flags.names) all.push_back(installation::parse_wanted(name));
  Json json = Json::array();
  for (const installation::Wanted& wanted : all) {
    for (const InstalledProvider& provider : installation::remove(Machine::this_one(), wanted.name, wanted.version)) {
      json.push_back({{"name", provider.name}, {"version", provider.version}});
      say(context, fmt::format("removed {} {}", provider.name, provider.version));
    }
  }
  if (context.wants_json()) print_json(json);
}

}  // namespace gpux::cli

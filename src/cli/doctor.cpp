#include <algorithm>
#include <memory>

#include <CLI/App.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "base/counted.h"
#include "base/standard_streams.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/flag_names.h"
#include "cli/print_json.h"
#include "cli/table.h"
#include "diagnosis/device_chain.h"
#include "diagnosis/diagnosis.h"
#include "diagnosis/machine_report.h"
#include "gpux/error.h"
#include "gpux/provider_manager.h"
#include "provider/table.h"

namespace gpux::cli {
namespace {

/// Everything the doctor looked at.
struct Examination {
  std::vector<diagnosis::Check> checks;
  std::vector<ProviderReport> reports;
  std::optional<RuntimeLibrary> runtime;
  bool processor_works = false;
};

void add(std::vector<diagnosis::Check>& checks, const std::vector<diagnosis::Check>& more) {
  checks.insert(checks.end(), more.begin(), more.end());
}

// Without an ONNX Runtime the providers are still looked for: what is missing besides is worth knowing.
std::vector<ProviderReport> survey_only(const std::vector<ort::CoreFile>& cores,
                                        const std::vector<provider::PluginFile>& plugins, const Machine& machine) {
  std::vector<std::string> ids;
  for (const provider::ProviderRow& row : provider::table()) ids.emplace_back(row.id);
  std::vector<ProviderReport> reports = provider::survey(ids, cores, plugins, machine);
  for (ProviderReport& report : reports) {
    if (!report.available) continue;
    report.available = report.accelerated = false;
    report.reason = "no ONNX Runtime that works";
    report.remedy.clear();
  }
  return reports;
}

void examine_runtime(const Machine& machine, Examination& examination) {
  std::vector<ort::CoreFile> cores;
  std::vector<diagnosis::Check> failures;
  const auto fail = [&](const char* name, const std::string& why) {
    failures.push_back({.area = "ONNX Runtime",
                        .name = name,
                        .state = diagnosis::Check::State::problem,
                        .found = why,
                        .next = "gpux providers install cpu"});
  };
  try {
    cores = ort::find_cores(machine);
  } catch (const Error& error) {
    fail("GPUX_ONNXRUNTIME", message_of(error));
    failures.back().next = "unset GPUX_ONNXRUNTIME, or set it to such a library";
  }
  const std::vector<provider::PluginFile> plugins = provider::find_plugins({}, machine);
  if (!cores.empty()) {
    try {
      examination.reports = ProviderManager().providers();
      examination.runtime = runtime_library();
    } catch (const Error& error) {
      fail("opening it", message_of(error));
    }
  } else if (failures.empty()) {
    fail("library", "none found next to gpux, in GPUX_HOME, in Python's packages, on the system");
  }
  if (!examination.runtime) examination.reports = survey_only(cores, plugins, machine);
  for (const ProviderReport& report : examination.reports) {
    if (report.id == "cpu") examination.processor_works = report.available;
  }
  add(examination.checks, diagnosis::check_cores(cores, examination.runtime ? examination.runtime->path : ""));
  add(examination.checks, diagnosis::check_python_packages(machine));
  add(examination.checks, failures);
  add(examination.checks, diagnosis::check_plugins(plugins, machine));
  add(examination.checks, diagnosis::check_providers(examination.reports, flag_name));
  add(examination.checks, diagnosis::check_chains(machine, cores, examination.reports));
}

// Shows what is read, where standard error is a terminal.
class ReadingLine {
 public:
  explicit ReadingLine(const Context& context) : is_shown_(!context.quiet && ::isatty(STDERR_FILENO) != 0) {}

  ~ReadingLine() {
    if (is_shown_) write_to_standard_error("\r\033[K");
  }

  ReadingLine(const ReadingLine&) = delete;
  ReadingLine& operator=(const ReadingLine&) = delete;

  void show(const std::string& what) const {
    if (is_shown_) write_to_standard_error(fmt::format("\r\033[Kreading {}", one_line(what)));
  }

 private:
  bool is_shown_;
};

Examination examine(bool is_quick, const Context& context) {
  const Machine& machine = Machine::this_one();
  Examination examination;
  // Before ONNX Runtime is opened, which has threads.
  const std::vector<diagnosis::Check> sandbox = diagnosis::check_sandbox();
  add(examination.checks, diagnosis::check_devices(machine));
  add(examination.checks, diagnosis::check_drivers(machine));
  add(examination.checks, sandbox);
  examine_runtime(machine, examination);
  {
    const ReadingLine line(context);
    add(examination.checks, diagnosis::check_installed_providers(
                                is_quick, [&](const std::string& what) { line.show(what); }, machine));
    add(examination.checks, diagnosis::check_home(is_quick, [&](const std::string& what) { line.show(what); }));
  }
  add(examination.checks, diagnosis::check_variables());
  return examination;
}

void print_examination(const Examination& examination, std::size_t problems) {
  Json json;
  json["works"] = examination.processor_works;
  json["problems"] = problems;
  json["machine"] = diagnosis::machine_json(Machine::this_one());
  json["onnxruntime"] = examination.runtime ? diagnosis::to_json(*examination.runtime) : Json(nullptr);
  json["checks"] = Json::array();
  for (const diagnosis::Check& check : examination.checks) {
    json["checks"].push_back({{"area", check.area},
                              {"name", check.name},
                              {"state", to_string(check.state)},
                              {"found", check.found},
                              {"next", check.next}});
  }
  json["providers"] = Json::array();
  for (const ProviderReport& report : examination.reports)
    json["providers"].push_back(diagnosis::to_json(report, flag_name));
  print_json(json);
}

std::string examination_tables(const Examination& examination) {
  std::vector<std::pair<std::string, Table>> tables{
      {"machine", {.head = {}, .rows = diagnosis::machine_rows(Machine::this_one())}}};
  for (const diagnosis::Check& check : examination.checks) {
    if (tables.back().first != check.area) tables.push_back({check.area, {.head = {}, .rows = {}}});
    tables.back().second.rows.push_back({"  " + check.name, to_string(check.state), check.found,
                                         check.next.empty() ? std::string() : "-> " + check.next});
  }
  return sections(tables);
}

void run_doctor(bool is_quick, Context& context) {
  const Examination examination = examine(is_quick, context);
  const auto problems = static_cast<std::size_t>(
      std::count_if(examination.checks.begin(), examination.checks.end(),
                    [](const diagnosis::Check& check) { return check.state == diagnosis::Check::State::problem; }));
  if (context.wants_json()) {
    print_examination(examination, problems);
  } else {
    print_data(examination_tables(examination));
  }
  if (examination.processor_works) {
    say(context, problems == 0 ? std::string("models run here; no problems")
                               : fmt::format("models run here; {}", counted(problems, "problem")));
  } else {
    say(context, "no model can run here: no working ONNX Runtime");
    context.exit_code = static_cast<int>(ErrorCode::provider_unavailable);
  }
}

}  // namespace

void add_doctor(CLI::App& program, Context& context) {
  CLI::App* command =
      add_command(program, context, "doctor", "Check this machine and the store, and print what to do next");
  auto is_quick = std::make_shared<bool>(false);
  command->add_flag("--quick", *is_quick, "do not read the files of stored models");
  command->callback([is_quick, &context] { run_doctor(*is_quick, context); });
}

}  // namespace gpux::cli

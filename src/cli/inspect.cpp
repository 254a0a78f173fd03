#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include <CLI/App.hpp>
#include <fmt/format.h>

#include "cli/command.h"
#include "cli/flag_names.h"
#include "cli/load_flags.h"
#include "cli/model_report.h"
#include "cli/print_json.h"
#include "cli/pull_flag.h"
#include "cli/table.h"
#include "diagnosis/machine_report.h"
#include "gpux/error.h"
#include "gpux/model_inspector.h"
#include "gpux/runtime.h"
#include "model/open_model.h"
#include "pipeline/text_settings.h"
#include "project/signature_match.h"
#include "provider/request.h"
#include "provider/select.h"
#include "runtime/session/steps.h"
#include "runtime/sharing/run_sharing.h"

namespace gpux::cli {
namespace {

struct InspectFlags {
  std::string model, file, config, pull;
  LoadRequest load;
};

bool loads(const InspectFlags& flags) {
  return flags.load.provider.has_value();
}

// They would do nothing, since the file is only read.
void refuse_load_flags(const LoadRequest& flags) {
  const std::vector<std::pair<const char*, bool>> given = {
      {"--provider-library", !flags.provider_libraries.empty()},
      {"--provider-option", !flags.provider_options.empty()},
      {"--strict", flags.strict.has_value()},
      {"--device", flags.device.has_value()},
      {"--memory", flags.memory_bytes.has_value()},
      {"--precision", flags.precision.has_value()},
      {"--min-cosine", flags.min_cosine.has_value()},
      {"--cache-dir", flags.cache_directory.has_value()},
      {"--threads", flags.intra_threads.has_value()},
      {"--inter-threads", flags.inter_threads.has_value()},
      {"--optimization-level", flags.optimization.has_value()},
      {"--session-option", !flags.session_config.empty()},
      {"--custom-ops", !flags.custom_operator_libraries.empty()},
      {"--profile", flags.profile.has_value()},
  };
  for (const auto& [name, is_given] : given) {
    if (is_given) {
      throw Error(ErrorCode::usage,
                  fmt::format("{} means something only where the model is loaded: give --provider too", name));
    }
  }
}

LocatedModel find_model(const InspectFlags& flags) {
  const auto config = flags.config.empty() ? std::nullopt : std::optional<std::filesystem::path>(flags.config);
  if (flags.file.empty()) return locate(flags.model, open_store(), config);
  if (!flags.model.empty()) {
    throw Error(ErrorCode::usage,
                fmt::format("MODEL '{}' and --model '{}' are both given: use one of them", flags.model, flags.file));
  }
  return locate(flags.file, open_store(), config);
}

// Said, and no error: what is wrong is just what one inspects a model for.
std::vector<std::string> problems_of(const LocatedModel& located, const ModelInfo& info) {
  std::vector<std::string> problems;
  if (located.project) problems = compare(*located.project, pipeline::declarable(info.signature, *located.project));
  for (const ExternalFile& file : info.external_files) {
    if (!file.present) problems.push_back(fmt::format("external file '{}' is missing or too short", file.location));
  }
  return problems;
}

// Texts come first: a user with a tokenizer does not write token ids by hand.
void show_texts(const LocatedModel& located, ModelInfo& info, std::vector<std::string>& problems) {
  try {
    if (const auto pipeline = open_pipeline(located, info.signature)) info.signature = pipeline->signature();
  } catch (const Error& error) {
    problems.push_back(message_of(error));
  }
}

// Null where the setting cannot be, which is among the problems.
using Sharing = std::optional<runtime::KnownSharing>;

Sharing sharing_of(const LocatedModel& located, const ModelInfo& info, const Runtime* runtime,
                   std::vector<std::string>& problems) {
  LoadOptions options;
  if (located.project) {
    options.before = located.project->before;
    options.after = located.project->after;
    options.batch_axis = located.project->serving.batch_axis;
    options.batch_axis_from = located.project->where("serving.batch_axis") + ": serving.batch_axis";
  }
  try {
    Sharing known =
        runtime::known_sharing(info, runtime == nullptr ? located.onnx_file : runtime->weights_file(), options);
    // A session knows which of the trials were made with what runs it.
    if (runtime != nullptr && !known->decision) {
      const RunSharing kept = runtime->run_sharing({.requests = 1, .sizes = {}});
      if (kept.source == RunSharing::Source::trial) known->decision = kept;
    }
    return known;
  } catch (const Error& error) {
    problems.push_back(message_of(error));
    return std::nullopt;
  }
}

constexpr const char* undecided = "a trial decides when the model is served, or run on a list";

Json sharing_json(const runtime::KnownSharing& known) {
  if (known.decision) return Json::parse(to_json(*known.decision));
  Json json{{"shared", nullptr}, {"source", "not-proven"}, {"reason", undecided}, {"trials", Json::array()}};
  for (const runtime::KeptTrial& kept : known.trials) {
    Json trial = Json::parse(to_json(runtime::decide_by_trial(kept.trial)));
    trial["provider"] = kept.provider;
    trial["onnxruntime"] = kept.runtime_version;
    json["trials"].push_back(std::move(trial));
  }
  return json;
}

Table sharing_table(const runtime::KnownSharing& known) {
  Table table{.head = {"SHARED", "SOURCE", "PROVIDER", "ONNX RUNTIME", "REASON"}, .rows = {}};
  const auto add = [&](const RunSharing& sharing, const std::string& provider, const std::string& version) {
    table.rows.push_back(
        {sharing.shared ? "yes" : "no", std::string(to_string(sharing.source)), provider, version, sharing.reason});
  };
  if (known.decision) add(*known.decision, "", "");
  for (const runtime::KeptTrial& kept : known.trials) {
    add(runtime::decide_by_trial(kept.trial), kept.provider, kept.runtime_version);
  }
  if (table.rows.empty()) table.rows.push_back({"unknown", "not-proven", "", "", undecided});
  return table;
}

void print_model_json(const LocatedModel& located, const ModelInfo& info, const std::vector<std::string>& problems,
                      const Sharing& sharing, const Runtime* runtime) {
  Json json = Json::parse(ModelInspector::to_json(info));
  const bool file_alone = !located.project && !located.stored;
  if (!file_alone) {
    json = Json{{"config", located.project ? to_json(*located.project) : Json(nullptr)},
                {"model_info", std::move(json)},
                {"package", located.stored ? to_json(*located.stored) : Json(nullptr)}};
  }
  json["run_sharing"] = sharing ? sharing_json(*sharing) : Json(nullptr);
  json["problems"] = problems;
  if (runtime != nullptr) {
    json["placement"] = placement_json(*runtime);
    json["verdict"] = Json::parse(json_text_of(runtime->verdict()));
    json["load_ms"] = runtime->load_time().count();
  }
  print_json(json);
}

void print_model_tables(const LocatedModel& located, const ModelInfo& info, const Sharing& sharing,
                        const Runtime* runtime) {
  Tables tables;
  const ProjectFile* project = located.project ? &*located.project : nullptr;
  if (project != nullptr) append_project_table(*project, tables);
  if (located.stored) append_package_tables(*located.stored, tables);
  append_model_tables(info, project, tables);
  if (sharing) tables.emplace_back("Requests that share a run", sharing_table(*sharing));
  if (runtime != nullptr) append_placement_tables(*runtime, tables);
  print_data(sections(tables));
}

// The models of an ensemble, and what each of their inputs gets.
Table steps_table(const OpenModel& model) {
  Table table{.head = {"STEP", "MODEL", "INPUT", "GETS"}, .rows = {}};
  // NOLINTNEXTLINE(bugprone-unchecked-optional-access): it has steps
  const DeclaredEnsemble& declared = *model.located.project->ensemble;
  for (std::size_t i = 0; i < model.steps.size(); ++i) {
    std::string name = declared.steps[i].name, file = model.steps[i].located.onnx_file.string();
    for (const runtime::PlannedInput& input : model.plan.inputs[i]) {
      std::string gets = model.info.signature.inputs.empty() || input.step
                             ? std::string()
                             : model.info.signature.inputs[input.index].name;
      if (input.step) {
        gets = fmt::format("{}.{}", declared.steps[*input.step].name,
                           model.steps[*input.step].info.signature.outputs[input.index].name);
      }
      table.rows.push_back({std::exchange(name, {}), std::exchange(file, {}), input.name, std::move(gets)});
    }
    if (!name.empty()) table.rows.push_back({std::move(name), std::move(file), "", ""});
  }
  return table;
}

Json steps_json(const OpenModel& model) {
  Json steps = Json::array();
  Json step;
  for (const auto& row : steps_table(model).rows) {
    if (!row[0].empty()) {
      if (!step.is_null()) steps.push_back(std::move(step));
      step = {{"name", row[0]}, {"model", row[1]}, {"inputs", Json::object()}};
    }
    if (!row[2].empty()) step["inputs"][row[2]] = row[3];
  }
  if (!step.is_null()) steps.push_back(std::move(step));
  return steps;
}

void inspect_ensemble(const InspectFlags& flags, LocatedModel located, const Context& context) {
  const OpenModel model = open_model(std::move(located), flags.load);
  std::optional<Runtime> runtime;
  if (loads(flags)) {
    runtime = model.load();
    say(context, line_of(runtime->verdict()));
  }
  if (context.wants_json()) {
    Json json{{"config", {{"name", model.info.name}, {"version", model.info.version}}},
              {"model_info", Json::parse(ModelInspector::to_json(model.info))},
              {"steps", steps_json(model)}};
    if (runtime) {
      json["placement"] = placement_json(*runtime);
      json["verdict"] = Json::parse(json_text_of(runtime->verdict()));
      json["load_ms"] = runtime->load_time().count();
    }
    print_json(json);
    return;
  }
  Tables tables{{"Steps", steps_table(model)}};
  append_model_tables(model.info, nullptr, tables);
  if (runtime) append_placement_tables(*runtime, tables);
  print_data(sections(tables));
}

void inspect_model(const InspectFlags& flags, const Context& context) {
  if (!loads(flags)) refuse_load_flags(flags.load);
  LocatedModel found = find_model(flags);
  if (!found.steps.empty()) return inspect_ensemble(flags, std::move(found), context);
  const LocatedModel located = std::move(found);
  ModelInfo info = ModelInspector::inspect(located.onnx_file);
  if (located.project) {
    info.signature = runtime::with_steps(
        info.signature, LoadOptions{.before = located.project->before, .after = located.project->after});
  }
  info.name = located.name;
  info.version = located.version;
  if (!located.note.empty()) say(context, located.note);
  std::vector<std::string> problems = problems_of(located, info);
  const ModelInfo own = info;  // what runs takes tokens, also where callers give texts
  show_texts(located, info, problems);
  for (const std::string& problem : problems) say(context, problem);
  const std::size_t said = problems.size();

  std::unique_ptr<Runtime> runtime;
  if (loads(flags)) {
    LoadSettings settings = resolve_load(flags.load, located);
    settings.options.expected_sizes = expected_sizes(own.signature, size_facts(located, own.signature));
    runtime = std::make_unique<Runtime>(load_located(located, std::move(settings)));
    say(context, line_of(runtime->verdict()));
  }
  const Sharing sharing = sharing_of(located, own, runtime.get(), problems);
  for (std::size_t i = said; i < problems.size(); ++i) say(context, problems[i]);
  if (context.wants_json()) {
    print_model_json(located, info, problems, sharing, runtime.get());
  } else {
    print_model_tables(located, info, sharing, runtime.get());
  }
}

/// A provider of the default order and what `auto` makes of it.
struct Rank {
  const ProviderReport* report;
  std::string status;
};

std::vector<Rank> priority_of(const std::vector<ProviderReport>& reports) {
  const auto system = provider::this_system();
  std::vector<Rank> ranks;
  for (const provider::Selection::Step& step : provider::select({}, reports, system).steps) {
    for (const ProviderReport& report : reports) {
      if (report.id != step.id) continue;
      const bool is_chosen = step.outcome == ProviderAttempt::Outcome::active;
      std::string status = is_chosen ? "used" : report.available ? "available" : "not available";
      if (!step.reason.empty()) status += ": " + step.reason;
      ranks.push_back({&report, std::move(status)});
    }
  }
  return ranks;
}

void print_machine_json(const std::vector<ProviderReport>& reports, const RuntimeLibrary& library) {
  Json json;
  json["available_providers"] = Json::array();
  json["provider_details"] = Json::object();
  for (const ProviderReport& report : reports) {
    if (report.available) json["available_providers"].push_back(report.ort_name);
    Json details = diagnosis::to_json(report, flag_name);
    details["platform"] = report.systems;
    details["config"] = Json::object();  // what is passed to it unless options are given
    // Two libraries of the user's own may carry one name.
    const bool is_taken = json["provider_details"].contains(report.ort_name);
    json["provider_details"][is_taken ? report.id : report.ort_name] = std::move(details);
  }
  json["priority"] = Json::array();
  int place = 0;
  for (const Rank& rank : priority_of(reports)) {
    json["priority"].push_back({{"priority", ++place},
                                {"provider", rank.report->id},
                                {"name", rank.report->ort_name},
                                {"status", rank.status}});
  }
  json["machine"] = diagnosis::machine_json(Machine::this_one());
  json["machine"]["onnxruntime"] = diagnosis::to_json(library);
  print_json(json);
}

void print_machine_tables(const std::vector<ProviderReport>& reports, const RuntimeLibrary& library) {
  Table available{.head = {"PROVIDER", "AVAILABLE", "PLATFORM", "DESCRIPTION"}, .rows = {}};
  for (const ProviderReport& report : reports) {
    available.rows.push_back({report.id, report.available ? "yes" : "no",
                              fmt::format("{}", fmt::join(report.systems, ", ")), report.description});
  }
  Table priority{.head = {"PRIORITY", "PROVIDER", "STATUS"}, .rows = {}};
  for (const Rank& rank : priority_of(reports)) {
    priority.rows.push_back({std::to_string(priority.rows.size() + 1), rank.report->id, rank.status});
  }
  Table machine{.head = {}, .rows = diagnosis::machine_rows(Machine::this_one())};
  machine.rows.push_back({"ONNX Runtime", fmt::format("{} (API {}), {}: {}", library.version, library.api_version,
                                                      library.origin, library.path.string())});
  print_data(sections({{"Available execution providers", std::move(available)},
                       {"Provider priority of 'auto'", std::move(priority)},
                       {"Machine", std::move(machine)}}));
}

void inspect_machine(const InspectFlags& flags, const Context& context) {
  const LoadRequest& load = flags.load;
  if (loads(flags) || !flags.config.empty()) {
    throw Error(ErrorCode::usage, fmt::format("{} wants a MODEL", loads(flags) ? "--provider" : "--config"));
  }
  LoadRequest others = load;
  others.provider_libraries.clear();
  refuse_load_flags(others);
  const auto reports = ProviderManager(load.provider_libraries).providers();
  if (context.wants_json()) {
    print_machine_json(reports, runtime_library());
  } else {
    print_machine_tables(reports, runtime_library());
  }
}

}  // namespace

void add_inspect(CLI::App& program, Context& context) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* command = add_command(program, context, "inspect",
                                  "Show the inputs, outputs and operators of a model; without MODEL: this machine");
  command->add_option("MODEL", flags->model, "an .onnx file, a folder with gpux.yml, or a name: NAME[:TAG]");
  command->add_option("-m,--model", flags->file, "the same as MODEL");
  command->add_option("-c,--config", flags->config, "another gpux.yml");
  command->add_flag("--json-output,!--no-json-output", context.json, "the same as --json");
  add_pull_flag(*command, flags->pull);
  add_load_flags(*command, flags->load);
  command->footer(
      "With --provider, loads the model and lists the nodes of each provider.\n"
      "Examples:\n"
      "  gpux inspect model.onnx\n"
      "  gpux inspect digits:1.0.0 --provider openvino,cpu --json");
  command->callback([flags, &context] {
    if (flags->model.empty() && flags->file.empty()) {
      inspect_machine(*flags, context);
    } else {
      flags->model = pull_argument(flags->model, flags->pull, context);
      flags->file = pull_argument(flags->file, flags->pull, context);
      inspect_model(*flags, context);
    }
  });
}

}  // namespace gpux::cli

#include <algorithm>
#include <cmath>

#include <CLI/App.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/format_message.h"
#include "base/spelling.h"
#include "cli/bench_output.h"
#include "cli/child.h"
#include "cli/command.h"
#include "cli/flag_names.h"
#include "cli/inputs.h"
#include "cli/load_flags.h"
#include "cli/pull_flag.h"
#include "cli/synthetic_flags.h"
#include "cli/table.h"
#include "evaluation/data_sets.h"
#include "evaluation/reference_run.h"
#include "evaluation/suite.h"
#include "gpux/error.h"
#include "gpux/runtime.h"
#include "model/open_model.h"
#include "provider/absence.h"
#include "runtime/compare.h"

namespace gpux::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int exit_code_differs = 12;

struct VerifyFlags {
  std::string model, config, suite, pull;
  std::string reference = "cpu";
  InputFlags inputs;
  SyntheticFlags synthetic;
  LoadRequest load;
  std::optional<double> relative, absolute;
  std::vector<std::string> cases;
  bool lines = false;
};

/// One output of one data set against one other answer.
struct Row {
  std::string data_set, output, type, against;
  runtime::Tolerance tolerance;
  runtime::Difference difference;
};

runtime::ToleranceOf tolerance_of(const VerifyFlags& flags, runtime::Tolerance (*standard)(ElementType)) {
  return [absolute = flags.absolute, relative = flags.relative, standard](ElementType type) {
    runtime::Tolerance tolerance = standard(type);
    if (absolute) tolerance.absolute = *absolute;
    if (relative) tolerance.relative = *relative;
    return tolerance;
  };
}

void check_tolerance(const char* flag, const std::optional<double>& value) {
  if (value && !(*value >= 0 && std::isfinite(*value))) {
    throw Error(ErrorCode::usage, fmt::format("{} is {}; accepted: 0 or more", flag, *value));
  }
}

/// What is compared, and what was assumed where nobody gave inputs.
struct ComparedInputs {
  std::vector<evaluation::DataSet> sets;
  MadeInputs made;
};

ComparedInputs inputs_to_compare(const VerifyFlags& flags, OpenModel& model) {
  const Signature& signature = model.info.signature;
  const bool made_up = !flags.synthetic.dimensions.empty() || flags.synthetic.seed != 0;
  if (given(flags.inputs)) {
    if (made_up)
      throw Error(ErrorCode::usage, "--dim and --seed are for synthetic inputs, and --input gives other inputs");
    std::vector<evaluation::DataSet> sets;
    model.open_inputs();
    for (const NamedValues& item : model.read(flags.inputs).items) {
      sets.push_back({fmt::format("item {}", sets.size()), model.own_inputs(item), {}});
    }
    if (sets.size() == 1) sets.front().name = "input";
    return {.sets = std::move(sets), .made = {}};
  }
  if (!made_up) {
    auto recorded = evaluation::recorded_data_sets(model.located.onnx_file.parent_path(), signature);
    if (!recorded.empty()) return {.sets = std::move(recorded), .made = {}};
  }
  MadeInputs made = make_inputs(flags.synthetic, model);
  return {.sets = {{"synthetic", made.values, {}}}, .made = std::move(made)};
}

ElementType element_of(const Value& value) {
  if (const Tensor* tensor = value.tensor()) return tensor->type();
  if (const Map* map = value.map()) return map->values.type();
  const Sequence* sequence = value.sequence();
  return sequence == nullptr || sequence->values.empty() ? ElementType::undefined
                                                         : element_of(sequence->values.front());
}

void add_rows(const evaluation::DataSet& set, const NamedValues& expected, const NamedValues& got,
              const std::string& against, const runtime::ToleranceOf& tolerance, std::vector<Row>& rows) {
  for (const auto& [name, value] : expected) {
    const Value* other = find(got, name);
    const ElementType type = element_of(value);
    rows.push_back({set.name, name, std::string(to_string(type)), against, tolerance(type),
                    compare(value, other == nullptr ? Value() : *other, tolerance)});
  }
}

Json to_json(const Row& row) {
  return {{"data_set", row.data_set},
          {"output", row.output},
          {"type", row.type},
          {"against", row.against},
          {"max_absolute", row.difference.max_absolute},
          {"max_relative", row.difference.max_relative},
          {"cosine", row.difference.cosine},
          {"elements", row.difference.elements},
          {"mismatches", row.difference.mismatches},
          {"tolerance", {{"absolute", row.tolerance.absolute}, {"relative", row.tolerance.relative}}},
          {"passed", row.difference.within},
          {"reason", row.difference.reason}};
}

std::string table_of(const std::vector<Row>& rows) {
  Table table;
  table.head = {"data set", "output", "type", "against", "max abs", "max rel", "cosine", "tolerance", "result"};
  for (const Row& row : rows) {
    const runtime::Difference& difference = row.difference;
    table.rows.push_back({row.data_set, row.output, row.type, row.against,
                          fmt::format("{:.3g}", difference.max_absolute),
                          fmt::format("{:.3g}", difference.max_relative), fmt::format("{:.9f}", difference.cosine),
                          fmt::format("{:g} + {:g} rel", row.tolerance.absolute, row.tolerance.relative),
                          difference.within ? "same" : "DIFFERS: " + difference.reason});
  }
  return table.text();
}

std::string names_of(const Verdict& verdict) {
  return verdict.active.empty() ? verdict.requested : join(verdict.active, "+");
}

// Two answers of the CPU would agree, and say nothing of the provider in question.
void require_named(const Verdict& verdict) {
  const std::optional<provider::Absence> absence = provider::absence_of(verdict);
  if (!absence) return;
  throw Error(ErrorCode::provider_unavailable, format_message("nothing to compare: {}", to_line(*absence)));
}

void verify_model(const VerifyFlags& flags, Context& context) {
  OpenModel model = open_model(pull_argument(flags.model, flags.pull, context), flags.config, flags.load);
  require_one_model(model.located, "gpux verify");
  const ComparedInputs inputs = inputs_to_compare(flags, model);
  const runtime::ToleranceOf tolerance = tolerance_of(flags, runtime::provider_tolerance);
  const Runtime runtime = model.load();
  require_named(runtime.verdict());
  evaluation::ReferenceRun reference(model, flags.reference);
  const InferOptions options{.timeout = model.settings.timeout()};
  std::vector<Row> rows;
  for (const evaluation::DataSet& set : inputs.sets) {
    try {
      const NamedValues got = runtime.infer(set.inputs, options);
      add_rows(set, reference.infer(set.inputs, options), got, flags.reference, tolerance, rows);
      add_rows(set, set.outputs, got, "recorded", tolerance, rows);
    } catch (const Error& error) {
      if (const auto named = naming_assumed_sizes(error, inputs.made)) throw Error(*named);
      throw;
    }
  }
  const bool passed = std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.difference.within; });
  if (!passed) context.exit_code = exit_code_differs;

  const bool is_variant = runtime.weights_file() != model.located.onnx_file;
  const std::string compared = fmt::format("{}{} with {}", names_of(runtime.verdict()),
                                           is_variant ? " in " + runtime.verdict().precision : "", reference.active());
  const bool same = !is_variant && names_of(runtime.verdict()) == reference.active();
  say(context, line_of(runtime.verdict()));
  say(context, fmt::format("compared {}{}", compared, same ? ": the same provider, so this says little" : ""));
  if (!context.wants_json()) return print_data(table_of(rows));
  Json json{{"passed", passed}, {"compared", compared}, {"same_provider", same}, {"outputs", Json::array()}};
  for (const Row& row : rows) json["outputs"].push_back(to_json(row));
  json["verdict"] = Json::parse(json_text_of(runtime.verdict()));
  print_data(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

// The worker: a line for each case as it is done, so that a crash loses no other's.
void run_cases_here(const VerifyFlags& flags, const LoadSettings& settings) {
  const InferOptions options{.timeout = settings.timeout()};
  const runtime::ToleranceOf tolerance = tolerance_of(flags, runtime::suite_tolerance);
  for (const std::string& name : flags.cases) {
    print_data(to_line(evaluation::run_case(flags.suite, name, settings.options, options, tolerance)));
  }
}

std::vector<std::string> chosen_cases(const VerifyFlags& flags) {
  const std::vector<std::string> all = evaluation::cases_of(flags.suite);
  for (const std::string& name : flags.cases) {
    if (std::find(all.begin(), all.end(), name) != all.end()) continue;
    const std::string_view near = nearest(name, all);
    throw Error(ErrorCode::not_found, fmt::format("'{}' has no case '{}'{}", flags.suite, name,
                                                  near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
  }
  return flags.cases.empty() ? all : flags.cases;
}

std::string label_of(const evaluation::CaseResult& result) {
  switch (result.outcome) {
    case evaluation::CaseResult::Outcome::passed:
      return "passed";
    case evaluation::CaseResult::Outcome::not_supported:
      return "not supported: " + result.reason;
    case evaluation::CaseResult::Outcome::failed:
      break;
  }
  return "FAILED: " + result.reason;
}

void print_suite(const Context& context, const std::vector<evaluation::CaseResult>& results,
                 const std::string& requested) {
  std::map<evaluation::CaseResult::Outcome, std::size_t> counted;
  std::map<std::string, std::size_t> held;
  for (const evaluation::CaseResult& result : results) {
    ++counted[result.outcome];
    for (const std::string& provider : result.active) ++held[provider];
  }
  const std::size_t passed = counted[evaluation::CaseResult::Outcome::passed];
  const std::size_t not_supported = counted[evaluation::CaseResult::Outcome::not_supported];
  std::string line = fmt::format("{} of {} cases passed, asked for {}", passed, results.size(), requested);
  if (not_supported != 0) line += fmt::format("; {} not supported by it", not_supported);
  for (const auto& [provider, count] : held) line += fmt::format("; {} held nodes of {}", provider, count);
  if (context.wants_json()) {
    Json json{{"provider", requested}, {"cases", Json::array()}};
    for (const evaluation::CaseResult& result : results) json["cases"].push_back(Json::parse(to_line(result)));
    json["passed"] = passed;
    json["failed"] = counted[evaluation::CaseResult::Outcome::failed];
    json["not_supported"] = not_supported;
    json["cases_held_by"] = held;
    print_data(json.dump());
  } else {
    Table table;
    table.head = {"case", "ran on", "result"};
    for (const evaluation::CaseResult& result : results) {
      table.rows.push_back({result.name, result.active.empty() ? "-" : join(result.active), label_of(result)});
    }
    print_data(table.text());
  }
  say(context, line);
}

void verify_suite(const VerifyFlags& flags, const CLI::App& command, Context& context) {
  if (!flags.model.empty()) throw Error(ErrorCode::usage, "--suite and MODEL are two ways: use one of them");
  if (given(flags.inputs) || !flags.synthetic.dimensions.empty()) {
    throw Error(ErrorCode::usage, "--suite brings its own inputs: leave out --input and --dim");
  }
  const LoadSettings settings = resolve_load(flags.load, LocatedModel{});
  if (flags.lines) return run_cases_here(flags, settings);
  const std::vector<std::string> names = chosen_cases(flags);
  std::vector<std::string> arguments{"verify", "--lines"};
  const std::vector<std::string> typed = typed_arguments(command, {"case", "json", "table"});
  arguments.insert(arguments.end(), typed.begin(), typed.end());
  const auto results =
      evaluation::run_cases(names, arguments, [&](double done) { draw_progress(context, done, "running the cases"); });
  const auto is = [](evaluation::CaseResult::Outcome outcome) {
    return [outcome](const evaluation::CaseResult& result) { return result.outcome == outcome; };
  };
  if (std::ranges::any_of(results, is(evaluation::CaseResult::Outcome::failed))) {
    context.exit_code = exit_code_differs;
  } else if (std::ranges::none_of(results, is(evaluation::CaseResult::Outcome::passed))) {
    context.exit_code = static_cast<int>(ErrorCode::provider_unavailable);
  }
  print_suite(context, results, settings.options.provider);
}

void verify(const VerifyFlags& flags, const CLI::App& command, Context& context) {
  check_tolerance("--rtol", flags.relative);
  check_tolerance("--atol", flags.absolute);
  if (!flags.suite.empty()) return verify_suite(flags, command, context);
  if (flags.model.empty()) throw Error(ErrorCode::usage, "verify needs a MODEL, or --suite DIR");
  if (!flags.cases.empty()) throw Error(ErrorCode::usage, "--case chooses from a --suite");
  verify_model(flags, context);
}

}  // namespace

void add_verify(CLI::App& program, Context& context) {
  auto flags = std::make_shared<VerifyFlags>();
  CLI::App* command =
      add_command(program, context, "verify",
                  "Compare the outputs of a provider with those of the CPU; exit code 12 if they differ");
  command->add_option("MODEL", flags->model, "an .onnx file, a folder with gpux.yml, or a name: NAME[:TAG]");
  command->add_option("--reference", flags->reference, "the provider to compare with (default cpu)");
  add_input_flags(*command, flags->inputs);
  add_synthetic_flags(*command, flags->synthetic);
  command->add_option("--rtol", flags->relative, "relative tolerance of all number types");
  command->add_option("--atol", flags->absolute, "absolute tolerance of all number types");
  command->add_option("--suite", flags->suite,
                      "a folder of cases like the ONNX project's: CASE/model.onnx, test_data_set_N");
  command->add_option("--case", flags->cases, "only this case of the suite; repeatable")->allow_extra_args(false);
  command->add_flag("--lines", flags->lines)->group("");
  command->add_option("-c,--config", flags->config, "another gpux.yml");
  add_timeout_flag(*command, flags->load);
  add_pull_flag(*command, flags->pull);
  add_load_flags(*command, flags->load);
  command->callback([flags, command, &context] { verify(*flags, *command, context); });
}

}  // namespace gpux::cli

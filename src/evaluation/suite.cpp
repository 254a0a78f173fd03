#include "evaluation/suite.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/format_message.h"
#include "base/own_program.h"
#include "base/spelling.h"
#include "evaluation/data_sets.h"
#include "gpux/error.h"
#include "gpux/runtime.h"
#include "provider/absence.h"

namespace gpux::evaluation {
namespace {

constexpr std::size_t cases_per_process = 64;
constexpr std::chrono::minutes process_limit{10};

std::string difference_of(const DataSet& set, const NamedValues& got, const runtime::ToleranceOf& tolerance) {
  std::vector<std::string> reasons;
  for (const auto& [name, expected] : set.outputs) {
    const Value* value = find(got, name);
    const runtime::Difference difference = compare(expected, value == nullptr ? Value() : *value, tolerance);
    if (!difference.within) reasons.push_back(fmt::format("output '{}': {}", name, difference.reason));
  }
  return join(reasons, "; ");
}

// Whether the suite is asked of one provider, and not of whatever runs here: what ONNX Runtime itself cannot load is
// then nothing that this one gets wrong.
bool asks_one_provider(const LoadOptions& options) {
  const std::string first = lower(split(options.provider, ',').front());
  return first != "cpu" && first != "cpuexecutionprovider" && first != "auto" && first != "fastest";
}

// Error provider_unavailable where no requested provider can be used on this machine: that is no case's result.
void require_installed(const Verdict& verdict) {
  const std::optional<provider::Absence> absence = provider::absence_of(verdict);
  if (!absence || absence->cause != provider::Absence::Cause::unavailable) return;
  throw Error(ErrorCode::provider_unavailable, format_message("no case was run: {}", to_line(*absence)));
}

// The same after a load failed: a strict one fails alike where the provider is absent and where it takes no node.
void require_installed(const std::filesystem::path& model, LoadOptions options) {
  options.strict = Strictness::off;
  try {
    require_installed(Runtime(model, options).verdict());
  } catch (const Error& error) {
    if (error.code() == ErrorCode::provider_unavailable) throw;
  }
}

// Reports where the requested provider holds nothing of the model. True: there is nothing to run.
bool report_absence(const Verdict& verdict, CaseResult& result) {
  const std::optional<provider::Absence> absence = provider::absence_of(verdict);
  if (!absence || (verdict.placement_known && verdict.node_count == 0)) return false;
  result.reason = absence->reason;
  if (absence->cause == provider::Absence::Cause::no_nodes) result.outcome = CaseResult::Outcome::not_supported;
  return true;
}

// Empty where all is as recorded.
std::string run_data_sets(const std::filesystem::path& folder, const Runtime& runtime, const InferOptions& run,
                          const runtime::ToleranceOf& tolerance) {
  const std::vector<DataSet> sets = recorded_data_sets(folder, runtime.info().signature);
  if (sets.empty()) return "no test_data_set_0";
  for (const DataSet& set : sets) {
    if (set.outputs.empty()) return fmt::format("{} has no output_0.pb", set.name);
    std::string difference = difference_of(set, runtime.infer(set.inputs, run), tolerance);
    if (!difference.empty()) return difference;
  }
  return {};
}

// The lines of a child that are whole results, in the order of the names.
std::vector<CaseResult> results_of(const std::string& output) {
  std::vector<CaseResult> results;
  for (std::size_t begin = 0; begin < output.size();) {
    const std::size_t end = output.find('\n', begin);
    if (end == std::string::npos) break;
    CaseResult result = case_from_line(std::string_view(output).substr(begin, end - begin));
    if (!result.name.empty()) results.push_back(std::move(result));
    begin = end + 1;
  }
  return results;
}

CaseResult::Outcome outcome_of(const std::string& word) {
  using Outcome = CaseResult::Outcome;
  for (const Outcome outcome : {Outcome::passed, Outcome::not_supported}) {
    if (word == to_string(outcome)) return outcome;
  }
  return Outcome::failed;
}

}  // namespace

std::vector<std::string> cases_of(const std::filesystem::path& suite) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(suite, error)) {
    std::error_code ignored;
    if (std::filesystem::exists(entry.path() / "model.onnx", ignored)) {
      names.push_back(entry.path().filename().string());
    }
  }
  if (error) throw_file_error("read", suite, error.value());
  if (names.empty()) {
    throw Error(ErrorCode::invalid_input,
                format_message("'{}' holds no case: folders with a model.onnx and test_data_set_0", file_at(suite)));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string_view to_string(CaseResult::Outcome outcome) {
  switch (outcome) {
    case CaseResult::Outcome::passed:
      return "passed";
    case CaseResult::Outcome::failed:
      return "failed";
    case CaseResult::Outcome::not_supported:
      return "not_supported";
  }
  return "failed";
}

CaseResult run_case(const std::filesystem::path& suite, const std::string& name, const LoadOptions& options,
                    const InferOptions& run, const runtime::ToleranceOf& tolerance) {
  CaseResult result;
  result.name = name;
  const std::filesystem::path folder = suite / name;
  std::optional<Runtime> runtime;
  try {
    runtime.emplace(folder / "model.onnx", options);
    require_installed(runtime->verdict());
    result.active = runtime->verdict().active;
    if (report_absence(runtime->verdict(), result)) return result;
    result.reason = run_data_sets(folder, *runtime, run, tolerance);
    if (result.reason.empty()) result.outcome = CaseResult::Outcome::passed;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::provider_unavailable) require_installed(folder / "model.onnx", options);
    result.reason = error.message();
    const bool nobody_loads_it = !runtime && error.code() == ErrorCode::invalid_model;
    if (nobody_loads_it && asks_one_provider(options)) result.outcome = CaseResult::Outcome::not_supported;
  } catch (const std::exception& error) {
    result.reason = fmt::format("a bug in gpux: {}", error.what());
  }
  return result;
}

std::string to_line(const CaseResult& result) {
  const nlohmann::ordered_json json{{"name", result.name},
                                    {"outcome", to_string(result.outcome)},
                                    {"passed", result.outcome == CaseResult::Outcome::passed},
                                    {"reason", result.reason},
                                    {"active", result.active}};
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

CaseResult case_from_line(std::string_view line) {
  CaseResult result;
  try {
    const auto json = nlohmann::ordered_json::parse(line);
    result.outcome = outcome_of(json.at("outcome"));
    result.reason = json.at("reason");
    result.active = json.at("active");
    result.name = json.at("name");
  } catch (const nlohmann::ordered_json::exception&) {
    return {};
  }
  return result;
}

std::vector<CaseResult> run_cases(const std::vector<std::string>& names, const std::vector<std::string>& arguments,
                                  const std::function<void(double done)>& progress) {
  std::vector<CaseResult> results;
  while (results.size() < names.size()) {
    progress(static_cast<double>(results.size()) / static_cast<double>(names.size()));
    const std::size_t end = std::min(names.size(), results.size() + cases_per_process);
    std::vector<std::string> call = arguments;
    for (std::size_t i = results.size(); i < end; ++i) call.push_back("--case=" + names[i]);
    const ProcessResult child = run_child(std::move(call), process_limit);
    std::vector<CaseResult> part = results_of(child.standard_output);
    const bool stuck = part.empty();
    // Where others came before, a case that was cut off by the limit is given a process of its own.
    const bool blame = part.size() < end - results.size() && (stuck || !child.timed_out);
    std::move(part.begin(), part.end(), std::back_inserter(results));
    if (!blame) continue;
    const Error error = child_error(child);
    const bool of_every_case = error.code() == ErrorCode::usage || error.code() == ErrorCode::provider_unavailable;
    if (stuck && of_every_case) throw error;
    results.push_back({names[results.size()], CaseResult::Outcome::failed, error.message(), {}});
  }
  progress(1);
  return results;
}

}  // namespace gpux::evaluation

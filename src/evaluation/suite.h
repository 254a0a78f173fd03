#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "gpux/options.h"
#include "runtime/compare.h"

namespace gpux::evaluation {

/// Result of one test case of a suite.
struct CaseResult {
  enum class Outcome : unsigned char {
    passed,
    failed,
    not_supported,  ///< the requested provider took no node of it, or ONNX Runtime does not load it
  };

  std::string name;
  Outcome outcome = Outcome::failed;
  std::string reason;               ///< empty where passed
  std::vector<std::string> active;  ///< the providers that held its nodes; empty where it did not load
};

/// Names of the folders in `suite` that hold a model.onnx, sorted. Errors not_found, invalid_input (no cases), storage.
std::vector<std::string> cases_of(const std::filesystem::path& suite);

/// Name of the outcome: "passed", "failed", "not_supported".
std::string_view to_string(CaseResult::Outcome outcome);

/// Runs one case here, where the provider that `options` asks for holds some of it: each recorded data set, its outputs
/// compared with the recorded ones. What is wrong with a case is its result. Error provider_unavailable where no
/// requested provider can be used on this machine.
CaseResult run_case(const std::filesystem::path& suite, const std::string& name, const LoadOptions& options,
                    const InferOptions& run, const runtime::ToleranceOf& tolerance);

/// One line of JSON, and back. An empty name where the line is none.
std::string to_line(const CaseResult& result);
CaseResult case_from_line(std::string_view line);

/// Runs all cases in child processes, some at a time; one that ends its process is a failed case and the rest goes on.
/// `arguments`: what makes a gpux print a line for each --case that is added to them.
std::vector<CaseResult> run_cases(const std::vector<std::string>& names, const std::vector<std::string>& arguments,
                                  const std::function<void(double done)>& progress);

}  // namespace gpux::evaluation

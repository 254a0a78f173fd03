#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/process.h"
#include "gpux/error.h"
#include "ort/installed_providers.h"

namespace gpux::installation {

/// Where packages come from.
struct Source {
  std::filesystem::path folder;  ///< wheels in a folder, and no network; empty: the index that the user's pip has
};

/// Arguments of pip that resolve the requirements and write into `report` what would be installed. Pure.
std::vector<std::string> planning_arguments(std::span<const std::string> requirements, const Source& source,
                                            const std::filesystem::path& report);

/// Arguments of pip that unpack the packages of the file of requirements into `target`. Pure.
std::vector<std::string> unpacking_arguments(const std::filesystem::path& requirements, const Source& source,
                                             const std::filesystem::path& target);

/// Packages in pip's report, in the order of the requirements. Error network where the report is none, lacks one of
/// them, or lacks a digest. Pure.
std::vector<ort::InstalledPackage> read_plan(std::string_view report, std::span<const std::string> requirements);

/// A file of requirements that lets pip unpack just these packages, with these digests. Pure.
std::string pinned_requirements(std::span<const ort::InstalledPackage> packages);

/// pip's failure as an error of one line: network, storage, permission, not_found (no such version, or no wheel for
/// this system). `what`: what was attempted. Pure.
Error explain_failure(const std::string& what, const ProcessResult& result, const Source& source);

/// Python's program and arguments that run pip with these arguments. Of Python's modules none is taken from the current
/// folder, which may be a stranger's. Pure.
std::vector<std::string> client_command(std::vector<std::string> arguments);

/// "pip 23.2.1". Error deadline_exceeded where it does not answer; not_found where there is no python3, no pip in it,
/// or too old a one: says what to type.
std::string client_version();

/// Runs pip with these arguments; its temporary files are in `scratch`. Errors of explain_failure().
void run_client(const std::string& what, std::vector<std::string> arguments, const Source& source,
                const std::filesystem::path& scratch);

}  // namespace gpux::installation

#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "gpux/error.h"

namespace gpux::fuzz {

/// What a fuzzer does with one input; each NAME.cpp defines it. gpux::Error is an ordinary outcome, as long as it says
/// one line of text and is no defect of gpux. Everything else that is thrown, and each broken expectation, is a
/// finding.
void read_hostile(std::string_view input);

/// Ends the process, saying `what`, where `holds` is false.
void require(bool holds, std::string_view what);

/// The result of what must succeed once the input was accepted: here an Error is a finding.
template <typename Call>
auto must_succeed(std::string_view what, const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    require(false, std::string(what) + ": " + error.message());
    throw;
  }
}

/// A folder for files that have to be on a disk, in memory where the system has that. Goes with the process.
const std::filesystem::path& scratch_folder();

}  // namespace gpux::fuzz

#pragma once

#include <string>

#include "gpux/error.h"
#include "gpux/verdict.h"

namespace gpux::cli {

/// Name of a subject of a message on the command line: "--verify-key" for the setting verify_key. Pure.
std::string flag_name(const Subject& subject);

/// The message of an error as the command line prints it. Pure.
std::string message_of(const Error& error);

/// A verdict as the command line prints it: to_line() and to_json(). Pure.
std::string line_of(const Verdict& verdict);
std::string json_text_of(const Verdict& verdict);

}  // namespace gpux::cli

#pragma once

#include <string>

#include "gpux/error.h"

namespace gpux::cli {

/// Name of a subject of a message on the command line: "--verify-key" for the setting verify_key. Pure.
std::string flag_name(const Subject& subject);

/// The message of an error as the command line prints it. Pure.
std::string message_of(const Error& error);

}  // namespace gpux::cli

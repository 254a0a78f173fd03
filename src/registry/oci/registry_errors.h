#pragma once

#include <string>
#include <string_view>

#include "gpux/error.h"

namespace gpux::oci {

/// Error text in the body of a registry's answer: "DENIED: requested access is denied", in quotes; empty if the body is
/// something else.
std::string error_text(std::string_view body);

/// The error that a status means. `attempt` is what was attempted: "cannot push 'host/digits:1'".
Error error_of_status(const std::string& attempt, int status, std::string_view body);

}  // namespace gpux::oci

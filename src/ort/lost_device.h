#pragma once

#include <string_view>

#include "gpux/error.h"

namespace gpux::ort {

/// Whether the error of a run means that this process can no longer use the device: every later call fails, too, until
/// another process begins anew. By the texts, names and numbers of the errors that the vendors document so. Pure.
bool names_lost_device(std::string_view message);

/// Whether an error of ONNX Runtime reports a lost device. Only errors about the provider count, and not the text that
/// they quote, such as names of nodes, which may come from a client. Pure.
bool reports_lost_device(ErrorCode code, std::string_view message);

/// Whether an error is about a device that this process can no longer use: those that translate() makes.
bool is_lost_device(const Error& error) noexcept;

}  // namespace gpux::ort

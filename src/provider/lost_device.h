#pragma once

#include <string_view>

namespace gpux::provider {

/// Whether the error of a run means that this process can no longer use the device: every later call fails, too, until
/// another process begins anew. By the texts, names and numbers of the errors that the vendors document so. Pure.
bool names_lost_device(std::string_view message);

}  // namespace gpux::provider

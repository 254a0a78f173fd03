#pragma once

#include <string_view>

#include "gpux/error.h"
#include "gpux/verdict.h"

namespace gpux::provider {

/// Whether the error of a run means that this process can no longer use the device: every later call fails, too, until
/// another process begins anew. By the texts, names and numbers of the errors that the vendors document so. Pure.
bool names_lost_device(std::string_view message);

/// The same of an error of a run: only those about the provider count, and nothing that they quote, as the names of
/// nodes. The words of others may be a client's. Pure.
bool is_lost_device(const Error& error);

/// Whether there is anything to lose: a provider other than the CPU's is in the session. Pure.
bool can_lose_device(const Verdict& verdict);

}  // namespace gpux::provider

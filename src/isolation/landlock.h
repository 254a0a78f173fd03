#pragma once

#include <string>

#include "isolation/sandbox_plan.h"

namespace gpux::isolation {

/// The Landlock ABI of the kernel; 0 without Landlock. `why`: what the kernel answered then.
unsigned landlock_abi(std::string& why);

/// From now on this thread, and those that it starts, may only use the plan's paths, connect to no TCP port, and signal
/// no process outside; as far as the ABI has these. Requires no_new_privs. Returns what failed; empty: nothing.
std::string restrict_paths(const SandboxPlan& plan, unsigned abi);

}  // namespace gpux::isolation

#pragma once

#include <string>

namespace gpux::isolation {

/// From now on all threads of this process get EPERM from the system calls that start programs and processes, make
/// sockets, look into or signal other processes, change the system, or reach what no path rule covers; clone3 does not
/// exist, so that threads are started with clone. Requires no_new_privs. Returns what failed; empty: nothing.
std::string filter_system_calls();

}  // namespace gpux::isolation

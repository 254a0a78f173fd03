#pragma once

#include <string_view>

namespace gpux::cli {

/// Tells systemd, where it started this process with Type=notify: "READY=1", "STOPPING=1", "STATUS=…" (sd_notify(3)).
/// Without effect elsewhere.
void notify_systemd(std::string_view state);

}  // namespace gpux::cli

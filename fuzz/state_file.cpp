// A state file of the daemon.
#include "daemon/state_file.h"

#include "fuzzer.h"

void gpux::fuzz::read_hostile(std::string_view input) {
  const daemon::StateFile state = daemon::parse_state_file(input, "/state.json");
  require(!state.sources.empty(), "it has no sources");
  require(state.output.is_absolute(), "its output depends on where it is read");
}

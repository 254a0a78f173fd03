#pragma once

#include "daemon/spooled_source.h"

namespace gpux::daemon {

/// Signals of D-Bus. Each becomes {"plugin": its interface, "operation": its member, "data": {"arg0": …, "arg1": …},
/// "metadata": {"path", "sender"}} and is in the journal before the next are read. Where the bus goes it is looked for
/// again.
class BusSource final : public SpooledSource {
 public:
  using SpooledSource::SpooledSource;

 private:
  class Connection;

  void accept(const std::stop_token& stop) override;
  void take(Connection& connection, const std::stop_token& stop);
};

}  // namespace gpux::daemon

#pragma once

#include <optional>
#include <string>

#include "gpux/verdict.h"

namespace gpux::provider {

/// Why no provider that a request names runs the model.
struct Absence {
  /// What the machine and the model have to do with it.
  enum class Cause : unsigned char {
    unavailable,  ///< none of the named providers can be used on this machine, whatever the model
    no_nodes,     ///< those that can be used took no node of this model
    failed,       ///< one of them was available and no session could be made with it
  };

  std::string reason;  ///< "openvino did not run: no OpenVINO library on this machine"
  Message remedy;      ///< may be empty
  Cause cause = Cause::unavailable;
};

/// Empty where a named provider holds nodes, and where the request names none: auto, fastest and cpu.
/// A single name must run itself, not its fallbacks; of a list one must run, cpu left out; of "gpu" and "npu" any
/// accelerator. Pure.
std::optional<Absence> absence_of(const Verdict& verdict);

/// The reason and the remedy in one line.
Message to_line(const Absence& absence);

}  // namespace gpux::provider

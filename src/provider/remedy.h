#pragma once

#include <string>
#include <string_view>

#include "base/machine.h"

namespace gpux::provider {

/// A remedy as it has to be typed on the machine: Debian's Python takes "pip install" only with further words, and may
/// lack pip. Remedies that are no such command come back as they are.
std::string remedy_on(const Machine& machine, std::string_view remedy);

}  // namespace gpux::provider

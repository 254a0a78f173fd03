#include "store/variant.h"

#include <algorithm>

#include <sys/utsname.h>

#include "base/machine.h"

namespace gpux {

const Variant* choose_variant(std::span<const Variant> variants, const VariantTarget& target) noexcept {
  const auto found = std::find_if(variants.begin(), variants.end(), [&](const Variant& variant) {
    return !variant.precision && variant.target == target;
  });
  return found == variants.end() ? nullptr : &*found;
}

std::string machine_fingerprint() {
  struct utsname system {};

  const std::string architecture = ::uname(&system) == 0 ? system.machine : "unknown";
  return architecture + "/" + processor_name(Machine::this_one());
}

}  // namespace gpux

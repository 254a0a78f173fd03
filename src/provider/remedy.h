#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/machine.h"
#include "gpux/error.h"

namespace gpux::provider {

/// Remedies as they have to be typed on the machine, which must outlive this: "gpux providers install" uses pip, which
/// Debian's Python may lack. That is looked up once. Remedies that are no such command come back as they are.
class Remedies {
 public:
  explicit Remedies(const Machine& machine) : machine_(machine) {}

  std::string as_typed(std::string_view remedy);

 private:
  const Machine& machine_;
  std::optional<bool> has_pip_;  // empty: not looked up yet
};

/// For a provider that needs another ONNX Runtime than the open one. Pure.
Message ask_first(std::string_view id);

/// A single one.
std::string remedy_on(const Machine& machine, std::string_view remedy);

}  // namespace gpux::provider

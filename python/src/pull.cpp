#include <gpux/pull.h>

#include <nanobind/stl/string.h>

#include "bindings.h"
#include "interrupt.h"

namespace gpux::python {
namespace {

namespace nb = nanobind;

StoredPackage pull_model(const std::string& reference, const std::string& name, const std::string& file,
                         const std::string& precision, const std::string& sha256, unsigned connections,
                         const std::string& home, nb::object progress) {
  PullOptions options;
  options.name = name;
  options.file = file;
  options.precision = precision;
  options.sha256 = sha256;
  options.connections = connections;
  options.home = home;
  PullListener listener;
  if (!progress.is_none()) {
    listener.on_progress = [&progress](const PullProgress& state) {
      const nb::gil_scoped_acquire acquired;
      progress(state.file, state.done, state.bytes);
    };
  }
  return without_gil([&](const Interruptible& interruptible) {
    return pull(reference, options, listener, interruptible.token()).package;
  });
}

}  // namespace

void bind_pull(nb::module_& module) {
  module.def("pull", &pull_model, nb::arg("reference"), nb::arg("name"), nb::arg("file"), nb::arg("precision"),
             nb::arg("sha256"), nb::arg("connections"), nb::arg("home"), nb::arg("progress").none());
}

}  // namespace gpux::python

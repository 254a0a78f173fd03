#include <gpux/pull.h>
#include <gpux/push.h>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "interrupt.h"

namespace gpux::python {
namespace {

namespace nb = nanobind;

// `progress` has to outlive it.
PullListener listener_of(const nb::object& progress) {
  PullListener listener;
  if (progress.is_none()) return listener;
  listener.on_progress = [&progress](const PullProgress& state) {
    const nb::gil_scoped_acquire acquired;
    progress(state.file, state.done, state.bytes);
  };
  return listener;
}

StoredPackage pull_model(const std::string& reference, const std::string& name, const std::string& file,
                         const std::string& precision, const std::string& sha256, unsigned connections,
                         const std::string& home, const std::string& verify_key, nb::object progress) {
  PullOptions options;
  options.verify_key = verify_key;
  options.name = name;
  options.file = file;
  options.precision = precision;
  options.sha256 = sha256;
  options.connections = connections;
  options.home = home;
  const PullListener listener = listener_of(progress);
  return without_gil([&](const Interruptible& interruptible) {
    return pull(reference, options, listener, interruptible.token()).package;
  });
}

PushedModel push_model(const std::string& name, const std::string& sign_key, const std::string& home,
                       nb::object progress) {
  PushOptions options;
  options.sign_key = sign_key;
  options.home = home;
  const PullListener listener = listener_of(progress);
  return without_gil(
      [&](const Interruptible& interruptible) { return push(name, options, listener, interruptible.token()); });
}

std::vector<StoredPackage> save(const std::vector<std::string>& models, const std::string& file,
                                const std::string& home) {
  return without_gil([&](const Interruptible& /*unused*/) { return save_packages(models, file, home); });
}

std::vector<StoredPackage> load(const std::string& file, const std::vector<std::string>& names,
                                const std::string& home) {
  return without_gil([&](const Interruptible& /*unused*/) { return load_packages(file, names, home); });
}

}  // namespace

void bind_pull(nb::module_& module) {
  module.def("pull", &pull_model, nb::arg("reference"), nb::arg("name"), nb::arg("file"), nb::arg("precision"),
             nb::arg("sha256"), nb::arg("connections"), nb::arg("home"), nb::arg("verify_key"),
             nb::arg("progress").none());
  nb::class_<PushedModel>(module, "PushedModel", "What a push did.")
      .def_ro("name", &PushedModel::name, "\"registry.example/team/digits:1.0.0\"")
      .def_ro("digest", &PushedModel::digest, "Of the manifest: \"sha256:\" and 64 hexadecimal digits.")
      .def_ro("existed", &PushedModel::existed, "Contents that the repository had.")
      .def_ro("mounted", &PushedModel::mounted, "Contents that another repository of the registry had.")
      .def_ro("sent", &PushedModel::sent, "Contents that were uploaded.")
      .def_ro("sent_bytes", &PushedModel::sent_bytes)
      .def_ro("signature_tag", &PushedModel::signature_tag, "Empty: not signed.")
      .def("__repr__", [](const PushedModel& pushed) { return pushed.name; });
  module.def("push", &push_model, nb::arg("name"), nb::arg("sign_key"), nb::arg("home"), nb::arg("progress").none());
  module.def("save_packages", &save, nb::arg("models"), nb::arg("file"), nb::arg("home"));
  module.def("load_packages", &load, nb::arg("file"), nb::arg("names"), nb::arg("home"));
}

}  // namespace gpux::python

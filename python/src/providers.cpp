#include <gpux/provider_manager.h>

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"

namespace gpux::python {
namespace {

namespace nb = nanobind;

std::vector<ProviderLibrary> libraries_of(const std::vector<std::pair<std::string, std::filesystem::path>>& given) {
  std::vector<ProviderLibrary> libraries;
  for (const auto& [name, path] : given) libraries.push_back({name, path});
  return libraries;
}

}  // namespace

void bind_providers(nb::module_& module) {
  nb::class_<ProviderReport>(module, "ProviderReport",
                             "The requirements of one execution provider, and whether this machine meets them.")
      .def_ro("id", &ProviderReport::id)
      .def_ro("aliases", &ProviderReport::aliases)
      .def_ro("ort_name", &ProviderReport::ort_name)
      .def_ro("kind", &ProviderReport::kind, "\"gpu\", \"npu\" or \"cpu\"")
      .def_ro("description", &ProviderReport::description)
      .def_ro("systems", &ProviderReport::systems)
      .def_ro("available", &ProviderReport::available)
      .def_ro("accelerated", &ProviderReport::accelerated, "Available on a GPU or NPU.")
      .def_ro("reason", &ProviderReport::reason, "If not available: why, in one sentence.")
      .def_prop_ro(
          "remedy", [](const ProviderReport& report) { return to_string(report.remedy); },
          "If not available: what to do about it.")
      .def_ro("note", &ProviderReport::note, "If available: what else is worth knowing; may be empty.")
      .def_ro("devices", &ProviderReport::devices)
      .def_ro("source", &ProviderReport::source, "\"built in\", \"bridge\", \"plugin\" or empty.")
      .def_ro("library", &ProviderReport::library)
      .def_ro("option_names", &ProviderReport::option_names)
      .def("__repr__", [](const ProviderReport& report) {
        return report.id + ": " + (report.available ? "available" : report.reason);
      });

  using Libraries = std::vector<std::pair<std::string, std::filesystem::path>>;
  module.def(
      "providers",
      [](const Libraries& libraries) {
        const nb::gil_scoped_release released;
        return ProviderManager(libraries_of(libraries)).providers();
      },
      nb::arg("libraries"), "All known providers, in the default order.");
  module.def(
      "select_providers",
      [](const std::string& request, const Libraries& libraries) {
        const nb::gil_scoped_release released;
        return ProviderManager(libraries_of(libraries)).select(request);
      },
      nb::arg("request"), nb::arg("libraries"), "The ids that a request would use, in order.");

  nb::class_<RuntimeLibrary>(module, "RuntimeLibrary", "The ONNX Runtime library that this process uses.")
      .def_ro("version", &RuntimeLibrary::version)
      .def_ro("path", &RuntimeLibrary::path)
      .def_ro("origin", &RuntimeLibrary::origin, "Where it was found: \"Python package\", …")
      .def("__repr__", [](const RuntimeLibrary& library) { return library.version + " " + library.path.string(); });
  module.def(
      "runtime_library",
      [] {
        const nb::gil_scoped_release released;
        return runtime_library();
      },
      "Opens ONNX Runtime if it is not open yet.");
}

}  // namespace gpux::python

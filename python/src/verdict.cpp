#include <gpux/verdict.h>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"

namespace gpux::python {

namespace nb = nanobind;

void bind_verdict(nb::module_& module) {
  nb::class_<Device>(module, "Device", "A device that a provider can use.")
      .def_ro("kind", &Device::kind, "\"gpu\", \"npu\" or \"cpu\"")
      .def_ro("name", &Device::name)
      .def_ro("vendor", &Device::vendor)
      .def_ro("index", &Device::index, "Among the provider's devices.")
      .def_ro("memory_bytes", &Device::memory_bytes, "Of its own; 0: not known, or none.")
      .def_ro("driver", &Device::driver, "Version of its driver; empty if not known.")
      .def_ro("architecture", &Device::architecture, "\"sm_90\", …; empty if not known.")
      .def_ro("address", &Device::address, "On the PCI bus; empty if not known.")
      .def("__repr__", [](const Device& device) { return device.kind + " " + device.name; });

  nb::class_<ProviderAttempt>(module, "ProviderAttempt", "The outcome of one provider of the request.")
      .def_ro("id", &ProviderAttempt::id)
      .def_ro("ort_name", &ProviderAttempt::ort_name)
      .def_prop_ro(
          "outcome", [](const ProviderAttempt& attempt) { return std::string(to_string(attempt.outcome)); },
          "\"active\", \"no_nodes\", \"unavailable\", \"failed\" or \"not_needed\"")
      .def_ro("reason", &ProviderAttempt::reason, "One sentence; empty if active.")
      .def_prop_ro(
          "remedy", [](const ProviderAttempt& attempt) { return to_string(attempt.remedy); },
          "What to do; may be empty.")
      .def_ro("source", &ProviderAttempt::source, "\"built in\", \"bridge\", \"plugin\" or empty.")
      .def_ro("devices", &ProviderAttempt::devices)
      .def_ro("device", &ProviderAttempt::device, "The one that the session is on; None if not known.")
      .def_ro("options", &ProviderAttempt::options, "Passed to the provider.")
      .def_ro("node_count", &ProviderAttempt::node_count)
      .def_ro("node_share", &ProviderAttempt::node_share, "Of all nodes of the session, 0 to 1.")
      .def("__repr__", [](const ProviderAttempt& attempt) { return attempt.id + ": " + to_string(attempt.outcome); });

  nb::class_<Verdict>(module, "Verdict",
                      "Where a model runs: the request, the providers tried, and the placement that the session "
                      "reports. str() gives one line.")
      .def_ro("requested", &Verdict::requested, "\"auto\", \"cuda\", …")
      .def_ro("requested_from", &Verdict::requested_from, "The source of the request.")
      .def_ro("tried", &Verdict::tried, "In order.")
      .def_ro("active", &Verdict::active, "Ids of the providers that hold nodes, most nodes first.")
      .def_ro("node_count", &Verdict::node_count)
      .def_ro("precision", &Verdict::precision, "What the session computes in: \"fp32\", …")
      .def_ro("placement_known", &Verdict::placement_known)
      .def_ro("fell_back", &Verdict::fell_back, "The first requested provider is not active.")
      .def_prop_ro(
          "notes",
          [](const Verdict& verdict) { return std::vector<std::string>(verdict.notes.begin(), verdict.notes.end()); })
      .def_ro("runtime_version", &Verdict::runtime_version, "Of ONNX Runtime.")
      .def_ro("runtime_path", &Verdict::runtime_path)
      .def(
          "to_json", [](const Verdict& verdict) { return to_json(verdict); }, "The whole verdict as a JSON object.")
      .def("__str__", [](const Verdict& verdict) { return to_line(verdict); })
      .def("__repr__", [](const Verdict& verdict) { return "Verdict(" + to_line(verdict) + ")"; });
}

}  // namespace gpux::python

#include <gpux/model_info.h>
#include <gpux/model_inspector.h>

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>

#include "bindings.h"

namespace gpux::python {
namespace {

namespace nb = nanobind;

// A tensor's own, or that of the tensors in an optional.
const ValueType& tensor_type(const ValueType& type) {
  return type.kind == ValueKind::optional && !type.inner.empty() ? type.inner.front() : type;
}

std::string element_name(const ValueType& type) {
  const ValueType& inner = tensor_type(type);
  return inner.kind == ValueKind::tensor ? std::string(to_string(inner.element)) : to_string(inner);
}

nb::object shape_of(const ValueType& type) {
  const ValueType& inner = tensor_type(type);
  if (inner.kind != ValueKind::tensor || !inner.dimensions) return nb::none();
  nb::list sizes;
  for (const Dimension& dimension : *inner.dimensions) {
    if (dimension.size) {
      sizes.append(*dimension.size);
    } else if (dimension.name.empty()) {
      sizes.append(nb::none());
    } else {
      sizes.append(dimension.name);
    }
  }
  return nb::tuple(sizes);
}

}  // namespace

void bind_model_info(nb::module_& module) {
  nb::class_<SignatureEntry>(module, "SignatureEntry", "An input or output of a model.")
      .def_ro("name", &SignatureEntry::name)
      .def_ro("required", &SignatureEntry::required, "False: it has a default, or is an optional.")
      .def_ro("description", &SignatureEntry::description)
      .def_prop_ro(
          "type", [](const SignatureEntry& entry) { return element_name(entry.type); },
          "Element type of a tensor (\"float32\"), or \"sequence(…)\", \"map(…)\".")
      .def_prop_ro(
          "shape", [](const SignatureEntry& entry) { return shape_of(entry.type); },
          nb::sig("def shape(self) -> tuple[int | str | None, ...] | None"),
          "Sizes; a free dimension is its name or None. None: not a tensor, or the rank is not declared.")
      .def("__repr__", [](const SignatureEntry& entry) { return entry.name + ": " + to_string(entry.type); });
  module.def(
      "inspect",
      [](const std::filesystem::path& model) {
        const nb::gil_scoped_release released;
        return ModelInspector::to_json(ModelInspector::inspect(model));
      },
      nb::arg("model"), "The content of an ONNX file as JSON, read without a session.");
}

}  // namespace gpux::python

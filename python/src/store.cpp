#include <gpux/store.h>

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "interrupt.h"
#include "model_options.h"

namespace gpux::python {
namespace {

namespace nb = nanobind;

template <typename Work>
auto on(const Work& work) {
  return without_gil([&](const Interruptible& /*unused*/) { return work(); });
}

}  // namespace

void bind_store(nb::module_& module) {
  nb::class_<StoredPackage>(module, "StoredPackage", "A package in the store, under one of its names.")
      .def_ro("name", &StoredPackage::name)
      .def_ro("tag", &StoredPackage::tag)
      .def_ro("id", &StoredPackage::id, "\"sha256:\" and 64 hexadecimal digits.")
      .def_ro("created", &StoredPackage::created, "\"2026-01-31T12:00:00Z\"")
      .def_ro("size_bytes", &StoredPackage::size_bytes)
      .def_ro("damage", &StoredPackage::damage, "What is wrong with it; empty: nothing that shows without reading it.")
      .def_ro("source", &StoredPackage::source, "The address that it was pulled from; empty: it was made here.")
      .def_ro("revision", &StoredPackage::revision, "The commit of the source; may be empty.")
      .def("__repr__", [](const StoredPackage& package) { return package.name + ":" + package.tag; });

  nb::class_<ModelStore>(module, "ModelStore", "The models of this user.")
      .def(nb::init<>())
      .def(nb::init<const std::filesystem::path&>(), nb::arg("home"))
      .def("list", [](const ModelStore& store) { return on([&] { return store.list(); }); })
      .def(
          "find",
          [](const ModelStore& store, const std::string& model) { return on([&] { return store.find(model); }); },
          nb::arg("model"))
      .def(
          "build",
          [](ModelStore& store, const std::string& model, const std::string& name, nb::dict settings) {
            const ModelOptions options = to_model_options(std::move(settings));
            return on([&] { return store.build(model, name, options); });
          },
          nb::arg("model"), nb::arg("name"), nb::arg("settings"))
      .def(
          "import_folder",
          [](ModelStore& store, const std::filesystem::path& folder, const std::string& name, nb::dict settings) {
            const ModelOptions options = to_model_options(std::move(settings));
            return on([&] { return store.import_folder(folder, name, options); });
          },
          nb::arg("folder"), nb::arg("name"), nb::arg("settings"))
      .def(
          "tag",
          [](ModelStore& store, const std::string& model, const std::string& name) {
            return on([&] { return store.tag(model, name); });
          },
          nb::arg("model"), nb::arg("name"))
      .def(
          "remove", [](ModelStore& store, const std::string& name) { on([&] { store.remove(name); }); },
          nb::arg("name"))
      .def("prune", [](ModelStore& store) { return on([&] { return store.prune(); }); })
      .def(
          "verify",
          [](const ModelStore& store, const std::string& model) { return on([&] { return store.verify(model); }); },
          nb::arg("model"));
}

}  // namespace gpux::python

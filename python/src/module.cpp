#include <gpux/error.h>

#include "bindings.h"
#include "errors.h"
#include "values.h"

NB_MODULE(_gpux, module) {
  module.doc() = "The classes of the C++ library, as the modules of the package gpux use them.";
  gpux::python::import_numpy();
  module.def("register_errors", &gpux::python::register_errors, nanobind::arg("classes"));
  module.def(
      "round_trip",
      [](nanobind::handle object) {
        return gpux::python::from_value(gpux::python::to_value(object, nullptr, "object"));
      },
      nanobind::arg("object"), nanobind::sig("def round_trip(object: object) -> typing.Any"),
      "An object as a run would read it, and as it would return it: the tests compare the addresses.");
  gpux::python::bind_model_info(module);
  gpux::python::bind_verdict(module);
  gpux::python::bind_providers(module);
  gpux::python::bind_model(module);
  gpux::python::bind_embedder(module);
  gpux::python::bind_generator(module);
  gpux::python::bind_image_embedder(module);
  gpux::python::bind_pipeline(module);
  gpux::python::bind_collection(module);
  gpux::python::bind_search(module);
  gpux::python::bind_store(module);
  gpux::python::bind_pull(module);
}

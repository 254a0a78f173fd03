#pragma once

#include <nanobind/nanobind.h>

namespace gpux::python {

/// Each adds the classes of one header of the library to the module.
void bind_model_info(nanobind::module_& module);
void bind_verdict(nanobind::module_& module);
void bind_providers(nanobind::module_& module);
void bind_model(nanobind::module_& module);
void bind_embedder(nanobind::module_& module);
void bind_generator(nanobind::module_& module);
void bind_image_embedder(nanobind::module_& module);
void bind_pipeline(nanobind::module_& module);
void bind_collection(nanobind::module_& module);
void bind_search(nanobind::module_& module);
void bind_store(nanobind::module_& module);
void bind_pull(nanobind::module_& module);

}  // namespace gpux::python

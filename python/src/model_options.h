#pragma once

#include <gpux/model.h>

#include <nanobind/nanobind.h>

namespace gpux::python {

/// Reads what gpux._options.model_options() made: a dict whose keys are the fields of ModelOptions.
ModelOptions to_model_options(nanobind::dict settings);

}  // namespace gpux::python

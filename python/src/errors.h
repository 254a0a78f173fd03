#pragma once

#include <nanobind/nanobind.h>

namespace gpux::python {

/// Makes each gpux::Error the exception of its code: gpux.InvalidInput, gpux.NotFound, … `classes` maps exit codes to
/// these classes.
void register_errors(nanobind::dict classes);

}  // namespace gpux::python

#include "errors.h"

#include <gpux/error.h>

#include <exception>

namespace gpux::python {
namespace {

namespace nb = nanobind;

void translate(const std::exception_ptr& thrown, void* payload) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    const nb::handle classes(static_cast<PyObject*>(payload));
    const nb::object type = classes[nb::int_(error.exit_code())];
    const std::string message = error.message();
    PyErr_SetObject(type.ptr(), nb::str(message.c_str(), message.size()).ptr());
  }
}

}  // namespace

void register_errors(nb::dict classes) {
  // Kept until the process ends, as the translator is.
  nb::register_exception_translator(translate, classes.release().ptr());
}

}  // namespace gpux::python

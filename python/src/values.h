#pragma once

#include <gpux/model_info.h>
#include <gpux/tensor.h>

#include <string_view>

#include <nanobind/nanobind.h>

namespace gpux::python {

/// Prepares the conversions: numpy's C interface. Once, when the module is imported.
void import_numpy();

/// A Python object as a value of the library. The memory of C-contiguous numpy arrays and DLPack tensors is not copied;
/// the value keeps the object alive. `type` is what the model declares: it decides the element type of lists and
/// numbers; null: unknown. Error invalid_input, which names the input.
Value to_value(nanobind::handle object, const ValueType* type, std::string_view name);

/// The same for several inputs: a mapping by name, or the value of the model's only input.
NamedValues to_values(nanobind::handle inputs, const Signature& signature);

/// numpy arrays over the tensors' own memory, which they keep alive; lists of sequences, dicts of maps, None.
nanobind::object from_value(Value value);

/// A dict by name.
nanobind::dict from_values(NamedValues values);

/// A float32 array of [rows, columns] whose memory is not set yet, and that memory.
std::pair<nanobind::object, float*> new_matrix(std::size_t rows, std::size_t columns);

/// A float32 array of [size] with a copy of the elements.
nanobind::object to_array(std::span<const float> elements);

/// The elements of a C-contiguous float32 array of `dimensions` dimensions; they live as long as the array.
/// Error invalid_input, which calls it `name`.
std::span<const float> float_elements(nanobind::handle array, int dimensions, std::string_view name);

}  // namespace gpux::python

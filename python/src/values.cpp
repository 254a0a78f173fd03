#include "values.h"

#include <gpux/error.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_1_23_API_VERSION
#include <numpy/arrayobject.h>

namespace gpux::python {
namespace {

namespace nb = nanobind;

int number_of(ElementType type) {
  switch (type) {
    case ElementType::float32:
      return NPY_FLOAT;
    case ElementType::float64:
      return NPY_DOUBLE;
    case ElementType::int8:
      return NPY_INT8;
    case ElementType::int16:
      return NPY_INT16;
    case ElementType::int32:
      return NPY_INT32;
    case ElementType::int64:
      return NPY_INT64;
    case ElementType::uint8:
      return NPY_UINT8;
    case ElementType::uint16:
      return NPY_UINT16;
    case ElementType::uint32:
      return NPY_UINT32;
    case ElementType::uint64:
      return NPY_UINT64;
    case ElementType::boolean:
      return NPY_BOOL;
    case ElementType::float16:
      return NPY_HALF;
    case ElementType::complex64:
      return NPY_CFLOAT;
    case ElementType::complex128:
      return NPY_CDOUBLE;
    default:
      return NPY_NOTYPE;
  }
}

// numpy has two numbers for integers of 64 bits: long and long long.
ElementType element_of(int number) {
  switch (number) {
    case NPY_FLOAT:
      return ElementType::float32;
    case NPY_DOUBLE:
      return ElementType::float64;
    case NPY_BYTE:
      return ElementType::int8;
    case NPY_SHORT:
      return ElementType::int16;
    case NPY_INT:
      return ElementType::int32;
    case NPY_LONG:
      return sizeof(long) == 8 ? ElementType::int64 : ElementType::int32;
    case NPY_LONGLONG:
      return ElementType::int64;
    case NPY_UBYTE:
      return ElementType::uint8;
    case NPY_USHORT:
      return ElementType::uint16;
    case NPY_UINT:
      return ElementType::uint32;
    case NPY_ULONG:
      return sizeof(long) == 8 ? ElementType::uint64 : ElementType::uint32;
    case NPY_ULONGLONG:
      return ElementType::uint64;
    case NPY_BOOL:
      return ElementType::boolean;
    case NPY_HALF:
      return ElementType::float16;
    case NPY_CFLOAT:
      return ElementType::complex64;
    case NPY_CDOUBLE:
      return ElementType::complex128;
    default:
      return ElementType::undefined;
  }
}

ElementType element_of(nb::dlpack::dtype type) {
  struct Known {
    nb::dlpack::dtype_code code;
    std::uint8_t bits;
    ElementType type;
  };

  using Code = nb::dlpack::dtype_code;
  static constexpr std::array<Known, 20> known{{{Code::Float, 32, ElementType::float32},
                                                {Code::Float, 64, ElementType::float64},
                                                {Code::Float, 16, ElementType::float16},
                                                {Code::Bfloat, 16, ElementType::bfloat16},
                                                {Code::Int, 8, ElementType::int8},
                                                {Code::Int, 16, ElementType::int16},
                                                {Code::Int, 32, ElementType::int32},
                                                {Code::Int, 64, ElementType::int64},
                                                {Code::UInt, 8, ElementType::uint8},
                                                {Code::UInt, 16, ElementType::uint16},
                                                {Code::UInt, 32, ElementType::uint32},
                                                {Code::UInt, 64, ElementType::uint64},
                                                {Code::Bool, 8, ElementType::boolean},
                                                {Code::Complex, 64, ElementType::complex64},
                                                {Code::Complex, 128, ElementType::complex128},
                                                {Code::Float8_E4M3FN, 8, ElementType::float8e4m3fn},
                                                {Code::Float8_E4M3FNUZ, 8, ElementType::float8e4m3fnuz},
                                                {Code::Float8_E5M2, 8, ElementType::float8e5m2},
                                                {Code::Float8_E5M2FNUZ, 8, ElementType::float8e5m2fnuz},
                                                {Code::Float8_E8M0FNU, 8, ElementType::float8e8m0}}};
  for (const Known& one : known) {
    if (static_cast<std::uint8_t>(one.code) == type.code && one.bits == type.bits && type.lanes == 1) return one.type;
  }
  return ElementType::undefined;
}

// The last copy of a tensor may go on any thread.
std::shared_ptr<const void> keep_alive(nb::handle object) {
  object.inc_ref();
  return {object.ptr(), [](const void* kept) {
            const nb::gil_scoped_acquire acquired;
            Py_DECREF(static_cast<PyObject*>(const_cast<void*>(kept)));
          }};
}

PyArrayObject* as_array(nb::handle object) {
  return reinterpret_cast<PyArrayObject*>(object.ptr());
}

Tensor borrow(ElementType type, PyArrayObject* array, Shape shape, nb::handle owner) {
  const auto* data = static_cast<const std::byte*>(PyArray_DATA(array));
  return Tensor::borrow(type, std::move(shape), {data, static_cast<std::size_t>(PyArray_NBYTES(array))},
                        keep_alive(owner));
}

Shape shape_of(PyArrayObject* array) {
  const npy_intp* sizes = PyArray_DIMS(array);
  return {sizes, sizes + PyArray_NDIM(array)};
}

// Empty where the array has to be prepared: another byte order, strides, or an element type that numpy does not have.
std::optional<Tensor> wrapped(nb::handle object) {
  if (PyArray_Check(object.ptr()) == 0) return std::nullopt;
  PyArrayObject* array = as_array(object);
  const ElementType type = element_of(PyArray_TYPE(array));
  if (type == ElementType::undefined || !PyArray_ISCARRAY_RO(array)) return std::nullopt;
  return borrow(type, array, shape_of(array), object);
}

std::optional<Tensor> wrapped_dlpack(nb::handle object) {
  if (PyArray_Check(object.ptr()) != 0 || !nb::hasattr(object, "__dlpack__")) return std::nullopt;
  nb::ndarray<nb::ro> tensor;
  if (!nb::try_cast(object, tensor)) {
    PyErr_Clear();
    return std::nullopt;
  }
  const ElementType type = element_of(tensor.dtype());
  if (type == ElementType::undefined || tensor.device_type() != nb::device::cpu::value) return std::nullopt;
  Shape shape;
  std::int64_t row = 1;
  for (std::size_t i = tensor.ndim(); i-- > 0; row *= static_cast<std::int64_t>(tensor.shape(i))) {
    if (tensor.shape(i) > 1 && tensor.stride(i) != row) return std::nullopt;
  }
  for (std::size_t i = 0; i < tensor.ndim(); ++i) shape.push_back(static_cast<std::int64_t>(tensor.shape(i)));
  const auto* data = static_cast<const std::byte*>(tensor.data());
  const std::size_t bytes = tensor.nbytes();
  // The exchanged tensor, and not the object, owns the memory. Its last reference may go on any thread.
  auto owner =
      std::shared_ptr<nb::ndarray<nb::ro>>(new nb::ndarray<nb::ro>(std::move(tensor)), [](nb::ndarray<nb::ro>* kept) {
        const nb::gil_scoped_acquire acquired;
        delete kept;
      });
  return Tensor::borrow(type, std::move(shape), {data, bytes}, std::move(owner));
}

nb::object call_python(const char* function, const auto&... arguments) {
  static PyObject* const module = nb::module_::import_("gpux._values").release().ptr();
  return nb::handle(module).attr(function)(arguments...);
}

std::string_view utf8_of(nb::handle text, std::string_view name) {
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_Check(text.ptr()) != 0 ? PyUnicode_AsUTF8AndSize(text.ptr(), &size) : nullptr;
  if (bytes != nullptr) return {bytes, static_cast<std::size_t>(size)};
  PyErr_Clear();
  throw Error(ErrorCode::invalid_input,
              "input '" + std::string(name) + "' takes strings; a " +
                  nb::cast<std::string>(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(text.ptr()))).attr("__name__")) +
                  " was found, or a string that is not valid Unicode");
}

Tensor prepared(nb::handle object, const ValueType* type, std::string_view name) {
  const bool is_declared = type != nullptr && type->kind == ValueKind::tensor;
  const std::string_view element = is_declared ? to_string(type->element) : std::string_view();
  const nb::tuple parts = nb::borrow<nb::tuple>(call_python("tensor_parts", object, name, element));
  Shape shape;
  for (const nb::handle size : parts[1]) shape.push_back(nb::cast<std::int64_t>(size));
  const auto found = element_type_from(nb::cast<std::string_view>(parts[0]));
  if (!found) throw Error(ErrorCode::internal, "tensor_parts gave an unknown element type");
  if (*found == ElementType::string) {
    std::vector<std::string> texts;
    for (const nb::handle text : parts[2]) texts.emplace_back(utf8_of(text, name));
    return Tensor::of_strings(std::move(shape), std::move(texts));
  }
  const nb::object array = parts[2];
  if (auto tensor = wrapped_dlpack(array)) return *tensor;
  return borrow(*found, as_array(array), std::move(shape), array);
}

Tensor to_tensor(nb::handle object, const ValueType* type, std::string_view name) {
  if (auto tensor = wrapped(object)) return std::move(*tensor);
  if (auto tensor = wrapped_dlpack(object)) return std::move(*tensor);
  return prepared(object, type, name);
}

[[noreturn]] void refuse(std::string_view name, const ValueType& type, std::string_view wanted) {
  throw Error(ErrorCode::invalid_input,
              "input '" + std::string(name) + "' takes " + std::string(wanted) + ": " + to_string(type));
}

const ValueType* inner_of(const ValueType& type) {
  return type.inner.empty() ? nullptr : &type.inner.front();
}

Sequence to_sequence(nb::handle object, const ValueType& type, std::string_view name) {
  if (PyList_Check(object.ptr()) == 0 && PyTuple_Check(object.ptr()) == 0) refuse(name, type, "a list");
  Sequence sequence;
  for (const nb::handle item : object) sequence.values.push_back(to_value(item, inner_of(type), name));
  return sequence;
}

Map to_map(nb::handle object, const ValueType& type, std::string_view name) {
  if (PyDict_Check(object.ptr()) == 0) refuse(name, type, "a dict");
  const ValueType keys{.kind = ValueKind::tensor, .element = type.element, .dimensions = {}, .inner = {}};
  const nb::dict dict = nb::borrow<nb::dict>(object);
  return {.keys = to_tensor(dict.keys(), &keys, name), .values = to_tensor(dict.values(), inner_of(type), name)};
}

nb::object steal_array(PyObject* array) {
  if (array == nullptr) throw nb::python_error();
  return nb::steal(array);
}

nb::object from_strings(const Tensor& tensor) {
  std::vector<npy_intp> sizes(tensor.shape().begin(), tensor.shape().end());
  nb::object array = steal_array(PyArray_SimpleNew(static_cast<int>(sizes.size()), sizes.data(), NPY_OBJECT));
  auto** texts = static_cast<PyObject**>(PyArray_DATA(as_array(array)));
  for (const std::string& text : tensor.strings()) {
    PyObject* made = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape");
    if (made == nullptr) throw nb::python_error();
    Py_XDECREF(std::exchange(*texts++, made));
  }
  return array;
}

nb::object from_tensor(Tensor&& tensor) {
  if (tensor.type() == ElementType::string) return from_strings(tensor);
  int number = number_of(tensor.type());
  std::array<npy_intp, NPY_MAXDIMS> sizes;
  auto rank = static_cast<int>(tensor.shape().size());
  if (rank > NPY_MAXDIMS) throw Error(ErrorCode::invalid_input, "numpy takes arrays of up to 32 dimensions");
  std::copy(tensor.shape().begin(), tensor.shape().end(), sizes.begin());
  const bool is_known_to_numpy = number != NPY_NOTYPE;
  if (!is_known_to_numpy) {
    number = NPY_UINT8;
    sizes[0] = static_cast<npy_intp>(tensor.byte_size());
    rank = 1;
  }
  void* data = const_cast<std::byte*>(tensor.bytes().data());
  const ElementType type = tensor.type();
  const Shape shape = is_known_to_numpy ? Shape() : tensor.shape();
  if (tensor.byte_size() == 0) {
    nb::object empty = steal_array(PyArray_SimpleNew(rank, sizes.data(), number));
    return is_known_to_numpy ? empty : call_python("of_element_type", empty, to_string(type), nb::cast(shape));
  }
  nb::object array =
      steal_array(PyArray_New(&PyArray_Type, rank, sizes.data(), number, nullptr, data, 0, NPY_ARRAY_CARRAY, nullptr));
  auto owner = std::make_unique<Tensor>(std::move(tensor));
  PyObject* capsule = PyCapsule_New(
      owner.get(), nullptr, [](PyObject* self) { delete static_cast<Tensor*>(PyCapsule_GetPointer(self, nullptr)); });
  if (capsule == nullptr) throw nb::python_error();
  (void)owner.release();
  // It takes the capsule in any case.
  if (PyArray_SetBaseObject(as_array(array), capsule) != 0) throw nb::python_error();
  if (is_known_to_numpy) return array;
  return call_python("of_element_type", array, to_string(type), nb::cast(shape));
}

}  // namespace

void import_numpy() {
  if (PyArray_ImportNumPyAPI() != 0) throw nb::python_error();
}

Value to_value(nb::handle object, const ValueType* type, std::string_view name) {
  if (type == nullptr) return to_tensor(object, type, name);
  if (type->kind == ValueKind::optional) {
    if (object.is_none()) return {};
    return to_value(object, inner_of(*type), name);
  }
  if (type->kind == ValueKind::sequence) return to_sequence(object, *type, name);
  if (type->kind == ValueKind::map) return to_map(object, *type, name);
  return to_tensor(object, type, name);
}

NamedValues to_values(nb::handle inputs, const Signature& signature) {
  NamedValues values;
  const auto type_of = [&](std::string_view name) -> const ValueType* {
    for (const SignatureEntry& entry : signature.inputs) {
      if (entry.name == name) return &entry.type;
    }
    return nullptr;
  };
  const bool takes_a_map = signature.inputs.size() == 1 && signature.inputs.front().type.kind == ValueKind::map;
  if (PyDict_Check(inputs.ptr()) == 0) {
    if (signature.inputs.size() != 1) {
      throw Error(ErrorCode::invalid_input,
                  "the model has " + std::to_string(signature.inputs.size()) + " inputs: pass a dict by their names");
    }
    const SignatureEntry& only = signature.inputs.front();
    values.emplace_back(only.name, to_value(inputs, &only.type, only.name));
    return values;
  }
  const nb::dict dict = nb::borrow<nb::dict>(inputs);
  values.reserve(dict.size());
  for (const auto& [key, object] : dict) {
    Py_ssize_t size = 0;
    const char* bytes = PyUnicode_Check(key.ptr()) != 0 ? PyUnicode_AsUTF8AndSize(key.ptr(), &size) : nullptr;
    if (bytes == nullptr) {
      PyErr_Clear();
      throw Error(ErrorCode::invalid_input, takes_a_map ? "pass the map as {'" + signature.inputs.front().name + "': …}"
                                                        : "the keys of the inputs are names of the model's inputs");
    }
    const std::string_view name(bytes, static_cast<std::size_t>(size));
    // A name that the model does not have is refused by the library, which knows the similar ones.
    values.emplace_back(std::string(name), to_value(object, type_of(name), name));
  }
  return values;
}

nb::object from_value(Value value) {
  if (auto* tensor = std::get_if<Tensor>(&value)) return from_tensor(std::move(*tensor));
  if (auto* sequence = std::get_if<Sequence>(&value)) {
    nb::list list;
    for (Value& item : sequence->values) list.append(from_value(std::move(item)));
    return list;
  }
  if (auto* map = std::get_if<Map>(&value)) {
    return call_python("dict_of", from_tensor(std::move(map->keys)), from_tensor(std::move(map->values)));
  }
  return nb::none();
}

nb::dict from_values(NamedValues values) {
  nb::dict dict;
  for (auto& [name, value] : values) {
    dict[nb::str(name.c_str(), name.size())] = from_value(std::move(value));
  }
  return dict;
}

std::pair<nb::object, float*> new_matrix(std::size_t rows, std::size_t columns) {
  std::array<npy_intp, 2> sizes{static_cast<npy_intp>(rows), static_cast<npy_intp>(columns)};
  nb::object array = steal_array(PyArray_SimpleNew(2, sizes.data(), NPY_FLOAT));
  return {array, static_cast<float*>(PyArray_DATA(as_array(array)))};
}

nb::object to_array(std::span<const float> elements) {
  npy_intp size = static_cast<npy_intp>(elements.size());
  nb::object array = steal_array(PyArray_SimpleNew(1, &size, NPY_FLOAT));
  std::copy(elements.begin(), elements.end(), static_cast<float*>(PyArray_DATA(as_array(array))));
  return array;
}

std::span<const float> float_elements(nb::handle object, int dimensions, std::string_view name) {
  if (PyArray_Check(object.ptr()) == 0 || PyArray_TYPE(as_array(object)) != NPY_FLOAT ||
      PyArray_NDIM(as_array(object)) != dimensions || !PyArray_ISCARRAY_RO(as_array(object))) {
    throw Error(ErrorCode::invalid_input, std::string(name) + " is a C-contiguous float32 array of " +
                                              std::to_string(dimensions) + " dimension" + (dimensions == 1 ? "" : "s"));
  }
  return {static_cast<const float*>(PyArray_DATA(as_array(object))),
          static_cast<std::size_t>(PyArray_SIZE(as_array(object)))};
}

}  // namespace gpux::python

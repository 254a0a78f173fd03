#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "gpux/model_info.h"
#include "gpux/tensor.h"

/// Values as ONNX keeps them in files (.pb, such as test_data_set_0/input_0.pb).
namespace gpux::onnx {

/// Reads the TensorProto, SequenceProto or OptionalProto of a value of type `expected`; an optional may also be stored
/// without its OptionalProto. Only the kinds of `expected` are checked: the caller checks whether element types and
/// shapes fit the model. The value has its own memory.
/// Errors: as MappedFile; invalid_input where the file is something else, damaged, or holds a map, a sparse tensor or
/// complex numbers.
Value read_value_file(const std::filesystem::path& path, const ValueType& expected);

/// Reads a value from memory; `what` names the source in errors.
Value read_value(std::string_view content, const ValueType& expected, std::string_view what);

/// The file's content for a tensor (TensorProto), a sequence (SequenceProto) or an empty optional (OptionalProto).
/// Error invalid_input for maps, complex numbers and more than the 2 GB that such files can hold.
std::string write_value(const Value& value, std::string_view name);

/// The content inside an OptionalProto, as outputs of optional type are kept.
std::string write_optional(const Value& value, std::string_view name);

}  // namespace gpux::onnx

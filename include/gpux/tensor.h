#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "gpux/export.h"

namespace gpux {

/// ONNX's element types; the numbers are TensorProto.DataType's.
enum class ElementType : std::uint8_t {
  undefined = 0,
  float32 = 1,
  uint8 = 2,
  int8 = 3,
  uint16 = 4,
  int16 = 5,
  int32 = 6,
  int64 = 7,
  string = 8,
  boolean = 9,
  float16 = 10,
  float64 = 11,
  uint32 = 12,
  uint64 = 13,
  complex64 = 14,
  complex128 = 15,
  bfloat16 = 16,
  float8e4m3fn = 17,
  float8e4m3fnuz = 18,
  float8e5m2 = 19,
  float8e5m2fnuz = 20,
  uint4 = 21,
  int4 = 22,
  float4e2m1 = 23,
  float8e8m0 = 24,
  uint2 = 25,
  int2 = 26,
};

/// "float32", "bool", "string", … : ONNX's names with the width in bits.
GPUX_API std::string_view to_string(ElementType type) noexcept;

/// Parses these names and ONNX's own ("float", "double", "tensor(float16)"). Empty for any other name.
GPUX_API std::optional<ElementType> element_type_from(std::string_view name) noexcept;

/// Size of one element in bits: 2 and 4 for the packed types, 0 for strings and undefined.
GPUX_API std::size_t bits_of(ElementType type) noexcept;

/// Sizes of the dimensions, outermost first; empty for a scalar. Never negative in a tensor.
using Shape = std::vector<std::int64_t>;

/// Number of elements of a shape. Error invalid_input if a size is negative or the product overflows.
GPUX_API std::int64_t element_count(std::span<const std::int64_t> shape);

/// The shape as text: "[2, 3]".
GPUX_API std::string to_string(std::span<const std::int64_t> shape);

/// The bit pattern of an IEEE 754 half-precision number, which C++20 has no type for.
struct Float16 {
  std::uint16_t bits = 0;
};

/// The bit pattern of a bfloat16: the upper half of a float32.
struct BFloat16 {
  std::uint16_t bits = 0;
};

/// The value as float32, without loss.
GPUX_API float to_float(Float16 value) noexcept;
GPUX_API float to_float(BFloat16 value) noexcept;

/// The ElementType of a C++ type: element_type_of<float>::value is ElementType::float32.
template <typename T>
struct element_type_of;

template <>
struct element_type_of<float> : std::integral_constant<ElementType, ElementType::float32> {};

template <>
struct element_type_of<double> : std::integral_constant<ElementType, ElementType::float64> {};

template <>
struct element_type_of<std::int8_t> : std::integral_constant<ElementType, ElementType::int8> {};

template <>
struct element_type_of<std::int16_t> : std::integral_constant<ElementType, ElementType::int16> {};

template <>
struct element_type_of<std::int32_t> : std::integral_constant<ElementType, ElementType::int32> {};

template <>
struct element_type_of<std::int64_t> : std::integral_constant<ElementType, ElementType::int64> {};

template <>
struct element_type_of<std::uint8_t> : std::integral_constant<ElementType, ElementType::uint8> {};

template <>
struct element_type_of<std::uint16_t> : std::integral_constant<ElementType, ElementType::uint16> {};

template <>
struct element_type_of<std::uint32_t> : std::integral_constant<ElementType, ElementType::uint32> {};

template <>
struct element_type_of<std::uint64_t> : std::integral_constant<ElementType, ElementType::uint64> {};

template <>
struct element_type_of<bool> : std::integral_constant<ElementType, ElementType::boolean> {};

template <>
struct element_type_of<Float16> : std::integral_constant<ElementType, ElementType::float16> {};

template <>
struct element_type_of<BFloat16> : std::integral_constant<ElementType, ElementType::bfloat16> {};

/// A dense tensor in row-major order, in host memory.
/// Copies share their data. Reading from several threads is safe while no thread writes.
class GPUX_API Tensor {
 public:
  Tensor() = default;

  /// New zeroed memory, aligned to 64 bytes; strings are empty.
  static Tensor allocate(ElementType type, Shape shape);

  /// Wraps existing memory of at least byte_size() bytes. The tensor and its copies keep `owner` alive; without an
  /// owner, the caller keeps the memory alive. Error invalid_input if `bytes` is too small.
  static Tensor borrow(ElementType type, Shape shape, std::span<const std::byte> bytes,
                       std::shared_ptr<const void> owner = nullptr);

  /// A tensor of strings. Error invalid_input if their number is not that of the shape.
  static Tensor of_strings(Shape shape, std::vector<std::string> values);

  /// Copies `values`; their number must be that of the shape.
  template <typename T>
  static Tensor of(Shape shape, std::span<const T> values) {
    return copy_of(element_type_of<T>::value, std::move(shape), std::as_bytes(values));
  }

  /// Type of the elements.
  [[nodiscard]] ElementType type() const noexcept { return type_; }

  /// Sizes of the dimensions, outermost first.
  [[nodiscard]] const Shape& shape() const noexcept { return shape_; }

  /// Number of elements.
  [[nodiscard]] std::int64_t element_count() const noexcept { return element_count_; }

  /// Bytes of the elements, packed types rounded up to whole bytes; 0 for strings.
  [[nodiscard]] std::size_t byte_size() const noexcept { return byte_size_; }

  /// The bytes of all elements; empty for strings.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, byte_size_}; }

  /// The elements for writing; only for tensors from allocate() or of(), else Error internal.
  [[nodiscard]] std::span<std::byte> mutable_bytes();

  /// The elements, without a copy. Error invalid_input if T is not the tensor's type.
  template <typename T>
  [[nodiscard]] std::span<const T> as() const {
    require(element_type_of<T>::value);
    return {reinterpret_cast<const T*>(data_), static_cast<std::size_t>(element_count_)};
  }

  template <typename T>
  [[nodiscard]] std::span<T> mutable_as() {
    require(element_type_of<T>::value);
    return {reinterpret_cast<T*>(mutable_bytes().data()), static_cast<std::size_t>(element_count_)};
  }

  /// The elements of a string tensor. Error invalid_input for other types.
  [[nodiscard]] std::span<const std::string> strings() const;
  [[nodiscard]] std::span<std::string> mutable_strings();

  /// Whether the tensor keeps its memory alive; false if the caller must keep it.
  [[nodiscard]] bool has_owner() const noexcept { return owner_ != nullptr || strings_ != nullptr; }

  /// This tensor's data with another shape of the same number of elements.
  [[nodiscard]] Tensor reshaped(Shape shape) const;

  /// Rows [first, first + count) of the outermost dimension; shares the data if a row is a whole number of bytes.
  [[nodiscard]] Tensor rows(std::int64_t first, std::int64_t count) const;

 private:
  static Tensor copy_of(ElementType type, Shape shape, std::span<const std::byte> bytes);
  void require(ElementType type) const;

  ElementType type_ = ElementType::undefined;
  bool writable_ = false;
  Shape shape_;
  std::int64_t element_count_ = 0;
  std::size_t byte_size_ = 0;
  const std::byte* data_ = nullptr;
  std::shared_ptr<const void> owner_;
  std::shared_ptr<std::vector<std::string>> strings_;
};

class Value;

/// An ordered list, as ONNX's sequence types.
struct Sequence {
  std::vector<Value> values;
};

/// keys: int64 or string, shape [n]; values: any tensor whose first dimension is n.
struct Map {
  Tensor keys;
  Tensor values;
};

/// The value of an ONNX input or output. std::monostate is an empty optional.
class Value : public std::variant<std::monostate, Tensor, Sequence, Map> {
 public:
  using variant::variant;

  /// Whether this is an empty optional.
  [[nodiscard]] bool is_none() const noexcept { return std::holds_alternative<std::monostate>(*this); }

  /// The tensor; null if the value is of another kind.
  [[nodiscard]] const Tensor* tensor() const noexcept { return std::get_if<Tensor>(this); }

  /// The sequence; null if the value is of another kind.
  [[nodiscard]] const Sequence* sequence() const noexcept { return std::get_if<Sequence>(this); }

  /// The map; null if the value is of another kind.
  [[nodiscard]] const Map* map() const noexcept { return std::get_if<Map>(this); }
};

/// The name of an input or output, and its value.
using NamedValue = std::pair<std::string, Value>;
/// Values of a model's inputs or outputs, in the order of its signature.
using NamedValues = std::vector<NamedValue>;

/// The value of that name, or null.
GPUX_API const Value* find(const NamedValues& values, std::string_view name) noexcept;

}  // namespace gpux

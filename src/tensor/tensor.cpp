#include "gpux/tensor.h"

#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gpux/error.h"

namespace gpux {
namespace {

struct TypeFacts {
  ElementType type;
  std::string_view name;
  std::string_view onnx_name;
  std::size_t bits;
};

constexpr std::array<TypeFacts, 27> type_facts{{
    {ElementType::undefined, "undefined", "undefined", 0},
    {ElementType::float32, "float32", "float", 32},
    {ElementType::uint8, "uint8", "uint8", 8},
    {ElementType::int8, "int8", "int8", 8},
    {ElementType::uint16, "uint16", "uint16", 16},
    {ElementType::int16, "int16", "int16", 16},
    {ElementType::int32, "int32", "int32", 32},
    {ElementType::int64, "int64", "int64", 64},
    {ElementType::string, "string", "string", 0},
    {ElementType::boolean, "bool", "bool", 8},
    {ElementType::float16, "float16", "float16", 16},
    {ElementType::float64, "float64", "double", 64},
    {ElementType::uint32, "uint32", "uint32", 32},
    {ElementType::uint64, "uint64", "uint64", 64},
    {ElementType::complex64, "complex64", "complex64", 64},
    {ElementType::complex128, "complex128", "complex128", 128},
    {ElementType::bfloat16, "bfloat16", "bfloat16", 16},
    {ElementType::float8e4m3fn, "float8e4m3fn", "float8e4m3fn", 8},
    {ElementType::float8e4m3fnuz, "float8e4m3fnuz", "float8e4m3fnuz", 8},
    {ElementType::float8e5m2, "float8e5m2", "float8e5m2", 8},
    {ElementType::float8e5m2fnuz, "float8e5m2fnuz", "float8e5m2fnuz", 8},
    {ElementType::uint4, "uint4", "uint4", 4},
    {ElementType::int4, "int4", "int4", 4},
    {ElementType::float4e2m1, "float4e2m1", "float4e2m1", 4},
    {ElementType::float8e8m0, "float8e8m0", "float8e8m0", 8},
    {ElementType::uint2, "uint2", "uint2", 2},
    {ElementType::int2, "int2", "int2", 2},
}};

constexpr bool facts_in_order() {
  for (std::size_t i = 0; i < type_facts.size(); ++i) {
    if (static_cast<std::size_t>(type_facts[i].type) != i) return false;
  }
  return true;
}

static_assert(facts_in_order());

std::size_t bytes_for(ElementType type, std::int64_t count) {
  const auto bits = static_cast<std::uint64_t>(bits_of(type));
  const auto elements = static_cast<std::uint64_t>(count);
  if (bits != 0 && elements > (std::uint64_t{1} << 62) / bits) {
    throw Error(ErrorCode::invalid_input, fmt::format("{} elements of {} do not fit memory", count, to_string(type)));
  }
  return static_cast<std::size_t>((elements * bits + 7) / 8);
}

constexpr std::size_t alignment = 64;

}  // namespace

std::string_view to_string(ElementType type) noexcept {
  const auto index = static_cast<std::size_t>(type);
  return index < type_facts.size() ? type_facts[index].name : "undefined";
}

std::optional<ElementType> element_type_from(std::string_view name) noexcept {
  if (name.starts_with("tensor(") && name.ends_with(")")) name = name.substr(7, name.size() - 8);
  for (const TypeFacts& facts : type_facts) {
    if (facts.type != ElementType::undefined && (facts.name == name || facts.onnx_name == name)) return facts.type;
  }
  return std::nullopt;
}

std::size_t bits_of(ElementType type) noexcept {
  const auto index = static_cast<std::size_t>(type);
  return index < type_facts.size() ? type_facts[index].bits : 0;
}

std::int64_t element_count(std::span<const std::int64_t> shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    if (size < 0) throw Error(ErrorCode::invalid_input, "shape " + to_string(shape) + " has a negative size");
    if (__builtin_mul_overflow(count, size, &count)) {
      throw Error(ErrorCode::invalid_input, "shape " + to_string(shape) + " has more elements than 64 bits count");
    }
  }
  return count;
}

std::string to_string(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

float to_float(Float16 value) noexcept {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000U) << 16;
  const std::uint32_t exponent = (value.bits >> 10) & 0x1fU;
  const std::uint32_t fraction = value.bits & 0x3ffU;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000U | (fraction << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
  return sign != 0 ? -magnitude : magnitude;
}

float to_float(BFloat16 value) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

Tensor Tensor::allocate(ElementType type, Shape shape) {
  Tensor tensor;
  tensor.type_ = type;
  tensor.element_count_ = gpux::element_count(shape);
  tensor.shape_ = std::move(shape);
  tensor.writable_ = true;
  if (type == ElementType::string) {
    tensor.strings_ = std::make_shared<std::vector<std::string>>(static_cast<std::size_t>(tensor.element_count_));
    return tensor;
  }
  tensor.byte_size_ = bytes_for(type, tensor.element_count_);
  const std::size_t rounded = (tensor.byte_size_ + alignment) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) {
    throw Error(ErrorCode::resource_exhausted, fmt::format("no memory for {} bytes of {}{}", tensor.byte_size_,
                                                           to_string(type), to_string(tensor.shape_)));
  }
  tensor.owner_ = std::shared_ptr<void>(memory, std::free);
  std::memset(memory, 0, rounded);
  tensor.data_ = static_cast<const std::byte*>(memory);
  return tensor;
}

Tensor Tensor::borrow(ElementType type, Shape shape, std::span<const std::byte> bytes,
                      std::shared_ptr<const void> owner) {
  Tensor tensor;
  tensor.type_ = type;
  tensor.element_count_ = gpux::element_count(shape);
  tensor.shape_ = std::move(shape);
  tensor.byte_size_ = bytes_for(type, tensor.element_count_);
  if (type == ElementType::string) {
    throw Error(ErrorCode::invalid_input, "strings cannot be borrowed from bytes: use Tensor::of_strings");
  }
  if (bytes.size() < tensor.byte_size_) {
    throw Error(ErrorCode::invalid_input, fmt::format("{}{} takes {} bytes, {} were given", to_string(type),
                                                      to_string(tensor.shape_), tensor.byte_size_, bytes.size()));
  }
  tensor.data_ = bytes.data();
  tensor.owner_ = std::move(owner);
  return tensor;
}

Tensor Tensor::of_strings(Shape shape, std::vector<std::string> values) {
  Tensor tensor;
  tensor.type_ = ElementType::string;
  tensor.element_count_ = gpux::element_count(shape);
  tensor.shape_ = std::move(shape);
  if (values.size() != static_cast<std::size_t>(tensor.element_count_)) {
    throw Error(ErrorCode::invalid_input, fmt::format("shape {} takes {} strings, {} were given",
                                                      to_string(tensor.shape_), tensor.element_count_, values.size()));
  }
  tensor.strings_ = std::make_shared<std::vector<std::string>>(std::move(values));
  tensor.writable_ = true;
  return tensor;
}

Tensor Tensor::copy_of(ElementType type, Shape shape, std::span<const std::byte> bytes) {
  Tensor tensor = allocate(type, std::move(shape));
  if (bytes.size() != tensor.byte_size_) {
    throw Error(ErrorCode::invalid_input, fmt::format("{}{} takes {} bytes, {} were given", to_string(type),
                                                      to_string(tensor.shape_), tensor.byte_size_, bytes.size()));
  }
  if (!bytes.empty()) std::memcpy(tensor.mutable_bytes().data(), bytes.data(), bytes.size());
  return tensor;
}

std::span<std::byte> Tensor::mutable_bytes() {
  if (!writable_) throw Error(ErrorCode::internal, "a borrowed tensor cannot be written to");
  return {const_cast<std::byte*>(data_), byte_size_};
}

void Tensor::require(ElementType type) const {
  if (type_ == type) return;
  throw Error(ErrorCode::invalid_input, fmt::format("the tensor holds {}, not {}", to_string(type_), to_string(type)));
}

std::span<const std::string> Tensor::strings() const {
  require(ElementType::string);
  return *strings_;
}

std::span<std::string> Tensor::mutable_strings() {
  require(ElementType::string);
  return *strings_;
}

Tensor Tensor::reshaped(Shape shape) const {
  if (gpux::element_count(shape) != element_count_) {
    throw Error(ErrorCode::invalid_input, "shape " + to_string(shape) + " has not as many elements as " +
                                              to_string(std::span<const std::int64_t>(shape_)));
  }
  Tensor tensor = *this;
  tensor.shape_ = std::move(shape);
  return tensor;
}

Tensor Tensor::rows(std::int64_t first, std::int64_t count) const {
  if (shape_.empty() || first < 0 || count < 0 || first > shape_[0] - count) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("rows {} to {} are not in a tensor of shape {}", first, first + count, to_string(shape_)));
  }
  Shape shape = shape_;
  shape[0] = count;
  const std::int64_t row_elements = shape_[0] == 0 ? 0 : element_count_ / shape_[0];
  if (type_ == ElementType::string) {
    const auto begin = strings_->begin() + first * row_elements;
    return of_strings(std::move(shape), {begin, begin + count * row_elements});
  }
  const std::size_t row_bits = static_cast<std::size_t>(row_elements) * bits_of(type_);
  if (row_bits % 8 != 0) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("rows of {} elements of {} do not end at a byte", row_elements, to_string(type_)));
  }
  const std::size_t row_bytes = row_bits / 8;
  Tensor tensor = *this;
  tensor.shape_ = std::move(shape);
  tensor.element_count_ = count * row_elements;
  tensor.byte_size_ = row_bytes * static_cast<std::size_t>(count);
  tensor.data_ = data_ + row_bytes * static_cast<std::size_t>(first);
  return tensor;
}

const Value* find(const NamedValues& values, std::string_view name) noexcept {
  for (const NamedValue& value : values) {
    if (value.first == name) return &value.second;
  }
  return nullptr;
}

}  // namespace gpux

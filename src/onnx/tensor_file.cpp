#include "onnx/tensor_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include <fmt/format.h>
#include <protozero/pbf_writer.hpp>

#include "base/files.h"
#include "gpux/error.h"
#include "onnx/file_kind.h"
#include "onnx/message.h"
#include "onnx/schema.h"
#include "onnx/tensor_header.h"
#include "onnx/text.h"

namespace gpux::onnx {
namespace {

static_assert(std::endian::native == std::endian::little, "raw data is little-endian and copied as it lies");

/// How a typed field of a TensorProto holds the elements of a type: one integer a stored unit.
struct StoredIntegers {
  std::uint32_t field = 0;
  std::size_t width_bytes = 0;  ///< of the unit in memory: an element, or a byte of packed elements
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
};

template <typename T>
constexpr StoredIntegers integers_in(std::uint32_t field) {
  return {field, sizeof(T), std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
}

/// Bit patterns, which writers store signed or unsigned.
template <typename Signed, typename Unsigned>
constexpr StoredIntegers patterns() {
  return {schema::tensor::int32_data, sizeof(Signed), std::numeric_limits<Signed>::min(),
          std::numeric_limits<Unsigned>::max()};
}

StoredIntegers stored_integers(ElementType type) {
  switch (type) {
    case ElementType::int64:
      return integers_in<std::int64_t>(schema::tensor::int64_data);
    case ElementType::uint64:
      // All 64 bits are the number.
      return {schema::tensor::uint64_data, 8, std::numeric_limits<std::int64_t>::min(),
              std::numeric_limits<std::int64_t>::max()};
    case ElementType::uint32:
      return integers_in<std::uint32_t>(schema::tensor::uint64_data);
    case ElementType::int32:
      return integers_in<std::int32_t>(schema::tensor::int32_data);
    case ElementType::int16:
      return integers_in<std::int16_t>(schema::tensor::int32_data);
    case ElementType::uint16:
      return integers_in<std::uint16_t>(schema::tensor::int32_data);
    case ElementType::int8:
      return integers_in<std::int8_t>(schema::tensor::int32_data);
    case ElementType::uint8:
      return integers_in<std::uint8_t>(schema::tensor::int32_data);
    case ElementType::boolean:
      return {schema::tensor::int32_data, 1, 0, 1};
    case ElementType::float16:
    case ElementType::bfloat16:
      return patterns<std::int16_t, std::uint16_t>();
    default:
      return patterns<std::int8_t, std::uint8_t>();
  }
}

[[noreturn]] void wrong_number(const Message& message, const TensorHeader& header, std::uint64_t there) {
  message.malformed(fmt::format("tensor {}: {} does not hold {} values", quote(header.name), describe(header), there));
}

void read_strings(Message message, const TensorHeader& header, Tensor& tensor) {
  std::size_t count = 0;
  const std::span<std::string> strings = tensor.mutable_strings();
  while (message.next()) {
    if (message.field() != schema::tensor::string_data) continue;
    if (count == strings.size()) wrong_number(message, header, count + 1);
    strings[count++] = std::string(message.bytes());
  }
  if (count != strings.size()) wrong_number(message, header, count);
}

void read_floats(Message message, const TensorHeader& header, Tensor& tensor) {
  const bool is_double = header.type == ElementType::float64;
  const std::span<std::byte> to = tensor.mutable_bytes();
  const std::size_t width = is_double ? 8 : 4;
  std::size_t done = 0;
  while (message.next()) {
    if (is_double && message.field() != schema::tensor::double_data) continue;
    if (!is_double && message.field() != schema::tensor::float_data) continue;
    const std::string_view values = message.fixed(width);
    if (values.size() > to.size() - done) wrong_number(message, header, (done + values.size()) / width);
    std::memcpy(to.data() + done, values.data(), values.size());
    done += values.size();
  }
  if (done != to.size()) wrong_number(message, header, done / width);
}

void read_integers(Message message, const TensorHeader& header, Tensor& tensor) {
  const StoredIntegers stored = stored_integers(header.type);
  const std::span<std::byte> to = tensor.mutable_bytes();
  std::size_t done = 0;
  while (message.next()) {
    if (message.field() != stored.field) continue;
    message.each_integer([&](std::int64_t value) {
      // Protobuf's 32-bit integers are what is left of the number in 32 bits.
      if (stored.field == schema::tensor::int32_data) value = static_cast<std::int32_t>(value);
      if (value < stored.lowest || value > stored.highest) {
        message.malformed(
            fmt::format("tensor {}: {} does not fit {}", quote(header.name), value, to_string(header.type)));
      }
      if (done == to.size()) wrong_number(message, header, done / stored.width_bytes + 1);
      std::memcpy(to.data() + done, &value, stored.width_bytes);
      done += stored.width_bytes;
    });
  }
  if (done != to.size()) wrong_number(message, header, done / stored.width_bytes);
}

void read_raw(const Message& message, const TensorHeader& header, std::string_view raw, Tensor& tensor) {
  const bool is_boolean = header.type == ElementType::boolean;
  if (is_boolean && std::ranges::any_of(raw, [](char byte) { return byte != 0 && byte != 1; })) {
    message.malformed(fmt::format("tensor {}: a bool is neither 0 nor 1", quote(header.name)));
  }
  if (!raw.empty()) std::memcpy(tensor.mutable_bytes().data(), raw.data(), raw.size());
}

[[noreturn]] void refuse_complex(ElementType type) {
  throw Error(ErrorCode::invalid_input, fmt::format("{} tensors are not supported", to_string(type)));
}

Tensor read_tensor(const Message& message) {
  const TensorHeader header = read_tensor_header(message);
  if (header.type == ElementType::undefined) message.malformed("the tensor has no element type");
  if (header.type == ElementType::complex64 || header.type == ElementType::complex128) refuse_complex(header.type);
  if (header.external) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("tensor {} keeps its data in another file, {}, which is supported in models only",
                            quote(header.name), quote(header.external->path)));
  }
  Tensor tensor = Tensor::allocate(header.type, header.shape);
  if (header.type == ElementType::string) {
    read_strings(message, header, tensor);
  } else if (header.raw_data) {
    read_raw(message, header, *header.raw_data, tensor);
  } else if (header.type == ElementType::float32 || header.type == ElementType::float64) {
    read_floats(message, header, tensor);
  } else {
    read_integers(message, header, tensor);
  }
  return tensor;
}

[[noreturn]] void refuse_kind(std::string_view kind) {
  throw Error(ErrorCode::invalid_input, fmt::format("{} in .pb files are not supported", kind));
}

const ValueType& inner_of(const ValueType& type) {
  static const ValueType tensor;
  return type.inner.empty() ? tensor : type.inner.front();
}

std::string_view in_words(ValueKind kind) {
  switch (kind) {
    case ValueKind::tensor:
      return "a tensor";
    case ValueKind::sparse_tensor:
      return "a sparse tensor";
    case ValueKind::sequence:
      return "a sequence";
    case ValueKind::map:
      return "a map";
    case ValueKind::optional:
      return "an optional";
    case ValueKind::opaque:
      break;
  }
  return "an opaque value";
}

void require_kind(const Message& message, const ValueType& expected, ValueKind kind) {
  if (expected.kind == kind) return;
  message.malformed(fmt::format("it holds {}, where {} is expected", in_words(kind), in_words(expected.kind)));
}

// These go no deeper than the expected type does.
Value read_optional(Message message, const ValueType& expected);

Value read_sequence(Message message, const ValueType& expected) {
  const ValueType& inner = inner_of(expected);
  Sequence sequence;
  while (message.next()) {
    switch (message.field()) {
      case schema::sequence::tensor_values:
        require_kind(message, inner, ValueKind::tensor);
        sequence.values.emplace_back(read_tensor(message.message()));
        break;
      case schema::sequence::sequence_values:
        require_kind(message, inner, ValueKind::sequence);
        sequence.values.push_back(read_sequence(message.message(), inner));
        break;
      case schema::sequence::optional_values:
        require_kind(message, inner, ValueKind::optional);
        sequence.values.push_back(read_optional(message.message(), inner));
        break;
      case schema::sequence::sparse_tensor_values:
        refuse_kind("sparse tensors");
      case schema::sequence::map_values:
        refuse_kind("maps");
      case schema::sequence::name:
      case schema::sequence::elem_type:
        break;
      default:
        message.malformed(fmt::format("a sequence has no field {}", message.field()));
    }
  }
  return sequence;
}

Value read_optional(Message message, const ValueType& expected) {
  const ValueType& inner = inner_of(expected);
  Value value;
  while (message.next()) {
    switch (message.field()) {
      case schema::optional::tensor_value:
        require_kind(message, inner, ValueKind::tensor);
        value = read_tensor(message.message());
        break;
      case schema::optional::sequence_value:
        require_kind(message, inner, ValueKind::sequence);
        value = read_sequence(message.message(), inner);
        break;
      case schema::optional::optional_value:
        require_kind(message, inner, ValueKind::optional);
        value = read_optional(message.message(), inner);
        break;
      case schema::optional::sparse_tensor_value:
        refuse_kind("sparse tensors");
      case schema::optional::map_value:
        refuse_kind("maps");
      case schema::optional::name:
      case schema::optional::elem_type:
        break;
      default:
        message.malformed(fmt::format("an optional has no field {}", message.field()));
    }
  }
  return value;
}

/// Whether what should be an OptionalProto is what it would hold. Their fields have the same numbers, so it is told by
/// those an OptionalProto has not, and by what it says that it holds.
bool is_bare(Message message, ValueKind inner) {
  constexpr auto tensor = static_cast<std::int64_t>(schema::ElementKind::tensor);
  const bool of_sequence = inner == ValueKind::sequence;
  while (message.next()) {
    if (message.field() > schema::optional::optional_value) return true;
    if (message.field() == schema::optional::name && message.is_integer()) return true;
    if (of_sequence && message.field() == schema::optional::elem_type && message.integer() == tensor) return true;
  }
  return false;
}

Value read_expected(const Message& message, const ValueType& expected) {
  switch (expected.kind) {
    case ValueKind::tensor:
      return read_tensor(message);
    case ValueKind::sequence:
      return read_sequence(message, expected);
    case ValueKind::optional: {
      const ValueType& inner = inner_of(expected);
      if (inner.kind != ValueKind::optional && is_bare(message, inner.kind)) return read_expected(message, inner);
      return read_optional(message, expected);
    }
    case ValueKind::sparse_tensor:
      refuse_kind("sparse tensors");
    case ValueKind::map:
      refuse_kind("maps");
    case ValueKind::opaque:
      break;
  }
  refuse_kind("opaque values");
}

std::uint64_t bytes_of(const Value& value) {
  std::uint64_t bytes = 64;
  if (const Tensor* tensor = value.tensor()) {
    bytes += tensor->byte_size() + 16 * tensor->shape().size();
    if (tensor->type() == ElementType::string) {
      for (const std::string& text : tensor->strings()) bytes += text.size() + 8;
    }
  } else if (const Sequence* sequence = value.sequence()) {
    for (const Value& inner : sequence->values) bytes += bytes_of(inner);
  }
  return bytes;
}

void refuse_too_long(const Value& value) {
  constexpr std::uint64_t most = (std::uint64_t{1} << 31) - 1;
  const std::uint64_t bytes = bytes_of(value);
  if (bytes > most) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("a value of {} bytes does not fit a .pb file, which holds 2 GB; .npy does", bytes));
  }
}

void write_tensor(protozero::pbf_writer& writer, const Tensor& tensor) {
  if (tensor.type() == ElementType::complex64 || tensor.type() == ElementType::complex128) {
    refuse_complex(tensor.type());
  }
  if (tensor.type() == ElementType::undefined) throw Error(ErrorCode::invalid_input, "the tensor has no element type");
  for (const std::int64_t size : tensor.shape()) writer.add_int64(schema::tensor::dims, size);
  writer.add_int32(schema::tensor::data_type, static_cast<std::int32_t>(tensor.type()));
  if (tensor.type() == ElementType::string) {
    for (const std::string& text : tensor.strings()) writer.add_bytes(schema::tensor::string_data, text);
    return;
  }
  const std::span<const std::byte> bytes = tensor.bytes();
  writer.add_bytes(schema::tensor::raw_data, reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

schema::ElementKind kind_of(const Value& value) {
  if (value.tensor() != nullptr) return schema::ElementKind::tensor;
  if (value.sequence() != nullptr) return schema::ElementKind::sequence;
  if (value.map() != nullptr) refuse_kind("maps");
  return schema::ElementKind::optional;
}

void write_sequence(protozero::pbf_writer& writer, const Sequence& sequence) {
  const auto kind = sequence.values.empty() ? schema::ElementKind::tensor : kind_of(sequence.values.front());
  if (kind == schema::ElementKind::optional) refuse_kind("sequences that hold nothing at a place");
  writer.add_int32(schema::sequence::elem_type, static_cast<std::int32_t>(kind));
  for (const Value& value : sequence.values) {
    if (kind_of(value) != kind) refuse_kind("sequences of unlike values");
    if (const Tensor* tensor = value.tensor()) {
      protozero::pbf_writer inner(writer, schema::sequence::tensor_values);
      write_tensor(inner, *tensor);
    } else {
      protozero::pbf_writer inner(writer, schema::sequence::sequence_values);
      write_sequence(inner, *value.sequence());
    }
  }
}

std::string_view message_name(ValueKind kind) {
  if (kind == ValueKind::sequence) return "SequenceProto";
  return kind == ValueKind::optional ? "OptionalProto" : "TensorProto";
}

Error refusal(std::string_view content, const ValueType& expected, std::string_view what,
              const MalformedMessage& reason) {
  const std::string_view name = message_name(expected.kind);
  if (const std::string_view kind = looks_like(content); !kind.empty()) {
    return {ErrorCode::invalid_input, fmt::format("{} holds no {}: it looks like {}", quote(what), name, kind)};
  }
  const auto place = content.empty() ? 0 : reason.where() - content.data();
  return {ErrorCode::invalid_input, fmt::format("{} holds no {}, or a wrong one: {} (at byte {} of {})", quote(what),
                                                name, reason.what(), place, content.size())};
}

}  // namespace

Value read_value(std::string_view content, const ValueType& expected, std::string_view what) {
  try {
    return read_expected(Message(content), expected);
  } catch (const MalformedMessage& reason) {
    throw refusal(content, expected, what, reason);
  } catch (const Error& error) {
    throw error.within(quote(what));
  }
}

Value read_value_file(const std::filesystem::path& path, const ValueType& expected) {
  const MappedFile file(path);
  return read_value(file.text(), expected, path.string());
}

std::string write_value(const Value& value, std::string_view name) {
  refuse_too_long(value);
  std::string bytes;
  protozero::pbf_writer writer(bytes);
  if (const Tensor* tensor = value.tensor()) {
    write_tensor(writer, *tensor);
    writer.add_string(schema::tensor::name, name.data(), name.size());
  } else if (const Sequence* sequence = value.sequence()) {
    writer.add_string(schema::sequence::name, name.data(), name.size());
    write_sequence(writer, *sequence);
  } else if (value.is_none()) {
    return write_optional(value, name);
  } else {
    refuse_kind("maps");
  }
  return bytes;
}

std::string write_optional(const Value& value, std::string_view name) {
  refuse_too_long(value);
  std::string bytes;
  protozero::pbf_writer writer(bytes);
  writer.add_string(schema::optional::name, name.data(), name.size());
  const auto kind = value.is_none() ? schema::ElementKind::undefined : kind_of(value);
  writer.add_int32(schema::optional::elem_type, static_cast<std::int32_t>(kind));
  if (const Tensor* tensor = value.tensor()) {
    protozero::pbf_writer inner(writer, schema::optional::tensor_value);
    write_tensor(inner, *tensor);
  } else if (const Sequence* sequence = value.sequence()) {
    protozero::pbf_writer inner(writer, schema::optional::sequence_value);
    write_sequence(inner, *sequence);
  }
  return bytes;
}

}  // namespace gpux::onnx

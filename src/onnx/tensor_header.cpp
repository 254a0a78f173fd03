#include "onnx/tensor_header.h"

#include <charconv>

#include <fmt/format.h>

#include "gpux/error.h"
#include "onnx/limits.h"
#include "onnx/schema.h"
#include "onnx/text.h"
#include "onnx/value_type.h"

namespace gpux::onnx {
namespace {

std::uint64_t decimal(const Message& message, std::string_view key, std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    message.malformed(fmt::format("external data has {} {}, not a number of bytes", key, quote(text)));
  }
  return number;
}

void read_external_entry(Message message, ExternalLocation& external) {
  std::string_view key;
  std::string_view value;
  while (message.next()) {
    if (message.field() == schema::entry::key) key = message.bytes();
    if (message.field() == schema::entry::value) value = message.bytes();
  }
  if (key == "location") external.path = value;
  if (key == "offset") external.offset = decimal(message, key, value);
  if (key == "length") external.length = decimal(message, key, value);
}

void measure(const Message& message, TensorHeader& header) {
  try {
    header.element_count = element_count(header.shape);
  } catch (const Error& error) {
    message.malformed(fmt::format("tensor {}: {}", quote(header.name), error.message()));
  }
  const std::uint64_t bits = bits_of(header.type);
  const auto count = static_cast<std::uint64_t>(header.element_count);
  if (bits != 0 && count > (std::uint64_t{1} << 62) / bits) {
    message.malformed(fmt::format("tensor {}: {} has no size", quote(header.name), describe(header)));
  }
  header.byte_size = (count * bits + 7) / 8;
}

void hold_against_data(const Message& message, const TensorHeader& header, std::uint64_t stored_at_most) {
  const auto complain = [&](std::string_view what, std::uint64_t met) {
    message.malformed(fmt::format("tensor {}: {} takes {} bytes, its {} {}", quote(header.name), describe(header),
                                  header.byte_size, what, met));
  };
  if (header.external) {
    if (header.type == ElementType::string) {
      message.malformed(fmt::format("tensor {}: strings cannot stand in external data", quote(header.name)));
    }
    if (header.external->length != 0 && header.external->length != header.byte_size) {
      complain("external data has length", header.external->length);
    }
    return;
  }
  if (header.raw_data) {
    if (header.raw_data->size() != header.byte_size) complain("raw data has length", header.raw_data->size());
    if (header.type != ElementType::string) return;
  }
  const std::uint64_t bits = bits_of(header.type);
  auto needed = static_cast<std::uint64_t>(header.element_count);
  if (bits < 8 && bits != 0) needed = header.byte_size;
  if (header.type == ElementType::complex64 || header.type == ElementType::complex128) needed *= 2;
  if (stored_at_most < needed) {
    message.malformed(fmt::format("tensor {}: {} takes {} values, {} are there", quote(header.name), describe(header),
                                  needed, stored_at_most));
  }
}

}  // namespace

TensorHeader read_tensor_header(Message message) {
  TensorHeader header;
  ExternalLocation external;
  bool is_external = false;
  std::uint64_t stored_at_most = 0;
  std::uint64_t characters = 0;
  while (message.next()) {
    switch (message.field()) {
      case schema::tensor::dims:
        message.each_integer([&](std::int64_t size) {
          if (header.shape.size() == max_dimensions) {
            message.malformed(fmt::format("a tensor has more than {} dimensions", max_dimensions));
          }
          header.shape.push_back(size);
        });
        break;
      case schema::tensor::data_type:
        header.type = element_type_of(message, message.integer());
        break;
      case schema::tensor::segment:
        message.malformed("a tensor is a segment of another, which is not supported");
      case schema::tensor::name:
        header.name = message.bytes();
        break;
      case schema::tensor::raw_data:
        header.raw_data = message.bytes();
        break;
      case schema::tensor::float_data:
        stored_at_most += message.fixed(4).size() / 4;
        break;
      case schema::tensor::double_data:
        stored_at_most += message.fixed(8).size() / 8;
        break;
      case schema::tensor::int32_data:
      case schema::tensor::int64_data:
      case schema::tensor::uint64_data:
        stored_at_most += message.integers_at_most();
        break;
      case schema::tensor::string_data:
        stored_at_most += 1;
        characters += message.bytes().size();
        break;
      case schema::tensor::external_data:
        read_external_entry(message.message(), external);
        break;
      case schema::tensor::data_location:
        is_external = message.integer() == 1;
        break;
      default:
        break;
    }
  }
  if (is_external) header.external = external;
  measure(message, header);
  if (header.type != ElementType::undefined) hold_against_data(message, header, stored_at_most);
  if (header.type == ElementType::string) header.byte_size = characters;
  return header;
}

std::string describe(const TensorHeader& header) {
  return fmt::format("{}{}", to_string(header.type), to_string(header.shape));
}

}  // namespace gpux::onnx

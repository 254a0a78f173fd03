#include "onnx/tensor_data.h"

#include <cstring>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <protozero/pbf_writer.hpp>

#include "gpux/error.h"
#include "onnx/schema.h"
#include "onnx/text.h"

namespace gpux::onnx {

namespace fs = std::filesystem;

TensorData::TensorData(fs::path model) : model_(std::move(model)) {}

std::string TensorData::bytes(Message tensor, const TensorHeader& header) {
  if (header.external) return std::string(external(header, *header.external));
  if (header.raw_data) return std::string(*header.raw_data);
  std::string all;
  while (tensor.next()) {
    if (tensor.field() == schema::tensor::float_data) all += tensor.fixed(sizeof(float));
  }
  if (all.size() != header.byte_size) {
    tensor.malformed(
        fmt::format("tensor {}: {} does not hold {} bytes", quote(header.name), describe(header), all.size()));
  }
  return all;
}

std::vector<float> TensorData::floats(const Message& tensor, const TensorHeader& header) {
  const std::string from = bytes(tensor, header);
  std::vector<float> numbers(static_cast<std::size_t>(header.element_count));
  if (!from.empty()) std::memcpy(numbers.data(), from.data(), from.size());
  return numbers;
}

std::string_view TensorData::external(const TensorHeader& header, const ExternalLocation& where) {
  const std::string location(where.path);
  auto [place, is_new] = files_.try_emplace(location);
  if (is_new) {
    std::error_code error;
    fs::path file = model_.parent_path() / location;
    // Where the model is a link, as in download caches, its data may lie beside either end.
    if (!fs::exists(file, error)) file = fs::canonical(model_, error).parent_path() / location;
    place->second = MappedFile(file);
  }
  const std::string_view all = place->second.text();
  if (where.offset > all.size() || header.byte_size > all.size() - where.offset) {
    throw Error(ErrorCode::invalid_model,
                fmt::format("tensor {}: '{}' is too short for it", quote(header.name), location));
  }
  return all.substr(where.offset, header.byte_size);
}

void append_tensor(std::string& graph, std::string_view name, ElementType type, const Shape& shape,
                   std::span<const std::byte> bytes) {
  protozero::pbf_writer writer(graph);
  protozero::pbf_writer tensor(writer, schema::graph::initializer);
  for (const std::int64_t size : shape) tensor.add_int64(schema::tensor::dims, size);
  tensor.add_int32(schema::tensor::data_type, static_cast<std::int32_t>(type));
  tensor.add_bytes(schema::tensor::name, name.data(), name.size());
  tensor.add_bytes(schema::tensor::raw_data, reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace gpux::onnx

#include "large_model.h"

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include <protozero/pbf_writer.hpp>

namespace gpux::bench {
namespace {

// The numbers are the field numbers of onnx.proto.
void add_value(protozero::pbf_writer& graph, int field, const char* name, std::int64_t side) {
  protozero::pbf_writer value(graph, static_cast<protozero::pbf_tag_type>(field));
  value.add_string(1, name);
  protozero::pbf_writer type(value, 2);
  protozero::pbf_writer tensor(type, 1);
  tensor.add_int32(1, 1);
  protozero::pbf_writer shape(tensor, 2);
  protozero::pbf_writer(shape, 1).add_int64(1, 1);
  protozero::pbf_writer(shape, 1).add_int64(1, side);
}

void add_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

// What stands before a message or bytes of that length.
std::string head(unsigned field, std::uint64_t length) {
  std::string out;
  add_varint(out, field << 3 | 2);
  add_varint(out, length);
  return out;
}

}  // namespace

void write_large_model(const std::filesystem::path& file, std::uint64_t weight_bytes) {
  const auto side = static_cast<std::int64_t>(std::sqrt(static_cast<double>(weight_bytes) / sizeof(float)));
  const std::uint64_t raw_bytes = static_cast<std::uint64_t>(side) * static_cast<std::uint64_t>(side) * sizeof(float);

  std::string graph;
  {
    protozero::pbf_writer writer(graph);
    {
      protozero::pbf_writer node(writer, 1);
      node.add_string(1, "x");
      node.add_string(1, "w");
      node.add_string(2, "y");
      node.add_string(4, "MatMul");
    }
    writer.add_string(2, "large");
    add_value(writer, 11, "x", side);
    add_value(writer, 12, "y", side);
  }
  std::string tensor;
  {
    protozero::pbf_writer writer(tensor);
    writer.add_int64(1, side);
    writer.add_int64(1, side);
    writer.add_int32(2, 1);
    writer.add_string(8, "w");
  }
  tensor += head(9, raw_bytes);
  graph += head(5, tensor.size() + raw_bytes) + tensor;
  std::string model;
  {
    protozero::pbf_writer writer(model);
    writer.add_int64(1, 8);
    protozero::pbf_writer(writer, 8).add_int64(2, 17);
  }
  model += head(7, graph.size() + raw_bytes) + graph;

  std::ofstream stream(file, std::ios::binary);
  stream.exceptions(std::ios::failbit | std::ios::badbit);
  stream.write(model.data(), static_cast<std::streamsize>(model.size()));
  std::vector<float> row(static_cast<std::size_t>(side));
  for (std::int64_t i = 0; i < side; ++i) {
    // Not all alike, so that no page is shared or compressed away.
    for (std::size_t j = 0; j < row.size(); ++j)
      row[j] = 1e-4F * static_cast<float>((i * 31 + static_cast<std::int64_t>(j) * 7) % 101);
    stream.write(reinterpret_cast<const char*>(row.data()), static_cast<std::streamsize>(row.size() * sizeof(float)));
  }
}

}  // namespace gpux::bench

#include "generation/cache_mover.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/scratch_folder.h"
#include "onnx/graph_writer.h"

namespace gpux::generation {
namespace {

constexpr std::size_t max_sources = 2;

std::string source_name(std::size_t source, std::size_t array) {
  return fmt::format("source.{}.{}", source, array);
}

std::string positions_name(std::size_t source) {
  return fmt::format("positions.{}", source);
}

void write_model(const std::filesystem::path& file, const CacheLayout& layout, std::size_t sources) {
  constexpr std::int64_t opset = 17, ir_version = 8;
  onnx::GraphWriter graph("moved keys and values");
  const auto sizes = [&](const std::string& rows, const std::string& positions) {
    return std::array<onnx::WrittenSize, 4>{rows, layout.heads, positions, layout.head_size};
  };
  for (std::size_t source = 0; source < sources; ++source) {
    for (std::size_t array = 0; array < layout.arrays; ++array) {
      graph.input(source_name(source, array), layout.type,
                  sizes(fmt::format("rows.{}", source), fmt::format("capacity.{}", source)));
    }
    graph.input(positions_name(source), ElementType::int32, std::array<onnx::WrittenSize, 1>{"capacity"});
  }
  graph.input("rows", ElementType::int32, std::array<onnx::WrittenSize, 1>{"rows"});
  for (std::size_t array = 0; array < layout.arrays; ++array) {
    std::vector<std::string> parts;
    for (std::size_t source = 0; source < sources; ++source) {
      parts.push_back(
          graph.node("Gather", {source_name(source, array), positions_name(source)}, {{"axis", std::int64_t{2}}}));
    }
    const std::string all = sources == 1 ? parts.front() : graph.node("Concat", parts, {{"axis", std::int64_t{0}}});
    const std::string name = fmt::format("moved.{}", array);
    graph.node("Gather", {all, "rows"}, {{"axis", std::int64_t{0}}}, name);
    graph.output(name, layout.type, sizes("rows", "capacity"));
  }
  graph.write(file, opset, ir_version);
}

Tensor indices(std::size_t count, const auto& index) {
  Tensor tensor = Tensor::allocate(ElementType::int32, {static_cast<std::int64_t>(count)});
  for (std::size_t i = 0; i < count; ++i) tensor.mutable_as<std::int32_t>()[i] = static_cast<std::int32_t>(index(i));
  return tensor;
}

}  // namespace

CacheMover::CacheMover(const CacheLayout& layout, const LoadOptions& options) {
  const ScratchFolder folder;
  for (std::size_t sources = 1; sources <= max_sources; ++sources) {
    const std::filesystem::path file = folder.path() / fmt::format("{}.onnx", sources);
    write_model(file, layout, sources);
    models_.push_back(std::make_unique<Model>(file, options));
  }
}

DeviceArrays CacheMover::gather(std::span<const DeviceArrays* const> sources, std::span<const std::size_t> rows,
                                std::size_t capacity) {
  NamedValues inputs;
  NamedDeviceTensors device_inputs;
  for (std::size_t source = 0; source < sources.size(); ++source) {
    const DeviceArrays& arrays = *sources[source];
    for (std::size_t array = 0; array < arrays.size(); ++array) {
      device_inputs.emplace_back(source_name(source, array), arrays[array]);
    }
    const auto last = static_cast<std::size_t>(arrays.front().shape()[2]) - 1;
    inputs.emplace_back(positions_name(source), indices(capacity, [&](std::size_t i) { return std::min(i, last); }));
  }
  inputs.emplace_back("rows", indices(rows.size(), [&](std::size_t i) { return rows[i]; }));
  DeviceArrays moved;
  runtime::SessionReplica& session = models_.at(sources.size() - 1)->session;
  for (auto& [name, tensor] : session.run_without_reading(inputs, device_inputs)) moved.push_back(std::move(tensor));
  return moved;
}

}  // namespace gpux::generation

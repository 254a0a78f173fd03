#include "checkpoint/safetensors.h"

#include <array>
#include <cstring>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/utf8_prefix.h"
#include "gpux/error.h"
#include "onnx/text.h"
#include "tensor/small_float.h"

namespace gpux::checkpoint {
namespace {

using nlohmann::json;

constexpr std::uint64_t largest_header = std::uint64_t{100} << 20;  // the format's own bound

std::optional<std::size_t> bytes_of(std::string_view type) {
  if (type == "F64" || type == "I64" || type == "U64") return 8;
  if (type == "F32" || type == "I32" || type == "U32") return 4;
  if (type == "F16" || type == "BF16" || type == "I16" || type == "U16") return 2;
  if (type == "I8" || type == "U8" || type == "BOOL" || type == "F8_E4M3" || type == "F8_E5M2") return 1;
  return std::nullopt;
}

bool is_floating(std::string_view type) {
  return type == "F32" || type == "F64" || type == "F16" || type == "BF16";
}

// An object, or why there is none.
json read_object(std::string_view text, std::string& problem) {
  try {
    json object = parse_bounded_json<json>(text);
    if (!object.is_object()) problem = "is no JSON object";
    return object;
  } catch (const json::exception&) {
    problem = "is no JSON object";
  } catch (const Error& error) {
    problem = "is " + error.message();
  }
  return {};
}

// By bit pattern: models have billions of weights, and computing a value takes longer than looking it up.
const std::vector<float>& values_of(ElementType small_type) {
  const auto make = [](ElementType type) {
    std::vector<float> values;
    constexpr std::uint32_t patterns = 1U << 16U;
    for (std::uint32_t pattern = 0; pattern < patterns; ++pattern) {
      values.push_back(static_cast<float>(small_float_value(type, static_cast<std::uint16_t>(pattern))));
    }
    return values;
  };
  static const std::vector<float> of_float16 = make(ElementType::float16);
  static const std::vector<float> of_bfloat16 = make(ElementType::bfloat16);
  return small_type == ElementType::float16 ? of_float16 : of_bfloat16;
}

template <typename T>
T load(const std::byte* bytes) noexcept {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

}  // namespace

std::optional<std::filesystem::path> safetensors_in(const std::filesystem::path& folder) {
  std::error_code unreadable;
  for (const char* name : {"model.safetensors", "model.safetensors.index.json"}) {
    if (std::filesystem::is_regular_file(folder / name, unreadable)) return folder / name;
  }
  return std::nullopt;
}

std::vector<std::string> parts_of_index(std::string_view index_json, const std::string& name) {
  std::string problem;
  const json index = read_object(index_json, problem);
  if (!problem.empty()) throw Error(ErrorCode::invalid_model, fmt::format("{} {}", name, problem));
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object()) {
    throw Error(ErrorCode::invalid_model, fmt::format("{} has no weight_map, an object", name));
  }
  std::set<std::string> parts;
  for (const auto& [tensor, part] : map->items()) {
    const std::filesystem::path path = part.is_string() ? part.get<std::string>() : "";
    if (path.empty() || path != path.filename()) {
      throw Error(
          ErrorCode::invalid_model,
          fmt::format("{}: {} is in {}; accepted: the name of a file in the same folder", name, onnx::quote(tensor),
                      utf8_prefix(part.dump(-1, ' ', false, json::error_handler_t::replace), 80)));
    }
    parts.insert(path.string());
  }
  return {parts.begin(), parts.end()};
}

Safetensors::Safetensors(const std::filesystem::path& file) : file_name_(file.filename().string()) {
  if (file.extension() != ".json") {
    add(file);
    return;
  }
  for (const std::string& part : parts_of_index(read_file(file), file_name_)) add(file.parent_path() / part);
}

void Safetensors::add(const std::filesystem::path& file) {
  const MappedFile& mapped = files_.emplace_back(file);
  const auto refuse = [&](const std::string& why) -> Error {
    return {ErrorCode::invalid_model, fmt::format("{} is no safetensors file: {}", file.filename().string(), why)};
  };
  const std::span<const std::byte> all = mapped.bytes();
  if (all.size() < sizeof(std::uint64_t)) throw refuse("it is too short");
  const auto header_bytes = load<std::uint64_t>(all.data());
  if (header_bytes > largest_header || header_bytes > all.size() - sizeof header_bytes) {
    throw refuse("its header is longer than the file");
  }
  const std::span<const std::byte> data = all.subspan(sizeof header_bytes + header_bytes);
  std::string problem;
  const json header = read_object(mapped.text().substr(sizeof header_bytes, header_bytes), problem);
  if (!problem.empty()) throw refuse("its header " + problem);
  for (const auto& [name, said] : header.items()) {
    if (name == "__metadata__") continue;
    Entry entry;
    try {
      entry.type = said.at("dtype").get<std::string>();
      entry.shape = said.at("shape").get<Shape>();
      const auto places = said.at("data_offsets").get<std::array<std::uint64_t, 2>>();
      if (places[0] > places[1] || places[1] > data.size())
        throw refuse(fmt::format("{} lies outside of it", onnx::quote(name)));
      entry.bytes = data.subspan(places[0], places[1] - places[0]);
    } catch (const json::exception&) {
      throw refuse(fmt::format("its header says of {} no dtype, shape and data_offsets", onnx::quote(name)));
    }
    const std::optional<std::size_t> size = bytes_of(entry.type);
    std::uint64_t expected = size.value_or(0);
    for (const std::int64_t dimension : entry.shape) {
      if (dimension < 0 || (dimension != 0 && expected > data.size() / static_cast<std::uint64_t>(dimension))) {
        throw refuse(fmt::format("the sizes of {} are larger than the file", onnx::quote(name)));
      }
      expected *= static_cast<std::uint64_t>(dimension);
    }
    if (size && expected != entry.bytes.size())
      throw refuse(fmt::format("{} has not as many bytes as its sizes", onnx::quote(name)));
    tensors_.emplace(name, std::move(entry));
  }
}

std::vector<std::string> Safetensors::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : tensors_) names.push_back(name);
  return names;
}

std::uint64_t Safetensors::float32_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const auto& [name, entry] : tensors_) {
    if (is_floating(entry.type)) bytes += entry.bytes.size() / bytes_of(entry.type).value_or(1) * sizeof(float);
  }
  return bytes;
}

const Safetensors::Entry& Safetensors::entry(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    throw Error(ErrorCode::invalid_model, fmt::format("{} has no tensor {}", file_name_, onnx::quote(name)));
  }
  return found->second;
}

const Shape& Safetensors::shape(std::string_view name) const {
  return entry(name).shape;
}

void Safetensors::require(std::string_view name, const Shape& shape) const {
  const Entry& found = entry(name);
  if (found.shape != shape) {
    throw Error(ErrorCode::invalid_model,
                fmt::format("{}: {} has the sizes {}, and {} are expected", file_name_, onnx::quote(name),
                            to_string(std::span<const std::int64_t>(found.shape)),
                            to_string(std::span<const std::int64_t>(shape))));
  }
  (void)floating_type(name);
}

ElementType Safetensors::floating_type(std::string_view name) const {
  const std::string& type = entry(name).type;
  if (!is_floating(type)) {
    throw Error(ErrorCode::invalid_model, fmt::format("{}: {} is {}; F32, F16, BF16 and F64 are read", file_name_,
                                                      onnx::quote(name), onnx::quote(type)));
  }
  if (type == "F32") return ElementType::float32;
  if (type == "F64") return ElementType::float64;
  return type == "F16" ? ElementType::float16 : ElementType::bfloat16;
}

std::span<const std::byte> Safetensors::bytes_of_rows(std::string_view name, const Shape& shape, std::int64_t first_row,
                                                      std::int64_t rows) const {
  require(name, shape);
  const Entry& found = entry(name);
  const std::int64_t stored_rows = shape.empty() ? 1 : shape.front();
  if (first_row < 0 || rows < 0 || first_row > stored_rows || rows > stored_rows - first_row) {
    throw Error(ErrorCode::internal, fmt::format("rows {} to {} of {}, which has {}", first_row, first_row + rows,
                                                 onnx::quote(name), stored_rows));
  }
  const std::size_t row_bytes = stored_rows == 0 ? 0 : found.bytes.size() / static_cast<std::size_t>(stored_rows);
  return found.bytes.subspan(static_cast<std::size_t>(first_row) * row_bytes,
                             static_cast<std::size_t>(rows) * row_bytes);
}

std::vector<float> Safetensors::floats(std::string_view name, const Shape& shape, std::int64_t first_row,
                                       std::int64_t rows) const {
  const std::span<const std::byte> bytes = bytes_of_rows(name, shape, first_row, rows);
  const ElementType type = floating_type(name);
  const std::size_t element_bytes = bits_of(type) / 8;
  std::vector<float> values(bytes.size() / element_bytes);
  if (type == ElementType::float32) {
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  if (type == ElementType::float64) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(load<double>(bytes.data() + element_bytes * i));
    }
    return values;
  }
  const std::vector<float>& table = values_of(type);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = table[load<std::uint16_t>(bytes.data() + element_bytes * i)];
  }
  return values;
}

std::vector<std::uint16_t> Safetensors::small_floats(std::string_view name, const Shape& shape, std::int64_t first_row,
                                                     std::int64_t rows) const {
  const std::span<const std::byte> bytes = bytes_of_rows(name, shape, first_row, rows);
  if (bits_of(floating_type(name)) != 16) {
    throw Error(ErrorCode::internal, fmt::format("{} does not have 16 bits", onnx::quote(name)));
  }
  std::vector<std::uint16_t> patterns(bytes.size() / sizeof(std::uint16_t));
  if (!patterns.empty()) std::memcpy(patterns.data(), bytes.data(), bytes.size());
  return patterns;
}

}  // namespace gpux::checkpoint

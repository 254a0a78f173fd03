#include "server/protocols/open_inference/tensor_wire.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "base/spelling.h"
#include "base/utf8_prefix.h"
#include "gpux/error.h"
#include "tensor/convert.h"
#include "tensor/json_writer.h"

namespace gpux::server {
namespace {

struct Datatype {
  std::string_view name;
  ElementType type;
};

constexpr std::array<Datatype, 14> datatypes{{{"BOOL", ElementType::boolean},
                                              {"UINT8", ElementType::uint8},
                                              {"UINT16", ElementType::uint16},
                                              {"UINT32", ElementType::uint32},
                                              {"UINT64", ElementType::uint64},
                                              {"INT8", ElementType::int8},
                                              {"INT16", ElementType::int16},
                                              {"INT32", ElementType::int32},
                                              {"INT64", ElementType::int64},
                                              {"FP16", ElementType::float16},
                                              {"BF16", ElementType::bfloat16},
                                              {"FP32", ElementType::float32},
                                              {"FP64", ElementType::float64},
                                              {"BYTES", ElementType::string}}};

bool has_name(const std::vector<SignatureEntry>& entries, std::string_view name) {
  return std::any_of(entries.begin(), entries.end(), [&](const SignatureEntry& entry) { return entry.name == name; });
}

std::vector<std::string> names_of(const std::vector<SignatureEntry>& entries) {
  std::vector<std::string> names;
  for (const SignatureEntry& entry : entries) names.push_back(entry.name);
  return names;
}

// Elements of BYTES: each four bytes of length, little-endian, and as many bytes.
Tensor read_bytes_elements(std::span<const std::byte> bytes, const Shape& shape, const std::string& name) {
  std::vector<std::string> values;
  const std::int64_t count = element_count(shape);
  while (!bytes.empty()) {
    std::uint32_t length = 0;
    if (bytes.size() < sizeof length) refuse(fmt::format("input '{}': a BYTES element's length is cut off", name));
    std::memcpy(&length, bytes.data(), sizeof length);
    bytes = bytes.subspan(sizeof length);
    if (length > bytes.size()) {
      refuse(fmt::format("input '{}': BYTES element {} claims {} bytes, {} are left", name, values.size(), length,
                         bytes.size()));
    }
    values.emplace_back(reinterpret_cast<const char*>(bytes.data()), length);
    bytes = bytes.subspan(length);
  }
  if (static_cast<std::int64_t>(values.size()) != count) {
    refuse(fmt::format("input '{}': {} BYTES elements for shape {}", name, values.size(),
                       to_string(std::span<const std::int64_t>(shape))));
  }
  return Tensor::of_strings(shape, std::move(values));
}

const std::vector<std::string>* labels_of(std::span<const DeclaredValue> declared, std::string_view output) {
  for (const DeclaredValue& value : declared) {
    if (value.name == output && !value.labels.empty()) return &value.labels;
  }
  return nullptr;
}

const NamedValue& output_named(const NamedValues& outputs, const std::string& name) {
  return *std::find_if(outputs.begin(), outputs.end(), [&](const NamedValue& output) { return output.first == name; });
}

// "score:index:label" of the best `classes` of each row, the label where there is one.
Tensor classified(const Tensor& tensor, std::uint32_t classes, const std::vector<std::string>* labels,
                  const std::string& name) {
  if (tensor.type() == ElementType::string || tensor.shape().empty()) {
    refuse(fmt::format("output '{}' holds no scores to classify by", name));
  }
  const auto width = static_cast<std::size_t>(tensor.shape().back());
  const std::size_t count = std::min<std::size_t>(classes, width);
  Shape shape = tensor.shape();
  shape.back() = static_cast<std::int64_t>(count);
  const Tensor numbers = convert(tensor, ElementType::float64);
  const auto values = numbers.as<double>();
  std::vector<std::string> texts;
  std::vector<std::size_t> order(width);
  for (std::size_t first = 0; width != 0 && first < values.size(); first += width) {
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto better = [&](std::size_t a, std::size_t b) {
      const double left = values[first + a], right = values[first + b];
      if (left != right && !(left != left) && !(right != right)) return left > right;
      if ((left != left) != (right != right)) return right != right;
      return a < b;
    };
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(), better);
    for (std::size_t i = 0; i < count; ++i) {
      std::string text = fmt::format("{:f}:{}", values[first + order[i]], order[i]);
      if (labels != nullptr && order[i] < labels->size()) text += ":" + (*labels)[order[i]];
      texts.push_back(std::move(text));
    }
  }
  return Tensor::of_strings(std::move(shape), std::move(texts));
}

// The bytes that it has.
std::uint64_t write_shared(const Tensor& tensor, const SharedRange& range, const std::string& name) {
  const bool is_text = tensor.type() == ElementType::string;
  const std::string elements = is_text ? bytes_elements(tensor) : std::string();
  const std::span<const std::byte> bytes =
      is_text ? std::as_bytes(std::span<const char>(elements.data(), elements.size())) : tensor.bytes();
  if (bytes.size() > range.byte_size) {
    refuse(fmt::format("output '{}' has {} bytes, and shared_memory_byte_size is {}", name, bytes.size(),
                       range.byte_size));
  }
  try {
    range.region->write(range.offset, bytes);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("output '{}': {}", name, error.message()));
  }
  return bytes.size();
}

}  // namespace

void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_input, message);
}

std::string shown(std::string_view text) {
  std::string out;
  append_json_string(out, utf8_prefix(text, 60));
  return out;
}

std::string_view datatype_of(ElementType type) noexcept {
  for (const Datatype& row : datatypes) {
    if (row.type == type) return row.name;
  }
  return {};
}

std::optional<ElementType> type_of_datatype(std::string_view datatype) noexcept {
  for (const Datatype& row : datatypes) {
    if (row.name == datatype) return row.type;
  }
  return std::nullopt;
}

Tensor read_binary_tensor(std::span<const std::byte> bytes, const std::shared_ptr<const void>& owner, ElementType type,
                          const Shape& shape, const std::string& name) {
  if (type == ElementType::string) return read_bytes_elements(bytes, shape, name);
  const std::size_t element = bits_of(type) / 8;
  const auto wanted = static_cast<std::uint64_t>(element_count(shape));
  if (wanted > bytes.size() / element || wanted * element != bytes.size()) {
    refuse(fmt::format("input '{}': {} bytes for {} of shape {}", name, bytes.size(), datatype_of(type),
                       to_string(std::span<const std::int64_t>(shape))));
  }
  if (type == ElementType::boolean) {
    const bool only_bits =
        std::all_of(bytes.begin(), bytes.end(), [](std::byte value) { return value <= std::byte{1}; });
    if (!only_bits) refuse(fmt::format("input '{}': a BOOL is neither 0 nor 1", name));
  }
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % element == 0 && owner != nullptr) {
    return Tensor::borrow(type, shape, bytes, owner);
  }
  Tensor tensor = Tensor::allocate(type, shape);
  if (!bytes.empty()) std::memcpy(tensor.mutable_bytes().data(), bytes.data(), bytes.size());
  return tensor;
}

std::string bytes_elements(const Tensor& tensor) {
  std::string out;
  for (const std::string& value : tensor.strings()) {
    const auto length = static_cast<std::uint32_t>(value.size());
    out.append(reinterpret_cast<const char*>(&length), sizeof length);
    out += value;
  }
  return out;
}

SharedRange shared_range(const InferReading& reading, std::string_view region, std::optional<std::uint64_t> byte_size,
                         std::uint64_t offset, const std::string& what) {
  if (reading.regions == nullptr) {
    refuse(fmt::format("{}shared memory is not served: gpux serve --shared-memory PREFIX serves it", what));
  }
  if (!byte_size) refuse(fmt::format("{}shared_memory_region is given without shared_memory_byte_size", what));
  try {
    SharedRange range{.region = reading.regions->find(region), .offset = offset, .byte_size = *byte_size};
    range.region->require_within(range.offset, range.byte_size);
    return range;
  } catch (const Error& error) {
    throw Error(error.code(), what + error.message());
  }
}

Tensor read_shared_tensor(const SharedRange& range, const InferReading& reading, ElementType type, const Shape& shape,
                          const std::string& name) {
  if (reading.hold) {
    // A text has four bytes for its length at least.
    const bool is_text = type == ElementType::string;
    reading.hold(range.byte_size + (is_text ? range.byte_size / 4 * sizeof(std::string) + range.byte_size : 0));
  }
  auto copy = std::make_shared<std::vector<std::byte>>(range.byte_size);
  try {
    range.region->read(range.offset, *copy);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("input '{}': {}", name, error.message()));
  }
  return read_binary_tensor(*copy, copy, type, shape, name);
}

void InferCall::set_schedule(std::uint64_t wanted_priority, std::uint64_t timeout_microseconds) noexcept {
  run.priority = static_cast<int>(std::min<std::uint64_t>(wanted_priority, 1U << 20));
  if (timeout_microseconds == 0) return;
  timeout = std::chrono::microseconds(std::min<std::uint64_t>(timeout_microseconds, std::uint64_t{1} << 50));
}

void require_input(const InferCall& call, std::string_view name, const Signature& signature) {
  if (!has_name(signature.inputs, name)) {
    refuse(fmt::format("there is no input {}; inputs: {}", shown(name), join(names_of(signature.inputs))));
  }
  if (find(call.run.inputs, name) != nullptr) refuse(fmt::format("input '{}' is given twice", name));
}

void add_output(InferCall& call, std::string_view name, const Signature& signature) {
  const auto found = std::ranges::find(signature.outputs, name, &SignatureEntry::name);
  if (found == signature.outputs.end()) {
    refuse(fmt::format("there is no output {}; outputs: {}", shown(name), join(names_of(signature.outputs))));
  }
  for (const RequestedOutput& other : call.outputs) {
    if (other.name == name) refuse(fmt::format("output '{}' is asked for twice", name));
  }
  call.run.outputs.push_back(static_cast<std::size_t>(found - signature.outputs.begin()));
}

std::vector<AnsweredOutput> answered_outputs(const InferResponse& response) {
  std::vector<RequestedOutput> wanted = response.call.outputs;
  if (wanted.empty()) {
    for (const NamedValue& output : response.outputs) {
      wanted.push_back({output.first, response.call.binary_outputs, 0});
    }
  }
  std::vector<AnsweredOutput> answered;
  for (const RequestedOutput& output : wanted) {
    const auto& [name, value] = output_named(response.outputs, output.name);
    const Tensor* tensor = value.tensor();
    if (tensor == nullptr || datatype_of(tensor->type()).empty()) {
      refuse(fmt::format("output '{}' is no tensor that this protocol has a form for: leave it out, or use /predict",
                         name));
    }
    Tensor given = *tensor;
    if (output.classes != 0) {
      given = classified(*tensor, output.classes, labels_of(response.declared, name), name);
    }
    std::optional<SharedRange> shared = output.shared;
    if (shared) shared->byte_size = write_shared(given, *shared, name);
    answered.push_back({name, std::move(given), output.binary, std::move(shared)});
  }
  return answered;
}

}  // namespace gpux::server

#include "server/open_inference.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/spelling.h"
#include "gpux/error.h"
#include "tensor/convert.h"
#include "tensor/json_envelope.h"
#include "tensor/json_reader.h"
#include "tensor/json_text.h"
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

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_input, message);
}

// A text in a message: short, on one line.
std::string shown(std::string_view text) {
  std::string out;
  append_json_string(out, text.substr(0, 60));
  return out;
}

constexpr std::size_t small_json_bytes = 1U << 16;

nlohmann::json small_json(std::string_view raw, std::string_view what) {
  if (raw.size() > small_json_bytes) refuse(fmt::format("{} is longer than 64 KiB", what));
  nlohmann::json value = nlohmann::json::parse(raw, nullptr, false);
  if (value.is_discarded()) refuse(fmt::format("{} is not JSON", what));
  return value;
}

std::string text_member(const JsonInput& member, std::string_view where) {
  JsonCursor cursor(member.raw);
  std::string text;
  if (cursor.peek() == '"' && member.raw.size() <= small_json_bytes && read_json_string(cursor, text) == nullptr &&
      cursor.done()) {
    return text;
  }
  const nlohmann::json value = small_json(member.raw, fmt::format("{}{}", where, member.name));
  if (!value.is_string()) refuse(fmt::format("{}{} is not a string", where, member.name));
  return value.get<std::string>();
}

// A whole number as JSON writes it: no sign, no leading zero.
std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t value = 0;
  if (text.empty() || !is_json_digit(text.front()) || (text.front() == '0' && text.size() > 1)) return std::nullopt;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// The `parameters` of a request, a tensor or an output.
class Parameters {
 public:
  Parameters() = default;

  Parameters(std::string_view raw, std::string where) : where_(std::move(where)) {
    if ((!is_object(raw) || raw.size() > small_json_bytes) && !small_json(raw, where_ + "parameters").is_object()) {
      refuse(fmt::format("{}parameters is not an object", where_));
    }
    values_ = split_object(raw);
    for (const JsonInput& value : values_) {
      if (whole_number(value.raw) || value.raw == "true" || value.raw == "false") continue;
      if (!nlohmann::json::accept(value.raw)) refuse(fmt::format("{}parameters is not JSON", where_));
    }
  }

  [[nodiscard]] std::optional<std::uint64_t> number(std::string_view name) const {
    const std::string_view* found = find(name);
    if (found == nullptr) return std::nullopt;
    if (const auto number = whole_number(*found)) return number;
    // Some clients write every parameter as a string.
    const std::string_view text = found->size() > 2 && found->front() == '"' ? found->substr(1, found->size() - 2) : "";
    if (!text.empty() && text.size() < 19 && std::all_of(text.begin(), text.end(), is_json_digit)) {
      return std::stoull(std::string(text));
    }
    refuse(fmt::format("{}parameters.{} is {}, not a whole number of 0 or more", where_, name, shown(*found)));
  }

  [[nodiscard]] std::optional<bool> flag(std::string_view name) const {
    const std::string_view* found = find(name);
    if (found == nullptr) return std::nullopt;
    if (*found == "true") return true;
    if (*found == "false") return false;
    refuse(fmt::format("{}parameters.{} is neither true nor false", where_, name));
  }

  [[nodiscard]] bool has(std::string_view name) const { return find(name) != nullptr; }

 private:
  [[nodiscard]] const std::string_view* find(std::string_view name) const {
    for (const JsonInput& value : values_) {
      if (value.name == name) return &value.raw;
    }
    return nullptr;
  }

  std::string where_;
  std::vector<JsonInput> values_;
};

const SignatureEntry* entry_named(const std::vector<SignatureEntry>& entries, std::string_view name) {
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const SignatureEntry& entry) { return entry.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

std::vector<std::string> names_of(const std::vector<SignatureEntry>& entries) {
  std::vector<std::string> names;
  for (const SignatureEntry& entry : entries) names.push_back(entry.name);
  return names;
}

// [1, 3, 224, 224]; empty where it is anything else.
std::optional<Shape> read_plain_shape(std::string_view raw) {
  JsonCursor cursor(raw);
  Shape shape;
  if (raw.size() > small_json_bytes || !cursor.take('[')) return std::nullopt;
  do {
    cursor.skip_blanks();
    std::int64_t size = 0;
    const auto [end, failure] = std::from_chars(cursor.at, cursor.end, size);
    if (failure != std::errc() || size < 0 || (*cursor.at == '0' && end != cursor.at + 1)) return std::nullopt;
    cursor.at = end;
    shape.push_back(size);
    cursor.skip_blanks();
  } while (cursor.take(','));
  if (!cursor.take(']') || !cursor.done()) return std::nullopt;
  return shape;
}

Shape read_shape(std::string_view raw, std::string_view input) {
  if (auto plain = read_plain_shape(raw)) {
    (void)element_count(*plain);
    return std::move(*plain);
  }
  const nlohmann::json value = small_json(raw, fmt::format("input '{}': shape", input));
  if (!value.is_array()) refuse(fmt::format("input '{}': shape is not a list", input));
  Shape shape;
  for (const nlohmann::json& size : value) {
    if (!size.is_number_integer() || (size.is_number_unsigned() && size.get<std::uint64_t>() > INT64_MAX) ||
        size.get<std::int64_t>() < 0) {
      refuse(fmt::format("input '{}': shape holds {}, not a size of 0 or more", input, shown(size.dump())));
    }
    shape.push_back(size.get<std::int64_t>());
  }
  (void)element_count(shape);
  return shape;
}

bool is_nested(std::string_view data) {
  if (!is_array(data)) return false;
  const std::size_t open = data.find('[');
  return is_array(data.substr(open + 1));
}

ValueType tensor_type(ElementType element, const Shape& shape) {
  std::vector<Dimension> dimensions;
  for (const std::int64_t size : shape) dimensions.push_back({.size = size, .name = {}});
  return {.kind = ValueKind::tensor, .element = element, .dimensions = std::move(dimensions), .inner = {}};
}

Tensor read_json_tensor(std::string_view data, ElementType type, const Shape& shape, const std::string& name) {
  const Shape flat{element_count(shape)};
  const bool nested = shape.size() > 1 && is_nested(data);
  const Value value = read_json_value(data, tensor_type(type, nested ? shape : flat), name);
  return value.tensor()->reshaped(shape);
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

class CallReader {
 public:
  CallReader(const http::Piece& body, std::size_t json_bytes, const Signature& signature)
      : signature_(signature), owner_(body.owner), binary_(body.bytes.subspan(json_bytes)) {}

  InferCall read(std::string_view json) {
    std::string_view inputs, outputs;
    for (const JsonInput& member : split_object(json)) {
      if (member.name == "inputs") {
        inputs = member.raw;
      } else if (member.name == "outputs") {
        outputs = member.raw;
      } else if (member.name == "id") {
        call_.id = text_member(member, "");
      } else if (member.name == "parameters") {
        const Parameters parameters(member.raw, "");
        refuse_sequences(parameters);
        call_.binary_outputs = parameters.flag("binary_data_output").value_or(false);
        call_.priority = static_cast<int>(std::min<std::uint64_t>(parameters.number("priority").value_or(0), 1U << 20));
        if (const auto timeout = parameters.number("timeout"); timeout && *timeout != 0) {
          call_.timeout = std::chrono::microseconds(std::min<std::uint64_t>(*timeout, std::uint64_t{1} << 50));
        }
      } else {
        refuse(fmt::format("the request has no member {}: accepted are id, inputs, outputs, parameters",
                           shown(member.name)));
      }
    }
    if (inputs.empty()) refuse("the request has no inputs");
    for (const std::string_view input : split_array(inputs)) read_input(input);
    if (!binary_.empty()) refuse(fmt::format("{} bytes follow the last binary tensor", binary_.size()));
    if (!outputs.empty()) {
      for (const std::string_view output : split_array(outputs)) read_output(output);
    }
    return std::move(call_);
  }

 private:
  static void refuse_sequences(const Parameters& parameters) {
    for (const char* name : {"sequence_id", "sequence_start", "sequence_end"}) {
      if (parameters.has(name)) refuse(fmt::format("parameters.{}: sequences of requests are not supported", name));
    }
  }

  void read_input(std::string_view text) {
    std::string name, datatype;
    std::optional<std::string_view> shape_text, data;
    std::string_view parameters_text;
    for (const JsonInput& member : split_object(text)) {
      if (member.name == "name") {
        name = text_member(member, "an input's ");
      } else if (member.name == "datatype") {
        datatype = text_member(member, "an input's ");
      } else if (member.name == "shape") {
        shape_text = member.raw;
      } else if (member.name == "data") {
        data = member.raw;
      } else if (member.name == "parameters") {
        parameters_text = member.raw;
      } else {
        refuse(fmt::format("an input has no member {}: accepted are name, shape, datatype, parameters, data",
                           shown(member.name)));
      }
    }
    if (name.empty()) refuse("an input has no name");
    const SignatureEntry* entry = entry_named(signature_.inputs, name);
    if (entry == nullptr) {
      const std::vector<std::string> names = names_of(signature_.inputs);
      refuse(fmt::format("there is no input {}; inputs: {}", shown(name), join(names)));
    }
    if (find(call_.inputs, name) != nullptr) refuse(fmt::format("input '{}' is given twice", name));
    const auto type = type_of_datatype(datatype);
    if (!type) refuse(fmt::format("input '{}': there is no datatype {}", name, shown(datatype)));
    if (!shape_text) refuse(fmt::format("input '{}' has no shape", name));
    const Shape shape = read_shape(*shape_text, name);
    Parameters parameters;
    if (!parameters_text.empty()) parameters = Parameters(parameters_text, fmt::format("input '{}': ", name));
    if (parameters.has("shared_memory_region")) refuse(fmt::format("input '{}': shared memory is not served", name));
    if (const auto size = parameters.number("binary_data_size")) {
      if (data) refuse(fmt::format("input '{}' has both data and binary_data_size", name));
      if (*size > binary_.size()) {
        refuse(fmt::format("input '{}': binary_data_size is {}, and {} bytes are left of the body", name, *size,
                           binary_.size()));
      }
      call_.inputs.emplace_back(name, read_binary_tensor(binary_.first(*size), owner_, *type, shape, name));
      binary_ = binary_.subspan(*size);
      return;
    }
    if (!data) refuse(fmt::format("input '{}' has no data", name));
    call_.inputs.emplace_back(name, read_json_tensor(*data, *type, shape, name));
  }

  void read_output(std::string_view text) {
    RequestedOutput output{.name = {}, .binary = call_.binary_outputs, .classes = 0};
    std::string_view parameters_text;
    for (const JsonInput& member : split_object(text)) {
      if (member.name == "name") {
        output.name = text_member(member, "an output's ");
      } else if (member.name == "parameters") {
        parameters_text = member.raw;
      } else {
        refuse(fmt::format("an output has no member {}: accepted are name, parameters", shown(member.name)));
      }
    }
    if (entry_named(signature_.outputs, output.name) == nullptr) {
      refuse(fmt::format("there is no output {}; outputs: {}", shown(output.name), join(names_of(signature_.outputs))));
    }
    for (const RequestedOutput& other : call_.outputs) {
      if (other.name == output.name) refuse(fmt::format("output '{}' is asked for twice", output.name));
    }
    if (!parameters_text.empty()) {
      const Parameters parameters(parameters_text, fmt::format("output '{}': ", output.name));
      if (parameters.has("shared_memory_region")) {
        refuse(fmt::format("output '{}': shared memory is not served", output.name));
      }
      output.binary = parameters.flag("binary_data").value_or(output.binary);
      output.classes = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(parameters.number("classification").value_or(0), UINT32_MAX));
    }
    call_.outputs.push_back(std::move(output));
  }

  const Signature& signature_;
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> binary_;
  InferCall call_;
};

// The whole body is the only input's only batch item.
InferCall read_raw_input(const http::Piece& body, const Signature& signature) {
  if (signature.inputs.size() != 1) {
    refuse(fmt::format("a raw body is for models with one input, this has {}", signature.inputs.size()));
  }
  const SignatureEntry& entry = signature.inputs.front();
  const ElementType type = entry.type.element;
  if (entry.type.kind != ValueKind::tensor || !entry.type.dimensions || datatype_of(type).empty()) {
    refuse(fmt::format("a raw body cannot be a {}", to_string(entry.type)));
  }
  const std::size_t element = type == ElementType::string ? 0 : bits_of(type) / 8;
  Shape shape;
  std::optional<std::size_t> free;
  std::int64_t fixed = 1;
  for (std::size_t i = 0; i < entry.type.dimensions->size(); ++i) {
    const Dimension& dimension = (*entry.type.dimensions)[i];
    if (!dimension.size && i != 0) {
      if (free) refuse(fmt::format("a raw body leaves more than one size of input '{}' open", entry.name));
      free = i;
    }
    shape.push_back(dimension.size.value_or(1));
    fixed *= std::max<std::int64_t>(shape.back(), 1);
  }
  if (free && element != 0) {
    shape[*free] = static_cast<std::int64_t>(body.bytes.size() / (static_cast<std::uint64_t>(fixed) * element));
  }
  InferCall call;
  call.binary_outputs = true;
  call.inputs.emplace_back(entry.name, read_binary_tensor(body.bytes, body.owner, type, shape, entry.name));
  return call;
}

const NamedValue& output_named(const NamedValues& outputs, const std::string& name) {
  return *std::find_if(outputs.begin(), outputs.end(), [&](const NamedValue& output) { return output.first == name; });
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

const std::vector<std::string>* labels_of(const ProjectFile* project, std::string_view output) {
  if (project == nullptr || !project->outputs) return nullptr;
  for (const DeclaredValue& declared : *project->outputs) {
    if (declared.name == output && !declared.labels.empty()) return &declared.labels;
  }
  return nullptr;
}

}  // namespace

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

void append_metadata_tensor(std::string& out, const SignatureEntry& entry) {
  out += R"({"name":)";
  append_json_string(out, entry.name);
  const std::string_view datatype =
      entry.type.kind == ValueKind::tensor ? datatype_of(entry.type.element) : std::string_view();
  out += R"(,"datatype":)";
  append_json_string(out, datatype.empty() ? to_string(entry.type) : datatype);
  out += R"(,"shape":[)";
  if (entry.type.dimensions) {
    bool first = true;
    for (const Dimension& dimension : *entry.type.dimensions) {
      if (!first) out += ',';
      first = false;
      out += std::to_string(dimension.size.value_or(-1));
    }
  }
  out += "]}";
}

InferCall read_infer_call(const http::Piece& body, std::optional<std::uint64_t> json_bytes,
                          const Signature& signature) {
  if (json_bytes && *json_bytes == 0) return read_raw_input(body, signature);
  const std::uint64_t length = json_bytes.value_or(body.bytes.size());
  if (length > body.bytes.size()) {
    refuse(fmt::format("Inference-Header-Content-Length is {}, and the body has {} bytes", length, body.bytes.size()));
  }
  return CallReader(body, length, signature).read(body.text().substr(0, length));
}

http::Response write_infer_response(const InferResponse& response) {
  http::Response out;
  std::string& text = out.text;
  text.reserve(256);
  text = R"({"model_name":)";
  append_json_string(text, response.model_name);
  text += R"(,"model_version":)";
  append_json_string(text, response.model_version);
  if (!response.call.id.empty()) {
    text += R"(,"id":)";
    append_json_string(text, response.call.id);
  }
  text += R"(,"outputs":[)";
  std::vector<RequestedOutput> wanted = response.call.outputs;
  if (wanted.empty()) {
    for (const NamedValue& output : response.outputs) {
      wanted.push_back({output.first, response.call.binary_outputs, 0});
    }
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto& [name, value] = output_named(response.outputs, wanted[i].name);
    const Tensor* tensor = value.tensor();
    if (tensor == nullptr || datatype_of(tensor->type()).empty()) {
      refuse(fmt::format("output '{}' is no tensor that this protocol has a form for: leave it out, or use /predict",
                         name));
    }
    Tensor classes;
    if (wanted[i].classes != 0) {
      classes = classified(*tensor, wanted[i].classes, labels_of(response.project, name), name);
      tensor = &classes;
    }
    text += i == 0 ? R"({"name":)" : R"(,{"name":)";
    append_json_string(text, name);
    text.append(R"(,"datatype":")").append(datatype_of(tensor->type())).append(R"(","shape":[)");
    for (std::size_t d = 0; d < tensor->shape().size(); ++d) {
      if (d != 0) text += ',';
      text += std::to_string(tensor->shape()[d]);
    }
    text += ']';
    if (wanted[i].binary) {
      http::Piece piece;
      if (tensor->type() == ElementType::string) {
        piece = http::Piece::of(bytes_elements(*tensor));
      } else {
        auto held = std::make_shared<const Tensor>(*tensor);
        piece = {held->bytes(), held};
      }
      text.append(R"(,"parameters":{"binary_data_size":)").append(std::to_string(piece.bytes.size())) += '}';
      out.pieces.push_back(std::move(piece));
    } else {
      text += R"(,"data":)";
      append_json(text, tensor->reshaped({tensor->element_count()}));
    }
    text += '}';
  }
  text += "]}";
  if (out.pieces.empty()) {
    out.headers.add("Content-Type", "application/json");
  } else {
    out.headers.add("Content-Type", "application/octet-stream");
    out.headers.add("Inference-Header-Content-Length", std::to_string(text.size()));
  }
  return out;
}

}  // namespace gpux::server

#include "server/protocols/open_inference/messages.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "gpux/error.h"
#include "server/protocols/open_inference/operations.h"
#include "tensor/json_envelope.h"
#include "tensor/json_reader.h"
#include "tensor/json_text.h"
#include "tensor/json_writer.h"

namespace gpux::server {
namespace {

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

  [[nodiscard]] std::optional<std::string> text(std::string_view name) const {
    const std::string_view* found = find(name);
    if (found == nullptr) return std::nullopt;
    const nlohmann::json value = small_json(*found, fmt::format("{}parameters.{}", where_, name));
    if (!value.is_string()) refuse(fmt::format("{}parameters.{} is {}, not a text", where_, name, shown(*found)));
    return value.get<std::string>();
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

class CallReader {
 public:
  CallReader(const http::Piece& body, std::size_t json_bytes, const Signature& signature, const InferReading& reading)
      : signature_(signature), reading_(reading), owner_(body.owner), binary_(body.bytes.subspan(json_bytes)) {}

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
        for (const char* name : sequence_parameters) {
          if (parameters.has(name)) refuse(fmt::format("parameters.{}: sequences of requests are not supported", name));
        }
        call_.binary_outputs = parameters.flag("binary_data_output").value_or(false);
        call_.set_schedule(parameters.number("priority").value_or(0), parameters.number("timeout").value_or(0));
      } else if (member.name != "model_name") {  // KServe's client repeats the name of the path
        refuse(fmt::format("the request has no member {}: accepted are {}", shown(member.name),
                           names_of({open_inference_v2::infer_fields()})));
      }
    }
    if (inputs.empty()) refuse("the request has no inputs");
    visit_array(inputs, [&](std::string_view input) {
      read_input(input);
      return true;
    });
    if (!binary_.empty()) refuse(fmt::format("{} bytes follow the last binary tensor", binary_.size()));
    if (!outputs.empty()) {
      visit_array(outputs, [&](std::string_view output) {
        read_output(output);
        return true;
      });
    }
    return std::move(call_);
  }

 private:
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
    require_input(call_, name, signature_);
    const auto type = type_of_datatype(datatype);
    if (!type) refuse(fmt::format("input '{}': there is no datatype {}", name, shown(datatype)));
    if (!shape_text) refuse(fmt::format("input '{}' has no shape", name));
    const Shape shape = read_shape(*shape_text, name);
    Parameters parameters;
    if (!parameters_text.empty()) parameters = Parameters(parameters_text, fmt::format("input '{}': ", name));
    if (const auto range = range_of(parameters, fmt::format("input '{}': ", name))) {
      if (data) refuse(fmt::format("input '{}' has both data and shared_memory_region", name));
      call_.run.inputs.emplace_back(name, read_shared_tensor(*range, reading_, *type, shape, name));
      return;
    }
    if (const auto size = parameters.number("binary_data_size")) {
      if (data) refuse(fmt::format("input '{}' has both data and binary_data_size", name));
      if (*size > binary_.size()) {
        refuse(fmt::format("input '{}': binary_data_size is {}, and {} bytes are left of the body", name, *size,
                           binary_.size()));
      }
      call_.run.inputs.emplace_back(name, read_binary_tensor(binary_.first(*size), owner_, *type, shape, name));
      binary_ = binary_.subspan(*size);
      return;
    }
    if (!data) refuse(fmt::format("input '{}' has no data", name));
    call_.run.inputs.emplace_back(name, read_json_tensor(*data, *type, shape, name));
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
    add_output(call_, output.name, signature_);
    if (!parameters_text.empty()) {
      const Parameters parameters(parameters_text, fmt::format("output '{}': ", output.name));
      output.shared = range_of(parameters, fmt::format("output '{}': ", output.name));
      output.binary = parameters.flag("binary_data").value_or(output.binary);
      output.classes = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(parameters.number("classification").value_or(0), UINT32_MAX));
    }
    call_.outputs.push_back(std::move(output));
  }

  [[nodiscard]] std::optional<SharedRange> range_of(const Parameters& parameters, const std::string& what) const {
    const std::optional<std::string> region = parameters.text("shared_memory_region");
    if (!region) return std::nullopt;
    return shared_range(reading_, *region, parameters.number("shared_memory_byte_size"),
                        parameters.number("shared_memory_offset").value_or(0), what);
  }

  const Signature& signature_;
  const InferReading& reading_;
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
  call.run.inputs.emplace_back(entry.name, read_binary_tensor(body.bytes, body.owner, type, shape, entry.name));
  return call;
}

}  // namespace

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

InferCall read_infer_call(const http::Piece& body, std::optional<std::uint64_t> json_bytes, const Signature& signature,
                          const InferReading& reading) {
  if (json_bytes && *json_bytes == 0) return read_raw_input(body, signature);
  const std::uint64_t length = json_bytes.value_or(body.bytes.size());
  if (length > body.bytes.size()) {
    refuse(fmt::format("Inference-Header-Content-Length is {}, and the body has {} bytes", length, body.bytes.size()));
  }
  return CallReader(body, length, signature, reading).read(body.text().substr(0, length));
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
  if (!response.verdict.empty()) {
    text += R"(,"parameters":{"gpux_verdict":)";
    append_json_string(text, response.verdict);
    text += '}';
  }
  text += R"(,"outputs":[)";
  const std::vector<AnsweredOutput> answered = answered_outputs(response);
  for (std::size_t i = 0; i < answered.size(); ++i) {
    const auto& [name, tensor, binary, shared] = answered[i];
    text += i == 0 ? R"({"name":)" : R"(,{"name":)";
    append_json_string(text, name);
    text.append(R"(,"datatype":")").append(datatype_of(tensor.type())).append(R"(","shape":[)");
    for (std::size_t d = 0; d < tensor.shape().size(); ++d) {
      if (d != 0) text += ',';
      text += std::to_string(tensor.shape()[d]);
    }
    text += ']';
    if (shared) {
      text += R"(,"parameters":{"shared_memory_region":)";
      append_json_string(text, shared->region->place().name);
      text += fmt::format(R"(,"shared_memory_byte_size":{})", shared->byte_size);
      if (shared->offset != 0) text += fmt::format(R"(,"shared_memory_offset":{})", shared->offset);
      text += '}';
    } else if (binary) {
      http::Piece piece;
      if (tensor.type() == ElementType::string) {
        piece = http::Piece::of(bytes_elements(tensor));
      } else {
        auto held = std::make_shared<const Tensor>(tensor);
        piece = {held->bytes(), held};
      }
      text.append(R"(,"parameters":{"binary_data_size":)").append(std::to_string(piece.bytes.size())) += '}';
      out.pieces.push_back(std::move(piece));
    } else {
      text += R"(,"data":)";
      append_json(text, tensor.reshaped({tensor.element_count()}));
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

#include "server/grpc/infer_message.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <grpcpp/grpcpp.h>

#include "gpux/error.h"
#include "tensor/json_writer.h"

namespace gpux::server {
namespace {

using inference::InferParameter;
using inference::InferTensorContents;
using inference::ModelInferRequest;
using inference::ModelInferResponse;

// The `parameters` of a request, a tensor or an output.
class Parameters {
 public:
  using Values = google::protobuf::Map<std::string, InferParameter>;

  Parameters(const Values& values, std::string where) : values_(values), where_(std::move(where)) {}

  [[nodiscard]] std::uint64_t number(const char* name) const {
    const auto found = values_.find(name);
    if (found == values_.end()) return 0;
    const InferParameter& parameter = found->second;
    switch (parameter.parameter_choice_case()) {
      case InferParameter::kUint64Param:
        return parameter.uint64_param();
      case InferParameter::kInt64Param:
        if (parameter.int64_param() >= 0) return static_cast<std::uint64_t>(parameter.int64_param());
        break;
      case InferParameter::kStringParam: {
        // Some clients write every parameter as a string.
        const std::string& text = parameter.string_param();
        if (!text.empty() && text.size() < 19 &&
            std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; })) {
          return std::stoull(text);
        }
        break;
      }
      case InferParameter::kBoolParam:
      case InferParameter::kDoubleParam:
      case InferParameter::PARAMETER_CHOICE_NOT_SET:
        break;
    }
    refuse(fmt::format("{}parameters.{} is not a whole number of 0 or more", where_, name));
  }

  [[nodiscard]] std::optional<SharedRange> range(const InferReading& reading) const {
    const auto found = values_.find("shared_memory_region");
    if (found == values_.end()) return std::nullopt;
    if (found->second.parameter_choice_case() != InferParameter::kStringParam) {
      refuse(fmt::format("{}parameters.shared_memory_region is not a text", where_));
    }
    const auto size = has("shared_memory_byte_size") ? std::optional(number("shared_memory_byte_size")) : std::nullopt;
    return shared_range(reading, found->second.string_param(), size, number("shared_memory_offset"), where_);
  }

  [[nodiscard]] bool has(const char* name) const { return values_.contains(name); }

 private:
  const Values& values_;
  std::string where_;
};

// Which field of InferTensorContents holds a datatype.
struct ContentsField {
  const char* name;
  int size;
};

ContentsField field_of(ElementType type, const InferTensorContents& contents) {
  switch (type) {
    case ElementType::boolean:
      return {"bool_contents", contents.bool_contents_size()};
    case ElementType::int8:
    case ElementType::int16:
    case ElementType::int32:
      return {"int_contents", contents.int_contents_size()};
    case ElementType::int64:
      return {"int64_contents", contents.int64_contents_size()};
    case ElementType::uint8:
    case ElementType::uint16:
    case ElementType::uint32:
      return {"uint_contents", contents.uint_contents_size()};
    case ElementType::uint64:
      return {"uint64_contents", contents.uint64_contents_size()};
    case ElementType::float32:
      return {"fp32_contents", contents.fp32_contents_size()};
    case ElementType::float64:
      return {"fp64_contents", contents.fp64_contents_size()};
    case ElementType::string:
      return {"bytes_contents", contents.bytes_contents_size()};
    default:
      return {nullptr, 0};
  }
}

std::int64_t all_elements(const InferTensorContents& contents) {
  return std::int64_t{contents.bool_contents_size()} + contents.int_contents_size() + contents.int64_contents_size() +
         contents.uint_contents_size() + contents.uint64_contents_size() + contents.fp32_contents_size() +
         contents.fp64_contents_size() + contents.bytes_contents_size();
}

template <typename T>
Tensor borrowed(ElementType type, const Shape& shape, const google::protobuf::RepeatedField<T>& values,
                const std::shared_ptr<const void>& owner) {
  const std::span<const T> elements(values.data(), static_cast<std::size_t>(values.size()));
  return Tensor::borrow(type, shape, std::as_bytes(elements), owner);
}

template <typename T, typename Wide>
Tensor narrowed(const Shape& shape, const google::protobuf::RepeatedField<Wide>& values, const std::string& name) {
  Tensor tensor = Tensor::allocate(element_type_of<T>::value, shape);
  const std::span<T> elements = tensor.mutable_as<T>();
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const Wide value = values[static_cast<int>(i)];
    if (value < std::numeric_limits<T>::min() || value > std::numeric_limits<T>::max()) {
      refuse(fmt::format("input '{}': element {} is {}, which does not fit {}", name, i, value,
                         datatype_of(tensor.type())));
    }
    elements[i] = static_cast<T>(value);
  }
  return tensor;
}

Tensor read_typed_tensor(const InferTensorContents& contents, ElementType type, const Shape& shape,
                         const std::shared_ptr<const void>& owner, const std::string& name) {
  const ContentsField field = field_of(type, contents);
  if (field.name == nullptr) {
    refuse(fmt::format("input '{}': {} has no typed contents, send raw_input_contents", name, datatype_of(type)));
  }
  if (all_elements(contents) != field.size) {
    refuse(fmt::format("input '{}': the contents of {} are in another field than {}", name, datatype_of(type),
                       field.name));
  }
  if (element_count(shape) != field.size) {
    refuse(fmt::format("input '{}': {} elements in {} for shape {}", name, field.size, field.name,
                       to_string(std::span<const std::int64_t>(shape))));
  }
  switch (type) {
    case ElementType::boolean:
      return borrowed(type, shape, contents.bool_contents(), owner);
    case ElementType::int8:
      return narrowed<std::int8_t>(shape, contents.int_contents(), name);
    case ElementType::int16:
      return narrowed<std::int16_t>(shape, contents.int_contents(), name);
    case ElementType::int32:
      return borrowed(type, shape, contents.int_contents(), owner);
    case ElementType::int64:
      return borrowed(type, shape, contents.int64_contents(), owner);
    case ElementType::uint8:
      return narrowed<std::uint8_t>(shape, contents.uint_contents(), name);
    case ElementType::uint16:
      return narrowed<std::uint16_t>(shape, contents.uint_contents(), name);
    case ElementType::uint32:
      return borrowed(type, shape, contents.uint_contents(), owner);
    case ElementType::uint64:
      return borrowed(type, shape, contents.uint64_contents(), owner);
    case ElementType::float32:
      return borrowed(type, shape, contents.fp32_contents(), owner);
    case ElementType::float64:
      return borrowed(type, shape, contents.fp64_contents(), owner);
    default:
      return Tensor::of_strings(shape, {contents.bytes_contents().begin(), contents.bytes_contents().end()});
  }
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

bool has_typed_form(ElementType type) {
  return type != ElementType::float16 && type != ElementType::bfloat16;
}

template <typename T, typename Field>
void append_elements(const Tensor& tensor, Field& field) {
  const auto elements = tensor.as<T>();
  field.Add(elements.begin(), elements.end());
}

void write_typed_tensor(const Tensor& tensor, InferTensorContents& contents) {
  switch (tensor.type()) {
    case ElementType::boolean:
      append_elements<bool>(tensor, *contents.mutable_bool_contents());
      break;
    case ElementType::int8:
      append_elements<std::int8_t>(tensor, *contents.mutable_int_contents());
      break;
    case ElementType::int16:
      append_elements<std::int16_t>(tensor, *contents.mutable_int_contents());
      break;
    case ElementType::int32:
      append_elements<std::int32_t>(tensor, *contents.mutable_int_contents());
      break;
    case ElementType::int64:
      append_elements<std::int64_t>(tensor, *contents.mutable_int64_contents());
      break;
    case ElementType::uint8:
      append_elements<std::uint8_t>(tensor, *contents.mutable_uint_contents());
      break;
    case ElementType::uint16:
      append_elements<std::uint16_t>(tensor, *contents.mutable_uint_contents());
      break;
    case ElementType::uint32:
      append_elements<std::uint32_t>(tensor, *contents.mutable_uint_contents());
      break;
    case ElementType::uint64:
      append_elements<std::uint64_t>(tensor, *contents.mutable_uint64_contents());
      break;
    case ElementType::float32:
      append_elements<float>(tensor, *contents.mutable_fp32_contents());
      break;
    case ElementType::float64:
      append_elements<double>(tensor, *contents.mutable_fp64_contents());
      break;
    default:
      for (const std::string& value : tensor.strings()) contents.add_bytes_contents(value);
  }
}

// The tag of a field of bytes or of a message, and the length of what follows.
std::string field_head(int number, std::size_t length) {
  std::string head;
  google::protobuf::io::StringOutputStream stream(&head);
  google::protobuf::io::CodedOutputStream coded(&stream);
  constexpr std::uint32_t length_delimited = 2;
  coded.WriteTag((static_cast<std::uint32_t>(number) << 3U) | length_delimited);
  coded.WriteVarint64(length);
  coded.Trim();
  return head;
}

::grpc::Slice shared_slice(const Tensor& tensor) {
  auto held = std::make_unique<Tensor>(tensor);
  const std::span<const std::byte> bytes = held->bytes();
  // gRPC only reads from it.
  return {const_cast<std::byte*>(bytes.data()), bytes.size(), [](void* owner) { delete static_cast<Tensor*>(owner); },
          held.release()};
}

// Smaller ones are copied: a slice of one's own costs more.
constexpr std::size_t shared_from_bytes = 4096;
constexpr std::size_t max_bytes = std::numeric_limits<std::int32_t>::max();

}  // namespace

InferCall read_infer_message(const std::shared_ptr<const ModelInferRequest>& request, const Signature& signature,
                             const Cancellation& cancellation, const InferReading& reading) {
  InferCall call;
  call.id = request->id();
  const Parameters parameters(request->parameters(), "");
  for (const char* name : sequence_parameters) {
    if (parameters.has(name)) refuse(fmt::format("parameters.{}: sequences of requests are not supported", name));
  }
  call.set_schedule(parameters.number("priority"), parameters.number("timeout"));

  const auto& raw = request->raw_input_contents();
  const bool is_typed = std::any_of(request->inputs().begin(), request->inputs().end(),
                                    [](const auto& input) { return input.has_contents(); });
  if (is_typed && !raw.empty()) refuse("the request has both contents and raw_input_contents: send one of them");
  const auto sent = std::ranges::count_if(
      request->inputs(), [](const auto& input) { return !input.parameters().contains("shared_memory_region"); });
  if (!raw.empty() && raw.size() != sent) {
    refuse(fmt::format("the request has {} inputs{} and {} raw_input_contents", sent,
                       sent == request->inputs_size() ? "" : " besides those in shared memory", raw.size()));
  }
  int next_raw = 0;
  call.binary_outputs = !is_typed;
  for (int i = 0; i < request->inputs_size(); ++i) {
    cancellation.check();
    const ModelInferRequest::InferInputTensor& input = request->inputs(i);
    const std::string& name = input.name();
    require_input(call, name, signature);
    const auto range = Parameters(input.parameters(), fmt::format("input '{}': ", name)).range(reading);
    const auto type = type_of_datatype(input.datatype());
    if (!type) refuse(fmt::format("input '{}': there is no datatype {}", name, shown(input.datatype())));
    const Shape shape(input.shape().begin(), input.shape().end());
    for (const std::int64_t size : shape) {
      if (size < 0) refuse(fmt::format("input '{}': shape holds {}, not a size of 0 or more", name, size));
    }
    if (range && input.has_contents()) refuse(fmt::format("input '{}' has both contents and shared memory", name));
    Tensor tensor = range         ? read_shared_tensor(*range, reading, *type, shape, name)
                    : raw.empty() ? read_typed_tensor(input.contents(), *type, shape, request, name)
                                  : read_binary_tensor(bytes_of(raw[next_raw++]), request, *type, shape, name);
    call.run.inputs.emplace_back(name, std::move(tensor));
  }
  for (const auto& output : request->outputs()) {
    add_output(call, output.name(), signature);
    const Parameters asked(output.parameters(), fmt::format("output '{}': ", output.name()));
    const auto classes =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(asked.number("classification"), UINT32_MAX));
    call.outputs.push_back({output.name(), call.binary_outputs, classes, asked.range(reading)});
  }
  return call;
}

InferMessage write_infer_message(const InferResponse& response) {
  const std::vector<AnsweredOutput> outputs = answered_outputs(response);
  const bool is_raw = response.call.binary_outputs ||
                      std::any_of(outputs.begin(), outputs.end(),
                                  [](const AnsweredOutput& output) { return !has_typed_form(output.tensor.type()); });
  ModelInferResponse head;
  head.set_model_name(std::string(response.model_name));
  head.set_model_version(std::string(response.model_version));
  head.set_id(response.call.id);
  if (!response.verdict.empty()) {
    (*head.mutable_parameters())["gpux_verdict"].set_string_param(std::string(response.verdict));
  }
  for (const AnsweredOutput& output : outputs) {
    ModelInferResponse::InferOutputTensor& written = *head.add_outputs();
    written.set_name(output.name);
    written.set_datatype(std::string(datatype_of(output.tensor.type())));
    written.mutable_shape()->Add(output.tensor.shape().begin(), output.tensor.shape().end());
    if (output.shared) {
      auto& parameters = *written.mutable_parameters();
      parameters["shared_memory_region"].set_string_param(output.shared->region->place().name);
      parameters["shared_memory_byte_size"].set_int64_param(static_cast<std::int64_t>(output.shared->byte_size));
      if (output.shared->offset != 0) {
        parameters["shared_memory_offset"].set_int64_param(static_cast<std::int64_t>(output.shared->offset));
      }
    } else if (!is_raw) {
      write_typed_tensor(output.tensor, *written.mutable_contents());
    }
  }
  InferMessage message;
  std::string text = head.SerializeAsString();
  const auto flush = [&] {
    if (text.empty()) return;
    message.slices.emplace_back(text);
    message.bytes += text.size();
    text.clear();
  };
  if (is_raw) {
    for (const AnsweredOutput& output : outputs) {
      if (output.shared) {
        // Clients count the contents by the outputs.
        text += field_head(ModelInferResponse::kRawOutputContentsFieldNumber, 0);
        continue;
      }
      const bool is_text = output.tensor.type() == ElementType::string;
      const std::string elements = is_text ? bytes_elements(output.tensor) : std::string();
      const std::size_t size = is_text ? elements.size() : output.tensor.byte_size();
      text += field_head(ModelInferResponse::kRawOutputContentsFieldNumber, size);
      if (is_text) {
        text += elements;
      } else if (size < shared_from_bytes) {
        text.append(reinterpret_cast<const char*>(output.tensor.bytes().data()), size);
      } else {
        flush();
        message.slices.push_back(shared_slice(output.tensor));
        message.bytes += size;
      }
    }
  }
  flush();
  if (message.bytes > max_bytes) {
    throw Error(ErrorCode::resource_exhausted,
                fmt::format("the answer has {} bytes; gRPC carries at most {}: ask for fewer outputs", message.bytes,
                            max_bytes));
  }
  return message;
}

::grpc::ByteBuffer unary_answer(const InferMessage& message) {
  // Of no slice at all a buffer is invalid, not empty.
  if (message.slices.empty()) {
    const ::grpc::Slice nothing;
    return {&nothing, 1};
  }
  return {message.slices.data(), message.slices.size()};
}

::grpc::ByteBuffer stream_answer(const InferMessage& message) {
  std::vector<::grpc::Slice> slices;
  slices.emplace_back(field_head(inference::ModelStreamInferResponse::kInferResponseFieldNumber, message.bytes));
  slices.insert(slices.end(), message.slices.begin(), message.slices.end());
  return {slices.data(), slices.size()};
}

::grpc::ByteBuffer stream_failure(std::string_view error, const std::string& model_name, const std::string& id) {
  inference::ModelStreamInferResponse response;
  response.set_error_message(std::string(error));
  response.mutable_infer_response()->set_model_name(model_name);
  response.mutable_infer_response()->set_id(id);
  const ::grpc::Slice text(response.SerializeAsString());
  return {&text, 1};
}

}  // namespace gpux::server

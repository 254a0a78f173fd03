#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "base/spelling.h"
#include "ort/api.h"
#include "ort/lost_device.h"
#include "ort/message.h"
#include "ort/newer_api.h"

namespace gpux::ort {
namespace {

// Numbers ONNX Runtime 1.24 and later use beyond the enumeration of older headers.
constexpr int ort_float4e2m1 = 23;
constexpr int ort_uint2 = 24;
constexpr int ort_int2 = 25;
constexpr int ort_float8e8m0 = 26;

const Ort::MemoryInfo& host_memory() {
  static const Ort::MemoryInfo info = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault);
  return info;
}

Ort::Value wrap_tensor(const Tensor& tensor) {
  if (tensor.type() == ElementType::string) {
    Ort::AllocatorWithDefaultOptions allocator;
    Ort::Value value = Ort::Value::CreateTensor(allocator, tensor.shape().data(), tensor.shape().size(),
                                                ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING);
    // FillStringTensor() would take strings up to their first NUL.
    std::size_t index = 0;
    for (const std::string& text : tensor.strings()) {
      std::ranges::copy(text, value.GetResizedStringTensorElementBuffer(index++, text.size()));
    }
    return value;
  }
  return Ort::Value::CreateTensor(host_memory(), const_cast<std::byte*>(tensor.bytes().data()), tensor.byte_size(),
                                  tensor.shape().data(), tensor.shape().size(), to_ort(tensor.type()));
}

// ONNX Runtime takes one element per key, in a tensor of rank 1.
Ort::Value wrap_map(const Map& map) {
  const std::int64_t count = map.keys.element_count();
  if (map.values.element_count() != count) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("a map of {} keys has values of shape {}; accepted: one value per key", count,
                            to_string(std::span<const std::int64_t>(map.values.shape()))));
  }
  return Ort::Value::CreateMap(wrap_tensor(map.keys), wrap_tensor(map.values.reshaped({count})));
}

Tensor unwrap_strings(const Ort::Value& value, Shape shape) {
  const auto count = static_cast<std::size_t>(element_count(shape));
  std::vector<std::string> strings;
  strings.reserve(count);
  for (std::size_t i = 0; i < count; ++i) strings.push_back(value.GetStringTensorElement(i));
  return Tensor::of_strings(std::move(shape), std::move(strings));
}

auto get_type_and_shape() {
#if ORT_API_VERSION >= 24
  return Ort::GetApi().GetTensorElementTypeAndShapeDataReference;
#else
  return newer_entry<OrtStatus*(ORT_API_CALL*)(const OrtValue*, ONNXTensorElementDataType*, const std::int64_t**,
                                               std::size_t*)>(414);
#endif
}

Tensor unwrap_tensor(Ort::Value&& value) {
  auto ort_type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  const std::int64_t* dimensions = nullptr;
  std::size_t rank = 0;
  Ort::ThrowOnError(get_type_and_shape()(value, &ort_type, &dimensions, &rank));
  const ElementType type = from_ort(ort_type);
  Shape shape(dimensions, dimensions + rank);
  if (type == ElementType::string) return unwrap_strings(value, std::move(shape));
  if (type == ElementType::complex64 || type == ElementType::complex128) {
    throw Error(ErrorCode::invalid_input, fmt::format("{} tensors are not supported", to_string(type)));
  }
  const auto* data = static_cast<const std::byte*>(value.GetTensorRawData());
  const std::size_t size = (static_cast<std::size_t>(element_count(shape)) * bits_of(type) + 7) / 8;
  auto owner = std::make_shared<Ort::Value>(std::move(value));
  return Tensor::borrow(type, std::move(shape), {data, size}, std::move(owner));
}

}  // namespace

ONNXTensorElementDataType to_ort(ElementType type) {
  switch (type) {
    case ElementType::uint2:
      return static_cast<ONNXTensorElementDataType>(ort_uint2);
    case ElementType::int2:
      return static_cast<ONNXTensorElementDataType>(ort_int2);
    case ElementType::float8e8m0:
      return static_cast<ONNXTensorElementDataType>(ort_float8e8m0);
    case ElementType::complex64:
    case ElementType::complex128:
      throw Error(ErrorCode::invalid_input, fmt::format("{} tensors are not supported", to_string(type)));
    default:
      return static_cast<ONNXTensorElementDataType>(type);
  }
}

ElementType from_ort(ONNXTensorElementDataType type) {
  const int number = type;
  if (number <= ort_float4e2m1) return static_cast<ElementType>(number);
  if (number == ort_uint2) return ElementType::uint2;
  if (number == ort_int2) return ElementType::int2;
  if (number == ort_float8e8m0) return ElementType::float8e8m0;
  return ElementType::undefined;
}

Ort::Value wrap(const Value& value) {
  if (const Tensor* tensor = value.tensor()) return wrap_tensor(*tensor);
  if (const Sequence* sequence = value.sequence()) {
    std::vector<Ort::Value> elements;
    elements.reserve(sequence->values.size());
    for (const Value& element : sequence->values) elements.push_back(wrap(element));
    if (elements.empty()) throw Error(ErrorCode::invalid_input, "ONNX Runtime takes no empty sequence as an input");
    return Ort::Value::CreateSequence(elements);
  }
  if (const Map* map = value.map()) return wrap_map(*map);
  throw Error(ErrorCode::invalid_input, "a sequence cannot hold nothing");
}

Value unwrap(Ort::Value&& value) {
  if (!value || !value.HasValue()) return std::monostate{};
  if (value.IsTensor()) return unwrap_tensor(std::move(value));  // without the allocations that the full type costs
  const ONNXType type = value.GetTypeInfo().GetONNXType();
  Ort::AllocatorWithDefaultOptions allocator;
  switch (type) {
    case ONNX_TYPE_TENSOR:
      return unwrap_tensor(std::move(value));
    case ONNX_TYPE_SEQUENCE: {
      Sequence sequence;
      const std::size_t count = value.GetCount();
      sequence.values.reserve(count);
      for (std::size_t i = 0; i < count; ++i) {
        sequence.values.push_back(unwrap(value.GetValue(static_cast<int>(i), allocator)));
      }
      return sequence;
    }
    case ONNX_TYPE_MAP: {
      Value keys = unwrap(value.GetValue(0, allocator));
      Value values = unwrap(value.GetValue(1, allocator));
      return Map{std::get<Tensor>(std::move(keys)), std::get<Tensor>(std::move(values))};
    }
    case ONNX_TYPE_SPARSETENSOR:
      throw Error(ErrorCode::invalid_input, "sparse tensors are not supported");
    default:
      throw Error(ErrorCode::invalid_input,
                  fmt::format("values of ONNX Runtime's type {} are not supported", static_cast<int>(type)));
  }
}

namespace {

bool says(std::string_view text, std::initializer_list<std::string_view> marks) {
  return std::any_of(marks.begin(), marks.end(),
                     [&](std::string_view mark) { return text.find(mark) != std::string_view::npos; });
}

ErrorCode code_of(OrtErrorCode code, std::string_view text) {
  if (says(text, {"Exiting due to terminate flag"})) return ErrorCode::interrupted;
  if (says(text, {"Failed to allocate memory", "std::bad_alloc", "out of memory"})) {
    return ErrorCode::resource_exhausted;
  }
  switch (code) {
    case ORT_INVALID_ARGUMENT:
      return ErrorCode::invalid_input;
    case ORT_NO_SUCHFILE:
      return ErrorCode::not_found;
    case ORT_NO_MODEL:
    case ORT_INVALID_PROTOBUF:
    case ORT_INVALID_GRAPH:
    case ORT_NOT_IMPLEMENTED:
      return ErrorCode::invalid_model;
    case ORT_EP_FAIL:
    case ORT_ENGINE_ERROR:
      return ErrorCode::provider_unavailable;
    default:
      break;
  }
  // The status of the part that failed may stand in the words only, told by the part that called it.
  if (says(text, {"INVALID_ARGUMENT : "})) return ErrorCode::invalid_input;
  if (!says(text, {node_failure_mark})) return ErrorCode::internal;
  // CUDA and ROCm tell a fault of the device so. Else the kernel did not take the values it was given.
  return says(text, {"; GPU=", "EP_FAIL : "}) ? ErrorCode::provider_unavailable : ErrorCode::invalid_input;
}

}  // namespace

Error translate(const Ort::Exception& exception) {
  const std::string text = exception.what();
  const ErrorCode code = code_of(exception.GetOrtErrorCode(), text);
  const std::string message = readable_message(text);
  if (reports_lost_device(code, message)) return {code, {.kind = Subject::Kind::device, .name = {}}, message};
  return {code, message};
}

}  // namespace gpux::ort

#include "ort/empty_sequence.h"

#include <map>
#include <mutex>
#include <string>

namespace gpux::ort {
namespace {

// Protocol buffers, as far as a model of one node needs them: no length and no number is above 127.
std::string bytes_field(int number, const std::string& content) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(content.size())} + content;
}

std::string number_field(int number, int value) {
  // Field numbers from 16 on take a second byte.
  const int tag = number << 3;
  std::string key = tag < 128 ? std::string{static_cast<char>(tag)}
                              : std::string{static_cast<char>((tag & 0x7f) | 0x80), static_cast<char>(tag >> 7)};
  return key + static_cast<char>(value);
}

// SequenceEmpty of opset 11, as a ModelProto.
std::string model_of(ElementType element) {
  const int type = static_cast<int>(element);
  constexpr int integer_attribute = 2;
  const std::string attribute = bytes_field(1, "dtype") + number_field(3, type) + number_field(20, integer_attribute);
  const std::string node = bytes_field(2, "s") + bytes_field(4, "SequenceEmpty") + bytes_field(5, attribute);
  const std::string tensor_type = bytes_field(1, number_field(1, type));
  const std::string sequence_type = bytes_field(4, bytes_field(1, tensor_type));
  const std::string output = bytes_field(1, "s") + bytes_field(2, sequence_type);
  const std::string graph = bytes_field(1, node) + bytes_field(2, "g") + bytes_field(12, output);
  return number_field(1, 7) + bytes_field(7, graph) + bytes_field(8, number_field(2, 11));
}

Ort::Session& session_of(ElementType element) {
  static std::mutex mutex;
  // Never destroyed: sessions of detached runs may outlive static objects.
  static auto& sessions = *new std::map<ElementType, Ort::Session>();
  const std::lock_guard lock(mutex);
  auto found = sessions.find(element);
  if (found == sessions.end()) {
    Ort::SessionOptions options;
    options.SetIntraOpNumThreads(1);
    const std::string model = model_of(element);
    found = sessions.emplace(element, Ort::Session(environment(), model.data(), model.size(), options)).first;
  }
  return found->second;
}

}  // namespace

Ort::Value empty_sequence(const Ort::TypeInfo& declared) {
  if (declared.GetONNXType() == ONNX_TYPE_OPTIONAL) {
    return empty_sequence(declared.GetOptionalTypeInfo().GetOptionalElementType());
  }
  const Ort::TypeInfo element = declared.GetSequenceTypeInfo().GetSequenceElementType();
  if (element.GetONNXType() != ONNX_TYPE_TENSOR) {
    throw Error(ErrorCode::invalid_input, "ONNX Runtime takes no empty sequence of maps as an input");
  }
  const char* output = "s";
  Ort::Session& session = session_of(from_ort(element.GetTensorTypeAndShapeInfo().GetElementType()));
  return std::move(session.Run(Ort::RunOptions(), nullptr, nullptr, 0, &output, 1).front());
}

}  // namespace gpux::ort

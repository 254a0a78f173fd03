#include "runtime/check_inputs.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/spelling.h"
#include "gpux/error.h"

namespace gpux::runtime {
namespace {

const SignatureEntry* entry_of(const Signature& signature, std::string_view name) {
  for (const SignatureEntry& entry : signature.inputs) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

std::string found(const Tensor& tensor) {
  return fmt::format("{}{}", to_string(tensor.type()), to_string(std::span<const std::int64_t>(tensor.shape())));
}

bool fits(const ValueType& type, const Tensor& tensor) {
  if (type.element != tensor.type()) return false;
  if (!type.dimensions) return true;
  if (type.dimensions->size() != tensor.shape().size()) return false;
  for (std::size_t i = 0; i < tensor.shape().size(); ++i) {
    const auto& size = (*type.dimensions)[i].size;
    if (size && *size != tensor.shape()[i]) return false;
  }
  return true;
}

// Empty where the value fits.
std::string complaint(const SignatureEntry& entry, const Value& value) {
  const ValueType* type = &entry.type;
  if (type->kind == ValueKind::optional) {
    if (value.is_none()) return {};
    if (!type->inner.empty()) type = &type->inner.front();
  }
  const char* wanted = nullptr;
  switch (type->kind) {
    case ValueKind::tensor:
      if (const Tensor* tensor = value.tensor()) {
        if (fits(*type, *tensor)) return {};
        return fmt::format("input '{}' takes {}, got {}", entry.name, to_string(*type), found(*tensor));
      }
      wanted = "a tensor";
      break;
    case ValueKind::sequence:
      if (value.sequence() != nullptr) return {};
      wanted = "a sequence";
      break;
    case ValueKind::map:
      if (value.map() != nullptr) return {};
      wanted = "a map";
      break;
    default:
      return {};  // ONNX Runtime's own word counts
  }
  return fmt::format("input '{}' takes {}: {}", entry.name, wanted, to_string(entry.type));
}

}  // namespace

void check_inputs(const Signature& signature, const NamedValues& inputs) {
  std::vector<std::string> complaints;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto& [name, value] = inputs[i];
    const SignatureEntry* entry = entry_of(signature, name);
    if (entry == nullptr) {
      std::vector<std::string> names;
      for (const SignatureEntry& known : signature.inputs) names.push_back(known.name);
      const std::string_view near = nearest(name, names);
      complaints.push_back(fmt::format("there is no input '{}'{}; inputs: {}", name.substr(0, 80),
                                       near.empty() ? "" : fmt::format(", did you mean '{}'?", near), join(names)));
      continue;
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (inputs[j].first == name) complaints.push_back(fmt::format("input '{}' is given twice", name));
    }
    if (std::string text = complaint(*entry, value); !text.empty()) complaints.push_back(std::move(text));
  }
  for (const SignatureEntry& entry : signature.inputs) {
    if (entry.required && find(inputs, entry.name) == nullptr) {
      complaints.push_back(fmt::format("input '{}' ({}) is missing", entry.name, to_string(entry.type)));
    }
  }
  if (!complaints.empty()) throw Error(ErrorCode::invalid_input, join(complaints, "; "));
}

}  // namespace gpux::runtime

#include "runtime/check_inputs.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/format_message.h"
#include "base/spelling.h"
#include "base/utf8_prefix.h"
#include "gpux/error.h"

namespace gpux::runtime {
namespace {

const SignatureEntry* entry_of(const Signature& signature, std::string_view name) {
  for (const SignatureEntry& entry : signature.inputs) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

template <typename AnyTensor>
std::string found(const AnyTensor& tensor) {
  return fmt::format("{}{}", to_string(tensor.type()), to_string(std::span<const std::int64_t>(tensor.shape())));
}

template <typename AnyTensor>
bool fits(const ValueType& type, const AnyTensor& tensor) {
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

std::string complaint(const SignatureEntry& entry, const DeviceTensor& tensor) {
  const ValueType& type =
      entry.type.kind == ValueKind::optional && !entry.type.inner.empty() ? entry.type.inner.front() : entry.type;
  if (type.kind == ValueKind::tensor && fits(type, tensor)) return {};
  return fmt::format("input '{}' takes {}, got {}", entry.name, to_string(type), found(tensor));
}

std::string unknown_input(const Signature& signature, std::string_view name) {
  std::vector<std::string> names;
  for (const SignatureEntry& known : signature.inputs) names.push_back(known.name);
  const std::string_view near = nearest(std::string(name), names);
  return fmt::format("there is no input '{}'{}; inputs: {}", utf8_prefix(name, 80),
                     near.empty() ? "" : fmt::format(", did you mean '{}'?", near), join(names));
}

// Of one list of inputs; `others` come before it. No memory is allocated where nothing is wrong.
template <typename Inputs, typename Others>
void check(const Signature& signature, const Inputs& inputs, const Others& others,
           std::vector<std::string>& complaints) {
  const auto has_name = [](std::string_view name) { return [name](const auto& input) { return input.first == name; }; };
  for (auto input = inputs.begin(); input != inputs.end(); ++input) {
    const auto& [name, value] = *input;
    const SignatureEntry* entry = entry_of(signature, name);
    if (entry == nullptr) {
      complaints.push_back(unknown_input(signature, name));
      continue;
    }
    if (std::any_of(inputs.begin(), input, has_name(name)) || std::ranges::any_of(others, has_name(name))) {
      complaints.push_back(fmt::format("input '{}' is given twice", name));
    }
    if (std::string text = complaint(*entry, value); !text.empty()) complaints.push_back(std::move(text));
  }
}

}  // namespace

void check_inputs(const Signature& signature, const NamedValues& inputs, const NamedDeviceTensors& device_inputs) {
  std::vector<std::string> complaints;
  check(signature, inputs, NamedValues(), complaints);
  check(signature, device_inputs, inputs, complaints);
  for (const SignatureEntry& entry : signature.inputs) {
    const bool is_given =
        find(inputs, entry.name) != nullptr ||
        std::ranges::find(device_inputs, entry.name, &NamedDeviceTensor::first) != device_inputs.end();
    if (entry.required && !is_given) {
      complaints.push_back(fmt::format("input '{}' ({}) is missing", entry.name, to_string(entry.type)));
    }
  }
  if (!complaints.empty()) throw Error(ErrorCode::invalid_input, join(complaints, "; "));
}

void check_compiled_shapes(const provider::ActiveProfile& profile, const NamedValues& inputs,
                           const NamedDeviceTensors& device_inputs) {
  if (profile.ranges.empty()) return;
  const auto check = [&](const std::string& name, const Shape& shape) {
    const std::string complaint = provider::outside_of_profile(profile.ranges, name, shape);
    if (complaint.empty()) return;
    throw Error(ErrorCode::invalid_input, format_message("{}; {} {}.shapes=… compiles it for others", complaint,
                                                         setting_named("provider_option"), profile.provider));
  };
  for (const auto& [name, value] : inputs) {
    if (const Tensor* tensor = value.tensor()) check(name, tensor->shape());
  }
  for (const auto& [name, tensor] : device_inputs) check(name, tensor.shape());
}

}  // namespace gpux::runtime

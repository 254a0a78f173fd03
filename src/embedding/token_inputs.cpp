#include "embedding/token_inputs.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "gpux/error.h"
#include "tensor/convert.h"

namespace gpux::embedding {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_model, message);
}

[[noreturn]] void refuse_other(const std::string& name) {
  if (name == "task_id" || name == "adapter_id") {
    refuse(fmt::format("the model asks for input '{}', and config.json has no lora_adaptations, the names of its tasks",
                       name));
  }
  refuse(fmt::format("the model asks for input '{}'; accepted: input_ids, attention_mask, token_type_ids, position_ids",
                     name));
}

bool takes_a_text(const ValueType& type) {
  if (type.kind != ValueKind::tensor) return false;
  if (type.element != ElementType::int64 && type.element != ElementType::int32) return false;
  if (!type.dimensions) return true;
  return type.dimensions->size() == 2 && type.dimensions->front().size.value_or(1) == 1;
}

bool is_past(const std::string& name) {
  return name.starts_with("past_key_values.") && (name.ends_with(".key") || name.ends_with(".value"));
}

// [1, heads, 0, size]: the batch and the length are free, and the length is no other dimension's size.
Tensor empty_past(const SignatureEntry& entry) {
  Shape shape;
  std::size_t free_sizes = 0;
  const bool has_sizes =
      entry.type.kind == ValueKind::tensor && entry.type.dimensions && !entry.type.dimensions->empty();
  for (std::size_t i = 1; has_sizes && i < entry.type.dimensions->size(); ++i) {
    const auto& size = entry.type.dimensions->at(i).size;
    if (!size) ++free_sizes;
    shape.push_back(size.value_or(0));
  }
  const bool is_float = entry.type.element == ElementType::float32 || entry.type.element == ElementType::float16 ||
                        entry.type.element == ElementType::bfloat16;
  if (free_sizes != 1 || !is_float) {
    refuse(fmt::format("input '{}' is {}; accepted: floats of [batch, heads, past, size] with a free past", entry.name,
                       to_string(entry.type)));
  }
  shape.insert(shape.begin(), 1);
  return Tensor::allocate(entry.type.element, shape);
}

bool chooses_a_task(const ValueType& type) {
  if (type.kind != ValueKind::tensor || !type.dimensions) return false;
  if (type.element != ElementType::int64 && type.element != ElementType::int32) return false;
  return type.dimensions->empty() || (type.dimensions->size() == 1 && type.dimensions->front().size.value_or(1) == 1);
}

Tensor row_of(std::span<const std::int64_t> numbers, ElementType element) {
  return convert(Tensor::of<std::int64_t>({1, static_cast<std::int64_t>(numbers.size())}, numbers), element);
}

}  // namespace

TokenInputs::TokenInputs(const Signature& signature, std::int64_t first_position, std::size_t tasks,
                         bool has_token_types)
    : first_position_(first_position), tasks_(tasks), has_token_types_(has_token_types) {
  static constexpr std::array<std::pair<std::string_view, Role>, 6> roles{{
      {"input_ids", Role::ids},
      {"attention_mask", Role::mask},
      {"token_type_ids", Role::types},
      {"position_ids", Role::positions},
      {"task_id", Role::task},
      {"adapter_id", Role::adapter},
  }};
  for (const SignatureEntry& entry : signature.inputs) {
    const auto* const found =
        std::find_if(roles.begin(), roles.end(), [&](const auto& role) { return role.first == entry.name; });
    if (is_past(entry.name)) {
      past_.emplace_back(entry.name, empty_past(entry));
      continue;
    }
    if (found == roles.end() || (is_of_text(found->second) && tasks == 0)) {
      if (entry.required) others_.push_back(entry.name);
      continue;
    }
    if (is_of_text(found->second)) {
      if (!entry.type.dimensions || !chooses_a_task(entry.type)) {
        refuse(fmt::format("input '{}' is {}; accepted: int64 or int32 of [] or [batch]", entry.name,
                           to_string(entry.type)));
      }
      inputs_.push_back({entry.name, found->second, entry.type.element, entry.type.dimensions->empty()});
      continue;
    }
    if (!takes_a_text(entry.type)) {
      refuse(fmt::format("input '{}' is {}; accepted: int64 or int32 of [batch, sequence], the sequence free",
                         entry.name, to_string(entry.type)));
    }
    inputs_.push_back({entry.name, found->second, entry.type.element});
    const auto size = entry.type.dimensions ? entry.type.dimensions->back().size : std::nullopt;
    if (size) fixed_length_ = static_cast<std::size_t>(*size);
  }
  if (has("input_ids")) return;
  if (!others_.empty()) refuse_other(others_.front());
  refuse("the model has no input 'input_ids'");
}

bool TokenInputs::has(std::string_view name) const noexcept {
  return std::any_of(inputs_.begin(), inputs_.end(), [&](const Input& input) { return input.name == name; }) ||
         find(past_, name) != nullptr;
}

bool TokenInputs::takes_task() const noexcept {
  return std::ranges::any_of(inputs_, [](const Input& input) { return is_of_text(input.role); });
}

void TokenInputs::require_no_others() const {
  if (!others_.empty()) {
    refuse_other(others_.front());
  }
  if (fixed_length_) {
    refuse(
        fmt::format("input 'input_ids' takes {} tokens; accepted: int64 or int32 of [batch, sequence], the sequence "
                    "free",
                    *fixed_length_));
  }
}

NamedValues TokenInputs::values(std::span<const std::uint32_t> ids, std::span<const std::uint32_t> type_ids,
                                std::size_t length, std::uint32_t padding_token,
                                std::optional<std::size_t> task) const {
  NamedValues values = past_;
  const std::size_t tokens = ids.size();
  const std::size_t width = std::max(length, tokens);
  for (const Input& input : inputs_) {
    std::vector<std::int64_t> numbers(is_of_text(input.role) ? 1 : width, 0);
    switch (input.role) {
      case Role::ids:
        std::copy(ids.begin(), ids.end(), numbers.begin());
        std::fill(numbers.begin() + static_cast<std::ptrdiff_t>(tokens), numbers.end(), padding_token);
        break;
      case Role::mask:
        std::fill_n(numbers.begin(), tokens, 1);
        break;
      case Role::types:
        if (has_token_types_) std::copy(type_ids.begin(), type_ids.end(), numbers.begin());
        break;
      case Role::positions:
        std::iota(numbers.begin(), numbers.end(), first_position_);
        break;
      case Role::task:
        numbers.front() = static_cast<std::int64_t>(task.value_or(0));
        break;
      case Role::adapter:
        numbers.front() = static_cast<std::int64_t>(task.value_or(tasks_));
        break;
    }
    const Tensor row = row_of(numbers, input.element);
    if (!is_of_text(input.role)) {
      values.emplace_back(input.name, row);
    } else {
      values.emplace_back(input.name, row.reshaped(input.is_scalar ? Shape{} : Shape{1}));
    }
  }
  return values;
}

}  // namespace gpux::embedding

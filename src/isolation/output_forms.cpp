#include "isolation/output_forms.h"

#include <functional>
#include <string_view>

namespace gpux::isolation {
namespace {

// Empty where an input is no tensor.
std::vector<std::int64_t> key_of(const NamedValues& inputs, std::span<const std::size_t> outputs) {
  std::vector<std::int64_t> key;
  for (const auto& [name, value] : inputs) {
    const Tensor* tensor = value.tensor();
    if (tensor == nullptr) return {};
    key.push_back(static_cast<std::int64_t>(std::hash<std::string_view>()(name)));
    key.push_back(static_cast<std::int64_t>(tensor->type()));
    key.push_back(static_cast<std::int64_t>(tensor->shape().size()));
    key.insert(key.end(), tensor->shape().begin(), tensor->shape().end());
  }
  for (const std::size_t output : outputs) key.push_back(static_cast<std::int64_t>(output));
  return key;
}

}  // namespace

const RunForms* OutputForms::find(const NamedValues& inputs, std::span<const std::size_t> outputs) const {
  if (has_given_up_ || runs_.empty()) return nullptr;
  const auto found = runs_.find(key_of(inputs, outputs));
  return found == runs_.end() ? nullptr : &found->second;
}

void OutputForms::note(const NamedValues& inputs, std::span<const std::size_t> outputs, const NamedValues& results) {
  if (has_given_up_) return;
  std::vector<std::int64_t> key = key_of(inputs, outputs);
  if (key.empty()) return;
  RunForms forms;
  forms.reserve(results.size());
  for (const auto& [name, value] : results) {
    const Tensor* tensor = value.tensor();
    if (tensor == nullptr || tensor->type() == ElementType::string) {
      forms.emplace_back();
    } else {
      forms.emplace_back(OutputForm{.type = tensor->type(), .shape = tensor->shape(), .bytes = tensor->byte_size()});
    }
  }
  if (runs_.size() == max_runs && !runs_.contains(key)) runs_.clear();
  runs_.insert_or_assign(std::move(key), std::move(forms));
}

void OutputForms::give_up() {
  has_given_up_ = true;
  runs_.clear();
}

}  // namespace gpux::isolation

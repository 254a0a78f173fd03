#include "runtime/scheduling/padding.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/spelling.h"
#include "base/utf8_prefix.h"
#include "gpux/error.h"
#include "runtime/scheduling/batch.h"
#include "tensor/json_reader.h"

namespace gpux::runtime {
namespace {

const std::vector<Dimension>& dimensions_of(const SignatureEntry& entry) noexcept {
  static const std::vector<Dimension> none;
  return entry.type.dimensions ? *entry.type.dimensions : none;
}

// Where entries have a free size of that name, the first dimension left out.
std::vector<DimensionPlace> places_of(const std::string& name, const std::vector<SignatureEntry>& entries) {
  std::vector<DimensionPlace> places;
  for (const SignatureEntry& entry : entries) {
    const std::vector<Dimension>& dimensions = dimensions_of(entry);
    for (std::size_t i = 1; i < dimensions.size(); ++i) {
      if (!dimensions[i].size && dimensions[i].name == name) places.push_back({entry.name, i});
    }
  }
  return places;
}

class PaddingReader {
 public:
  PaddingReader(const Signature& signature, std::string_view key) : signature_(signature), key_(key) {}

  Padding read(const std::vector<std::pair<std::string, std::string>>& setting) {
    if (!signature_permits_sharing(signature_)) {
      throw Error(ErrorCode::invalid_config,
                  fmt::format("'{}' is for requests that share a run, and this model's cannot: each input and output "
                              "must have the same free first dimension",
                              key_));
    }
    for (const auto& [name, number] : setting) read_input(name, number);
    if (problems_.empty()) {
      for (const PaddedInput& input : padding_.inputs) add_sizes(input);
    }
    if (!problems_.empty()) throw Error(ErrorCode::invalid_config, join(problems_, "; "));
    return std::move(padding_);
  }

 private:
  void refuse(const std::string& input, std::string_view why) {
    problems_.push_back(fmt::format("'{}.{}': {}", key_, utf8_prefix(input, 80), why));
  }

  const SignatureEntry* entry_of(const std::string& name) const noexcept {
    for (const SignatureEntry& entry : signature_.inputs) {
      if (entry.name == name) return &entry;
    }
    return nullptr;
  }

  void read_input(const std::string& name, const std::string& number) {
    const SignatureEntry* entry = entry_of(name);
    if (entry == nullptr) {
      std::vector<std::string> names;
      for (const SignatureEntry& known : signature_.inputs) names.push_back(known.name);
      return refuse(name, fmt::format("there is no such input; inputs: {}", join(names)));
    }
    PaddedInput input{name, {}, {}};
    const std::vector<Dimension>& dimensions = dimensions_of(*entry);
    for (std::size_t i = 1; i < dimensions.size(); ++i) {
      if (!dimensions[i].size) input.dimensions.push_back(i);
    }
    if (input.dimensions.empty()) {
      return refuse(name, fmt::format("{} has no free size beyond the first", to_string(entry->type)));
    }
    const ElementType type = entry->type.element;
    // shared_rows() leaves packed types alone.
    if (type == ElementType::string || bits_of(type) % 8 != 0) {
      return refuse(name, fmt::format("{} cannot be filled up with a number", to_string(type)));
    }
    try {
      const Value fill = read_json_value(number, {ValueKind::tensor, type, std::vector<Dimension>{}, {}}, name);
      input.fill = *fill.tensor();
    } catch (const Error& error) {
      return refuse(name, error.message());
    }
    padding_.inputs.push_back(std::move(input));
  }

  void add_sizes(const PaddedInput& input) {
    const std::vector<Dimension>& dimensions = dimensions_of(*entry_of(input.name));
    for (const std::size_t dimension : input.dimensions) {
      const std::string& name = dimensions[dimension].name;
      if (name.empty() || std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
      known_.push_back(name);
      if (dimensions.front().name == name) {
        refuse(input.name, fmt::format("its size '{}' is the first dimension's too, which is the batch", name));
        continue;
      }
      PaddedSize size{places_of(name, signature_.inputs), places_of(name, signature_.outputs)};
      for (const DimensionPlace& place : size.inputs) {
        if (padded_input(padding_, place.value) != nullptr) continue;
        refuse(input.name,
               fmt::format("input '{}' has its size '{}' too; add '{}.{}'", place.value, name, key_, place.value));
      }
      padding_.sizes.push_back(std::move(size));
    }
  }

  const Signature& signature_;
  std::string_view key_;
  Padding padding_;
  std::vector<std::string> known_, problems_;
};

std::int64_t size_at(const DimensionPlace& place, const Tensor& tensor) noexcept {
  return place.dimension < tensor.shape().size() ? tensor.shape()[place.dimension] : -1;
}

}  // namespace

Padding read_padding(const std::vector<std::pair<std::string, std::string>>& setting, const Signature& signature,
                     std::string_view key) {
  return PaddingReader(signature, key).read(setting);
}

const PaddedInput* padded_input(const Padding& padding, std::string_view name) noexcept {
  const auto found = std::find_if(padding.inputs.begin(), padding.inputs.end(),
                                  [&](const PaddedInput& input) { return input.name == name; });
  return found == padding.inputs.end() ? nullptr : &*found;
}

std::optional<std::int64_t> own_size(const PaddedSize& size, const NamedValues& item) noexcept {
  for (const DimensionPlace& place : size.inputs) {
    if (const Value* value = find(item, place.value)) return size_at(place, *value->tensor());
  }
  return std::nullopt;
}

bool can_be_padded(const NamedValues& item, const Padding& padding) noexcept {
  for (const auto& [name, value] : item) {
    if (value.tensor()->element_count() == 0) return false;
  }
  return std::all_of(padding.sizes.begin(), padding.sizes.end(), [&](const PaddedSize& size) {
    const std::optional<std::int64_t> own = own_size(size, item);
    return std::all_of(size.inputs.begin(), size.inputs.end(), [&](const DimensionPlace& place) {
      const Value* value = find(item, place.value);
      return value == nullptr || size_at(place, *value->tensor()) == own;
    });
  });
}

}  // namespace gpux::runtime

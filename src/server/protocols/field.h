#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace gpux::server {

class ServedModel;

/// Type of a member of a request's object.
enum class FieldKind : std::uint8_t {
  text,
  flag,     ///< true or false
  count,    ///< a whole number from 1
  whole,    ///< a whole number from 0 to `maximum`
  number,   ///< its range is that of the setting
  choice,   ///< one of `choices`
  texts,    ///< a text, or a list of texts
  object,   ///< with members of its own
  other,    ///< read by code of its own
  ignored,  ///< accepted with any value: it changes no answer here
  refused,  ///< would change the answer, and is not supported: `refusal` says what is accepted instead
};

enum class FieldUse : std::uint8_t {
  optional,  ///< null means the same as nothing
  required,  ///< refused where it is missing or null
};

/// The JSON schema of a field in requests for one of these models; null: these take no such field.
using FieldSchema = nlohmann::ordered_json (*)(const std::vector<const ServedModel*>& models);

/// A member of a request's object. Reading, refusals, the OpenAPI document and docs/serving.md have it from here.
struct Field {
  std::string_view name;
  FieldKind kind;
  FieldUse use = FieldUse::optional;
  FieldSchema schema = nullptr;                    ///< null: that of the kind
  std::span<const std::string_view> choices = {};  ///< choice
  std::uint64_t maximum = INT32_MAX;               ///< whole
  std::string_view refusal = {};                   ///< refused
  std::string_view neutral = {};  ///< refused: JSON of the value that asks for nothing, as do null and empty values
};

constexpr Field ignored_field(std::string_view name) {
  return {.name = name, .kind = FieldKind::ignored};
}

constexpr Field refused_field(std::string_view name, std::string_view refusal, std::string_view neutral = {}) {
  return {.name = name, .kind = FieldKind::refused, .refusal = refusal, .neutral = neutral};
}

/// "a, b, c": the names in the order of their letters, for messages.
std::string names_of(std::initializer_list<std::span<const Field>> tables);

/// Joins several tables of fields into one.
std::vector<Field> joined(std::initializer_list<std::span<const Field>> tables);

}  // namespace gpux::server

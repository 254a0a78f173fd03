#include "checkpoint/json_settings.h"

#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/bounded_json.h"
#include "base/files.h"
#include "base/format_message.h"
#include "base/utf8_prefix.h"
#include "gpux/error.h"

namespace gpux {

namespace fs = std::filesystem;

JsonSettings::JsonSettings(fs::path file, Json::value_t kind) : file_(std::move(file)), json_(kind) {
  std::error_code unreadable;
  if (!fs::exists(file_, unreadable) && !unreadable) return;
  parse(read_file(file_), kind);
}

JsonSettings::JsonSettings(std::string_view text, fs::path name, Json::value_t kind) : file_(std::move(name)) {
  parse(text, kind);
}

void JsonSettings::parse(std::string_view text, Json::value_t kind) {
  exists_ = true;
  try {
    json_ = parse_bounded_json(text);
  } catch (const Json::exception&) {
    refuse("is not JSON");
  } catch (const Error& error) {
    refuse(error.message());
  }
  if (json_.type() != kind) refuse(kind == Json::value_t::array ? "is no list" : "is no object");
}

JsonSettings::JsonSettings(fs::path file, std::string path, const Json* object)
    : file_(std::move(file)),
      path_(std::move(path)),
      exists_(object != nullptr),
      json_(object != nullptr ? *object : Json::object()) {}

JsonSettings JsonSettings::object(const char* key) const {
  const Json* value = find(key);
  if (value != nullptr && !value->is_object()) refuse_value(key, *value, "an object");
  return {file_, fmt::format("{}{}.", path_, key), value};
}

const JsonSettings::Json* JsonSettings::find(const char* key) const {
  const auto found = json_.find(key);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

bool JsonSettings::flag(const char* key, bool otherwise) const {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) refuse_value(key, *value, "true, false");
  return value->get<bool>();
}

std::string JsonSettings::text(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr) return {};
  if (!value->is_string()) refuse_value(key, *value, "a text");
  return value->get<std::string>();
}

std::optional<std::uint64_t> JsonSettings::count(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const bool is_huge = value->is_number_float() && value->get<double>() >= 1e9;
  if (!value->is_number_integer() && !is_huge) refuse_value(key, *value, "a whole number");
  if (is_huge || value->get<double>() < 0) return std::nullopt;
  return value->get<std::uint64_t>();
}

std::optional<std::uint32_t> JsonSettings::token(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  constexpr std::uint64_t limit = std::uint64_t{1} << 30;
  const bool is_large = value->is_number_unsigned() && value->get<std::uint64_t>() > limit;
  if (!value->is_number_integer() || is_large) refuse_value(key, *value, "the id of a token");
  if (value->get<std::int64_t>() < 0) return std::nullopt;
  return value->get<std::uint32_t>();
}

std::optional<std::uint64_t> JsonSettings::positive(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_unsigned() || *value == 0) refuse_value(key, *value, "null, a whole number from 1");
  return value->get<std::uint64_t>();
}

void JsonSettings::refuse(std::string_view what) const {
  throw Error(ErrorCode::invalid_model, format_message("{}: {}", file_at(file_), what));
}

void JsonSettings::refuse_value(std::string_view key, const Json& value, std::string_view accepted) const {
  constexpr std::size_t max_bytes = 40;
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > max_bytes) text = std::string(utf8_prefix(text, max_bytes)) + "…";
  refuse(fmt::format("{}{} is {}; accepted: {}", path_, key, text, accepted));
}

}  // namespace gpux

#include "checkpoint/config_reader.h"

#include <cmath>

#include <fmt/format.h>

#include "base/bounded_json.h"
#include "base/utf8_prefix.h"
#include "gpux/error.h"

namespace gpux::checkpoint {

ConfigReader::ConfigReader(std::string_view config_json) {
  try {
    config_ = parse_bounded_json<Json>(config_json);
  } catch (const Json::exception&) {
    config_ = nullptr;  // refused below
  } catch (const Error& error) {
    throw error.within("config.json").as(ErrorCode::invalid_config);
  }
  if (!config_.is_object()) throw Error(ErrorCode::invalid_config, "config.json is no JSON object");
}

const ConfigReader::Json* ConfigReader::find(std::initializer_list<const char*> names, std::string* name) const {
  for (const char* each : names) {
    const auto found = config_.find(each);
    if (found == config_.end() || found->is_null()) continue;
    if (name != nullptr) *name = each;
    return &*found;
  }
  return nullptr;
}

std::int64_t ConfigReader::number(std::initializer_list<const char*> names,
                                  std::optional<std::int64_t> otherwise) const {
  std::string name;
  const Json* found = find(names, &name);
  if (found != nullptr) {
    // What is larger makes no model, and products of two such sizes still fit.
    constexpr std::int64_t limit = std::int64_t{1} << 30;
    if (!found->is_number_integer() || *found < 0 || *found > limit) refuse(name, *found, "a whole number from 0 on");
    return found->get<std::int64_t>();
  }
  if (otherwise) return *otherwise;
  throw Error(ErrorCode::invalid_config, fmt::format("config.json says no {}{}", path_, *names.begin()));
}

std::string ConfigReader::text(std::initializer_list<const char*> names, std::string otherwise) const {
  std::string name;
  const Json* found = find(names, &name);
  if (found == nullptr) return otherwise;
  if (!found->is_string()) refuse(name, *found, "a text");
  return found->get<std::string>();
}

bool ConfigReader::flag(std::initializer_list<const char*> names, bool otherwise) const {
  std::string name;
  const Json* found = find(names, &name);
  if (found == nullptr) return otherwise;
  if (!found->is_boolean()) refuse(name, *found, "true, false");
  return found->get<bool>();
}

float ConfigReader::positive(std::initializer_list<const char*> names, std::optional<float> otherwise) const {
  std::string name;
  const Json* found = find(names, &name);
  if (found == nullptr) {
    if (otherwise) return *otherwise;
    throw Error(ErrorCode::invalid_config, fmt::format("config.json says no {}{}", path_, *names.begin()));
  }
  if (!found->is_number() || !(found->get<float>() > 0) || !std::isfinite(found->get<float>())) {
    refuse(name, *found, "a number above 0");
  }
  return found->get<float>();
}

std::optional<ConfigReader> ConfigReader::object(const char* name) const {
  const Json* found = find({name});
  if (found == nullptr) return std::nullopt;
  if (!found->is_object()) refuse(name, *found, "an object");
  return ConfigReader(*found, fmt::format("{}{}.", path_, name));
}

std::string ConfigReader::architecture() const {
  const Json* found = find({"architectures"});
  const bool has_name = found != nullptr && found->is_array() && !found->empty() && found->front().is_string();
  return has_name ? found->front().get<std::string>() : std::string();
}

std::int64_t ConfigReader::labels() const {
  const Json* found = find({"id2label"});
  if (found != nullptr && found->is_object() && !found->empty()) return static_cast<std::int64_t>(found->size());
  return number({"num_labels"}, 2);
}

void ConfigReader::require_text(const char* name, std::string_view otherwise, std::string_view accepted) const {
  const std::string value = text({name}, std::string(otherwise));
  if (value != accepted) refuse(name, value, fmt::format("\"{}\"", accepted));
}

void ConfigReader::require_flag(const char* name, bool accepted, bool otherwise) const {
  if (flag({name}, otherwise) != accepted) refuse(name, !accepted, accepted ? "true" : "false");
}

void ConfigReader::refuse(std::string_view name, const Json& value, std::string_view accepted) const {
  constexpr std::size_t max_bytes = 80;
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > max_bytes) text = std::string(utf8_prefix(text, max_bytes)) + "...";
  throw Error(ErrorCode::invalid_config,
              fmt::format("config.json: {}{} {} is not served; accepted: {}", path_, name, text, accepted));
}

}  // namespace gpux::checkpoint

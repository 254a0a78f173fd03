#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <regex.h>
#include <yaml-cpp/yaml.h>

#include "project/project_cases.h"
#include "project/project_schema.h"

namespace gpux {
namespace {

using Json = nlohmann::json;

/// Whether a part of the text is as the extended regular expression says.
bool matches(const std::string& text, const std::string& pattern) {
  regex_t compiled{};
  if (::regcomp(&compiled, pattern.c_str(), REG_EXTENDED | REG_NOSUB) != 0) {
    ADD_FAILURE() << "the schema has the pattern " << pattern;
    return false;
  }
  const bool found = ::regexec(&compiled, text.c_str(), 0, nullptr, 0) == 0;
  ::regfree(&compiled);
  return found;
}

/// YAML 1.2's core schema: what an editor with the JSON schema sees.
Json as_json(const YAML::Node& node) {
  if (!node.IsDefined() || node.IsNull()) return nullptr;
  if (node.IsSequence()) {
    Json list = Json::array();
    for (const auto& item : node) list.push_back(as_json(item));
    return list;
  }
  if (node.IsMap()) {
    Json map = Json::object();
    for (const auto& entry : node) map[entry.first.Scalar()] = as_json(entry.second);
    return map;
  }
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return text;
  if (matches(text, "^(true|True|TRUE)$")) return true;
  if (matches(text, "^(false|False|FALSE)$")) return false;
  if (matches(text, "^([-+]?[0-9]+)$")) return std::stoll(text);
  if (matches(text, "^([-+]?[0-9]*\\.[0-9]+)$")) return std::stod(text);
  return text;
}

/// The keywords that the published schema uses; another one fails the test.
class Validator {
 public:
  explicit Validator(Json root) : root_(std::move(root)) {}

  bool accepts(const Json& value) const { return accepts(root_, value); }

 private:
  bool accepts(const Json& schema, const Json& value) const {
    if (schema.is_boolean()) return schema.get<bool>();
    for (const auto& [keyword, wanted] : schema.items()) {
      if (!holds(keyword, wanted, schema, value)) return false;
    }
    return true;
  }

  bool holds(const std::string& keyword, const Json& wanted, const Json& schema, const Json& value) const {
    if (keyword == "$schema" || keyword == "title" || keyword == "description" || keyword == "$defs") return true;
    if (keyword == "properties") return true;  // seen with additionalProperties
    if (keyword == "$ref") return accepts(root_.at(Json::json_pointer(wanted.get<std::string>().substr(1))), value);
    if (keyword == "anyOf") {
      return std::any_of(wanted.begin(), wanted.end(), [&](const Json& one) { return accepts(one, value); });
    }
    if (keyword == "not") return !accepts(wanted, value);
    if (keyword == "enum") return std::find(wanted.begin(), wanted.end(), value) != wanted.end();
    if (keyword == "type") return has_type(wanted, value);
    if (keyword == "pattern") {
      return !value.is_string() || matches(value.get<std::string>(), wanted.get<std::string>());
    }
    if (keyword == "minLength")
      return !value.is_string() || value.get<std::string>().size() >= wanted.get<std::size_t>();
    if (keyword == "minimum") return !value.is_number() || value.get<double>() >= wanted.get<double>();
    if (keyword == "maximum") return !value.is_number() || value.get<double>() <= wanted.get<double>();
    if (keyword == "exclusiveMinimum") return !value.is_number() || value.get<double>() > wanted.get<double>();
    if (keyword == "items") {
      return !value.is_array() ||
             std::all_of(value.begin(), value.end(), [&](const Json& item) { return accepts(wanted, item); });
    }
    if (keyword == "minItems") return !value.is_array() || value.size() >= wanted.get<std::size_t>();
    if (keyword == "maxItems") return !value.is_array() || value.size() <= wanted.get<std::size_t>();
    if (keyword == "required") {
      return !value.is_object() || std::all_of(wanted.begin(), wanted.end(), [&](const Json& name) {
        return value.contains(name.get<std::string>());
      });
    }
    if (keyword == "minProperties") return !value.is_object() || value.size() >= wanted.get<std::size_t>();
    if (keyword == "maxProperties") return !value.is_object() || value.size() <= wanted.get<std::size_t>();
    if (keyword == "additionalProperties") return properties_hold(wanted, schema, value);
    ADD_FAILURE() << "the schema uses the keyword " << keyword;
    return false;
  }

  bool properties_hold(const Json& others, const Json& schema, const Json& value) const {
    if (!value.is_object()) return true;
    const Json known = schema.value("properties", Json::object());
    for (const auto& [name, one] : value.items()) {
      if (!accepts(known.contains(name) ? known.at(name) : others, one)) return false;
    }
    return true;
  }

  static bool has_type(const Json& wanted, const Json& value) {
    if (wanted.is_array()) {
      return std::any_of(wanted.begin(), wanted.end(), [&](const Json& one) { return has_type(one, value); });
    }
    const std::string type = wanted;
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_boolean();
    if (type == "null") return value.is_null();
    if (type == "integer") return value.is_number_integer();
    if (type == "number") return value.is_number();
    ADD_FAILURE() << "the schema uses the type " << type;
    return false;
  }

  Json root_;
};

TEST(JsonSchema, IsPublished) {
  std::ifstream stream(std::string(GPUX_SOURCE_DIR) + "/docs/gpux.schema.json");
  const std::string published{std::istreambuf_iterator<char>(stream), {}};
  EXPECT_TRUE(published == json_schema()) << "write what 'gpux schema' prints into docs/gpux.schema.json";
}

TEST(JsonSchema, AgreesWithTheReader) {
  const Validator validator(Json::parse(json_schema()));
  int compared = 0;
  for (const test::ProjectCase& one : test::project_cases()) {
    if (one.beyond_schema) continue;
    SCOPED_TRACE(one.text);
    EXPECT_EQ(validator.accepts(as_json(YAML::Load(test::file_text(one)))), one.message.empty());
    ++compared;
  }
  EXPECT_GT(compared, 80);
}

}  // namespace
}  // namespace gpux

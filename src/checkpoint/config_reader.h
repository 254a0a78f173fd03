#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace gpux::checkpoint {

/// Typed access to the values of config.json. Errors invalid_config with the name of the value.
class ConfigReader {
 public:
  using Json = nlohmann::json;

  /// Parses a config.json. Error invalid_config: it is not a JSON object.
  explicit ConfigReader(std::string_view config_json);

  /// Null where none of the names is present. Families use different names for the same setting.
  [[nodiscard]] const Json* find(std::initializer_list<const char*> names, std::string* name = nullptr) const;

  /// A number from 0 on. Without `otherwise` it is required.
  [[nodiscard]] std::int64_t number(std::initializer_list<const char*> names,
                                    std::optional<std::int64_t> otherwise = {}) const;

  [[nodiscard]] std::string text(std::initializer_list<const char*> names, std::string otherwise) const;

  [[nodiscard]] bool flag(std::initializer_list<const char*> names, bool otherwise) const;

  /// A number above 0.
  [[nodiscard]] float positive(std::initializer_list<const char*> names, std::optional<float> otherwise = {}) const;

  /// An object in the object: "rope_scaling". Empty where it is absent or null.
  [[nodiscard]] std::optional<ConfigReader> object(const char* name) const;

  /// The first of `architectures`; may be empty.
  [[nodiscard]] std::string architecture() const;

  /// Labels of a classifier: those of id2label, otherwise num_labels, otherwise 2.
  [[nodiscard]] std::int64_t labels() const;

  /// Refuses every other value: a setting that would change the computation.
  void require_text(const char* name, std::string_view otherwise, std::string_view accepted) const;
  void require_flag(const char* name, bool accepted, bool otherwise) const;

  [[noreturn]] void refuse(std::string_view name, const Json& value, std::string_view accepted) const;

 private:
  ConfigReader(Json config, std::string path) : config_(std::move(config)), path_(std::move(path)) {}

  Json config_;
  std::string path_;  // "rope_scaling."
};

}  // namespace gpux::checkpoint

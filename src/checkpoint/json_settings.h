#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace gpux {

/// A settings file of other tools, such as config.json: the values that are read are checked, the rest is
/// ignored. Errors invalid_model with the file's name.
class JsonSettings {
 public:
  using Json = nlohmann::json;  ///< not ordered_json, which takes minutes for an object of 500,000 keys

  /// An empty object, or list, where there is no such file.
  explicit JsonSettings(std::filesystem::path file, Json::value_t kind = Json::value_t::object);

  /// The content of such a file, which `name` names in messages.
  JsonSettings(std::string_view text, std::filesystem::path name, Json::value_t kind);

  [[nodiscard]] bool exists() const noexcept { return exists_; }

  [[nodiscard]] const std::filesystem::path& file() const noexcept { return file_; }

  [[nodiscard]] const Json& json() const noexcept { return json_; }

  /// The value; null where it is not there or is null.
  [[nodiscard]] const Json* find(const char* key) const;

  [[nodiscard]] bool flag(const char* key, bool otherwise) const;

  /// The text of a key; empty if the key is missing.
  [[nodiscard]] std::string text(const char* key) const;

  /// The number of a key; empty if it is missing, and for -1 and the 1e30 that say "no limit" in such files.
  [[nodiscard]] std::optional<std::uint64_t> count(const char* key) const;

  /// The id of a token; empty where it is not there, and for negative ones, which say "none" in such files.
  [[nodiscard]] std::optional<std::uint32_t> token(const char* key) const;

  /// The number, from 1; empty where it is not there.
  [[nodiscard]] std::optional<std::uint64_t> positive(const char* key) const;

  /// The object in it, whose keys messages name with a path ("model.decoder.filename"); an empty one that does not
  /// exist where it is not there.
  [[nodiscard]] JsonSettings object(const char* key) const;

  [[noreturn]] void refuse(std::string_view what) const;
  [[noreturn]] void refuse_value(std::string_view key, const Json& value, std::string_view accepted) const;

 private:
  JsonSettings(std::filesystem::path file, std::string path, const Json* object);
  void parse(std::string_view text, Json::value_t kind);

  std::filesystem::path file_;
  std::string path_;  // "model.decoder."
  bool exists_ = false;
  Json json_;
};

}  // namespace gpux

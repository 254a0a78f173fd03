#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace gpux::oci {

/// Credentials of a user for a registry.
struct Credential {
  std::string user, password;
  std::string identity_token;  ///< a refresh token, in place of user and password
  std::string registry_token;  ///< a bearer token to be sent as it is

  bool operator==(const Credential&) const = default;
};

/// Docker's config.json: who the user is at which registry. Unknown keys stay as they are.
class DockerConfig {
 public:
  /// Path of Docker's configuration: DOCKER_CONFIG/config.json, or ~/.docker/config.json.
  static std::filesystem::path default_file();

  /// A file that does not exist is an empty one. Errors invalid_config if it is damaged; permission, storage.
  static DockerConfig read(const std::filesystem::path& file);
  /// `name` is for messages. Error invalid_config.
  static DockerConfig parse(std::string_view json, const std::string& name);

  /// The program docker-credential-NAME that keeps the registry's credential; empty: this file does.
  [[nodiscard]] std::string helper_for(std::string_view registry) const;

  /// The credential in this file. Error invalid_config if it cannot be read.
  [[nodiscard]] std::optional<Credential> credential_for(std::string_view registry) const;

  void set(std::string_view registry, const Credential& credential);
  /// Records that a helper has the credential, as Docker does.
  void set_in_helper(std::string_view registry);
  /// False if there was none.
  bool erase(std::string_view registry);

  /// Replaces the file; only its user may read it. Errors storage, permission.
  void write(const std::filesystem::path& file) const;

  [[nodiscard]] std::string text() const;

 private:
  nlohmann::json json_;
  std::string name_;
};

/// The name under which Docker keeps a registry's credential: the registry, or "https://index.docker.io/v1/".
std::string credential_key(std::string_view registry);

/// Parses the output of a credential helper. Error invalid_config if it is not the helper's format.
Credential parse_helper_answer(std::string_view json, const std::string& helper);

}  // namespace gpux::oci

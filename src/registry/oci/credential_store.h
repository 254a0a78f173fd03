#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "registry/oci/docker_config.h"

namespace gpux::oci {

/// The user's credentials: Docker's config.json, and the credential helpers that it names.
class CredentialStore {
 public:
  explicit CredentialStore(std::filesystem::path file = DockerConfig::default_file());

  /// Empty if nothing is known about the registry. Errors invalid_config (the file, or a helper that is missing or
  /// fails), permission, storage.
  [[nodiscard]] std::optional<Credential> find(const std::string& registry) const;

  /// Keeps it; the place: the file, or "docker-credential-NAME". Errors as above.
  std::string keep(const std::string& registry, const Credential& credential);

  /// False if nothing was kept.
  bool erase(const std::string& registry);

 private:
  std::filesystem::path file_;
};

}  // namespace gpux::oci

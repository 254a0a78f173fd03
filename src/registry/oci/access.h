#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "registry/http/client.h"

namespace gpux::oci {

/// How registries are reached.
struct Access {
  std::filesystem::path ca_file;         ///< a PEM file or a folder of authorities; empty: the default
  std::set<std::string> insecure_hosts;  ///< HOST or HOST:PORT: certificates are not checked, and HTTP is allowed
  std::optional<std::set<std::string>> only_public_and = {};  ///< as of registry::ClientOptions
};

/// The client's options: `access`, the certificates in Docker's folders, and `on_note` for each wait before a request
/// is repeated (may be null). Error usage for an insecure host that is no HOST or HOST:PORT.
registry::ClientOptions client_options(const Access& access, std::function<void(const std::string&)> on_note);

/// The folders where Docker and Podman keep certificates of registries: those of the user before those of the system.
std::vector<std::filesystem::path> certificate_folders();

/// The files for a host ("HOST" or "HOST:PORT") in the first of these folders that has a folder of its name: *.crt is
/// an authority, NAME.cert with NAME.key the client's. Error invalid_config for several of a kind, or one of the last
/// two without the other.
registry::TlsFiles certificates_of(const std::string& host, std::span<const std::filesystem::path> folders);

}  // namespace gpux::oci

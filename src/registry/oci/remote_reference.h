#pragma once

#include <string>
#include <string_view>

#include "store/reference.h"

namespace gpux::oci {

/// A model in a registry: "ghcr.io/team/digits:1.0.0" or "localhost:5000/digits@sha256:…".
struct RemoteReference {
  std::string registry;    ///< HOST or HOST:PORT
  std::string repository;  ///< "team/digits"
  std::string tag;         ///< empty only with a digest
  std::string digest;      ///< 64 hexadecimal digits; empty: the tag decides

  /// The reference as a user writes it.
  [[nodiscard]] std::string text() const;

  /// Tag or digest as a request to the registry names it: the tag, or "sha256:DIGEST".
  [[nodiscard]] std::string selector() const;

  /// The name of the model in the store after a pull: REGISTRY/REPOSITORY:TAG, with the tag "sha256-DIGEST" where the
  /// reference has only a digest.
  [[nodiscard]] Reference stored_name() const;

  bool operator==(const RemoteReference&) const = default;
};

/// Whether the text names a registry as Docker reads it: before its first '/' is a word with '.' or ':', or localhost.
bool names_registry(std::string_view text) noexcept;

/// Reads REGISTRY/REPOSITORY[:TAG][@sha256:DIGEST]; without a tag and a digest the tag is latest. Error usage.
RemoteReference parse_remote_reference(std::string_view text);

/// Whether the registry is this machine: localhost, names below it, and 127.0.0.0/8, with any port.
bool is_loopback(std::string_view registry) noexcept;

/// The host that answers for a registry: docker.io is registry-1.docker.io, others are themselves.
std::string api_host(std::string_view registry);

/// The registry without its port.
std::string_view host_of(std::string_view registry) noexcept;

}  // namespace gpux::oci

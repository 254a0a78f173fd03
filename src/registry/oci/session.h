#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "registry/http/client.h"
#include "registry/http/url.h"
#include "registry/oci/auth_challenge.h"
#include "registry/oci/credential_store.h"
#include "registry/oci/remote_reference.h"

namespace gpux::oci {

/// Whether the token server that a registry names may be asked with the user's credentials: over HTTPS; over HTTP where
/// the registry is asked so itself, and it is the same host, or both are this machine, or the user allowed it. Pure.
bool may_have_credentials(const registry::Url& registry, const registry::Url& token_server,
                          const std::set<std::string>& insecure_hosts);

/// Requests to one registry, with the authentication that it wants: none, Basic, or bearer tokens, which are renewed
/// when they expire. Registries on loopback are asked over HTTP if they answer it, insecure hosts over HTTPS without
/// a check of certificates, or over HTTP; all others over HTTPS alone. Thread-safe.
class Session {
 public:
  struct Options {
    std::set<std::string> insecure_hosts;  ///< HOST or HOST:PORT, as in ClientOptions
    /// Used instead of the stored one, as `gpux login` tries it.
    std::optional<Credential> credential;
  };

  Session(registry::Client& client, std::string registry, CredentialStore credentials, Options options);

  [[nodiscard]] const std::string& registry() const noexcept { return registry_; }

  /// Cancellation of the client.
  [[nodiscard]] const Cancellation& cancellation() const noexcept { return client_.options().cancellation; }

  /// Sends the request; its url is a path of the registry ("/v2/…") or absolute. `scopes` are what a token has to
  /// allow: "repository:team/digits:pull". Any status but 401 is an answer. Errors permission (no credential, or a
  /// wrong one), network; those of Client::send and of the credential store.
  registry::Response send(registry::Request request, const std::vector<std::string>& scopes);

  /// Asks whether the registry accepts the credential. Errors as send().
  void check_access();

  /// An identity token that the token server gave during check_access(); mostly empty.
  [[nodiscard]] std::string identity_token() const;

 private:
  using Clock = std::chrono::steady_clock;

  struct Token {
    std::string authorization;  ///< "Bearer …"
    Clock::time_point expires;
  };

  const std::string& base_url();
  void find_base_url();
  [[nodiscard]] bool is_insecure() const;
  const std::optional<Credential>& credential();
  std::string kept_authorization(const std::string& key);
  /// A new authorization for the challenges of an answer; `refused` is the one that was not accepted.
  std::string authorize(const registry::Response& answer, const std::vector<std::string>& scopes,
                        const std::string& key, const std::string& refused);
  std::string fetch_token(const AuthChallenge& challenge, const std::vector<std::string>& scopes,
                          const std::string& key);
  registry::Request token_request(const AuthChallenge& challenge, const std::vector<std::string>& scopes);
  [[nodiscard]] Error refusal() const;

  registry::Client& client_;
  std::string registry_;
  CredentialStore store_;
  Options options_;
  mutable std::mutex mutex_;
  std::string base_url_;
  std::optional<std::optional<Credential>> credential_;
  std::map<std::string, Token> tokens_;  ///< by scopes
  std::string basic_;
  std::string identity_token_;
};

}  // namespace gpux::oci

#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "gpux/error.h"
#include "store/store.h"

namespace gpux {

/// Whose signatures the packages of a registry need, as the user says in trust.yml.
struct TrustRule {
  std::string prefix;             ///< "registry.example", "registry.example/team": it, and all that is below
  std::vector<std::string> keys;  ///< one of them must have signed; public_keys_in()
  std::string from;               ///< "/home/me/.gpux/trust.yml:2:3"
};

struct TrustPolicy {
  std::vector<TrustRule> rules;

  /// The rule with the longest prefix of REGISTRY/REPOSITORY[:TAG][@sha256:DIGEST]; null: packages from there need no
  /// signature.
  [[nodiscard]] const TrustRule* rule_for(std::string_view reference) const;
};

/// REGISTRY/REPOSITORY of a reference, in lower case.
std::string repository_of(std::string_view reference);

/// The file trust.yml in gpux's home folder; an empty policy where there is none. Errors invalid_config, not_found (a
/// key), storage.
TrustPolicy read_trust_policy(const std::filesystem::path& home);

/// The public keys of a PEM text, each as its base64 on one line.
std::vector<std::string> public_keys_in(std::string_view pem);
/// PEM of one of them.
std::string pem_of_public_key(std::string_view key);

/// Whose signature a pull asks for.
struct RequiredSignature {
  std::vector<std::string> keys;  ///< one of them; empty: none is asked for
  Message from;                   ///< who asks: the setting verify_key, "trust.yml:2:3", "the stored package has one"
};

/// `given`: the keys of --verify-key; empty: it is not given. `former`: the key that verified the package which has the
/// name now; empty: none. A rule takes precedence over `former`, and a given key has to be one of the rule's.
/// Error usage. Pure.
RequiredSignature required_signature(const TrustPolicy& policy, std::string_view reference,
                                     const std::vector<std::string>& given, const std::string& former);

/// Whether the policy lets a stored package run: what was pulled from a registry with a rule was verified by a key of
/// the rule.
bool is_trusted(const TrustPolicy& policy, const StoredModel& model);

/// Error network where it is not.
void require_trusted(const TrustPolicy& policy, const StoredModel& model);

}  // namespace gpux

#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace gpux::oci {

/// One way to authenticate that a server accepts, from its WWW-Authenticate header (RFC 9110, 11.6.1).
struct AuthChallenge {
  std::string scheme;                             ///< in lower case: "bearer", "basic"
  std::string token68;                            ///< in place of parameters; mostly empty
  std::map<std::string, std::string> parameters;  ///< names in lower case

  /// A parameter's value; empty if there is none.
  [[nodiscard]] std::string parameter(const std::string& name) const;

  bool operator==(const AuthChallenge&) const = default;
};

/// All challenges of one header value, in order. What does not follow the grammar ends the list: the challenges before
/// it are returned. At most 16 challenges with 32 parameters each are read.
std::vector<AuthChallenge> parse_auth_challenges(std::string_view header);

}  // namespace gpux::oci

// The WWW-Authenticate header of registries.
#include <string>

#include "fuzzer.h"
#include "registry/oci/auth_challenge.h"

namespace gpux::fuzz {

void read_hostile(std::string_view input) {
  const std::vector<oci::AuthChallenge> challenges = oci::parse_auth_challenges(input);
  require(challenges.size() <= 16, "more challenges than are read");
  for (const oci::AuthChallenge& one : challenges) {
    require(!one.scheme.empty(), "a challenge without a scheme");
    require(one.token68.empty() || one.parameters.empty(), "a token as well as parameters");
    // What was read, written again, reads the same.
    std::string text = one.scheme + " " + one.token68;
    const char* comma = "";
    for (const auto& [name, value] : one.parameters) {
      std::string quoted;
      for (const char c : value) {
        if (c == '"' || c == '\\') quoted += '\\';
        quoted += c;
      }
      text += comma + name + "=\"" + quoted + "\"";
      comma = ",";
    }
    const std::vector<oci::AuthChallenge> again = oci::parse_auth_challenges(text);
    require(again.size() == 1 && again.front() == one, "a challenge reads back as another");
  }
}

}  // namespace gpux::fuzz

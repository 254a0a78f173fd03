#include "registry/oci/token.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "gpux/error.h"

namespace gpux::oci {
namespace {

using Json = nlohmann::json;

constexpr std::chrono::seconds shortest{60};
constexpr std::chrono::seconds longest = std::chrono::hours(24);

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string token_of(const Json& object, const char* key) {
  std::string token = text_of(object, key);
  const auto is_visible = [](char c) { return c > ' ' && c < '\x7f'; };
  if (!std::all_of(token.begin(), token.end(), is_visible)) {
    throw Error(ErrorCode::network, "a token has characters that a header cannot hold");
  }
  return token;
}

Json parse(std::string_view json) {
  try {
    Json answer = parse_bounded_json(json);
    if (answer.is_object()) return answer;
  } catch (const nlohmann::json::exception&) {
  } catch (const Error&) {
  }
  throw Error(ErrorCode::network, "it is not a JSON object");
}

}  // namespace

TokenAnswer parse_token_answer(std::string_view json) {
  const Json object = parse(json);
  TokenAnswer answer{token_of(object, "token"), shortest, token_of(object, "refresh_token")};
  if (answer.token.empty()) answer.token = token_of(object, "access_token");
  if (answer.token.empty()) throw Error(ErrorCode::network, "it has neither 'token' nor 'access_token'");
  const auto expiry = object.find("expires_in");
  if (expiry != object.end() && expiry->is_number()) {
    const double seconds = std::clamp(expiry->get<double>(), 0.0, static_cast<double>(longest.count()));
    answer.expires_in = std::chrono::seconds(static_cast<std::int64_t>(seconds));
  }
  return answer;
}

}  // namespace gpux::oci

#include "registry/oci/registry_errors.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/in_quotes.h"

namespace gpux::oci {
namespace {

using Json = nlohmann::json;

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

struct Meaning {
  int status;
  ErrorCode code;
  const char* text;
};

constexpr Meaning meanings[] = {
    {400, ErrorCode::network, "the registry does not accept the request"},
    {401, ErrorCode::permission, "the registry does not accept the credentials"},
    {403, ErrorCode::permission, "access is denied"},
    {404, ErrorCode::not_found, "it does not exist, or these credentials may not see it"},
    {405, ErrorCode::network, "the registry does not support the operation"},
    {413, ErrorCode::network, "it is larger than the registry allows"},
    {416, ErrorCode::network, "the registry lost a part of the upload"},
    {429, ErrorCode::network, "the registry limits the rate of requests; try later"},
    {507, ErrorCode::network, "the registry's storage is full"},
};

}  // namespace

std::string error_text(std::string_view body) {
  Json answer;
  try {
    answer = parse_bounded_json(body);
  } catch (const nlohmann::json::exception&) {
    return {};
  } catch (const Error&) {
    return {};
  }
  const auto errors = answer.is_object() ? answer.find("errors") : answer.end();
  if (!answer.is_object() || errors == answer.end() || !errors->is_array() || errors->empty()) return {};
  const Json& first = errors->front();
  if (!first.is_object()) return {};
  const std::string code = text_of(first, "code"), message = text_of(first, "message");
  if (code.empty() && message.empty()) return {};
  return in_quotes(code.empty() || message.empty() ? code + message : code + ": " + message);
}

Error error_of_status(const std::string& attempt, int status, std::string_view body) {
  ErrorCode code = ErrorCode::network;
  std::string text = status >= 500 ? "the registry failed" : "the registry gave an unexpected answer";
  for (const Meaning& meaning : meanings) {
    if (meaning.status != status) continue;
    code = meaning.code;
    text = meaning.text;
  }
  const std::string said = error_text(body);
  return {code, fmt::format("{}: {} (HTTP {}{})", attempt, text, status, said.empty() ? "" : ", " + said)};
}

}  // namespace gpux::oci

#include "registry/oci/docker_config.h"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "base/base64.h"
#include "base/bounded_json.h"
#include "base/files.h"
#include "base/home.h"
#include "base/json_problem.h"
#include "gpux/error.h"
#include "registry/oci/remote_reference.h"

namespace gpux::oci {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t limit_bytes = std::uint64_t{4} << 20;
constexpr const char* docker_hub_key = "https://index.docker.io/v1/";

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// Without a scheme and a path, which older clients wrote.
std::string_view bare_host(std::string_view key) {
  for (const std::string_view scheme : {"https://", "http://"}) {
    if (key.starts_with(scheme)) key.remove_prefix(scheme.size());
  }
  return key.substr(0, key.find('/'));
}

bool is_docker_hub(std::string_view registry) {
  return api_host(registry) == "registry-1.docker.io" || registry == "registry-1.docker.io";
}

bool is_key_of(std::string_view key, std::string_view registry) {
  if (is_docker_hub(registry)) return key == docker_hub_key || is_docker_hub(bare_host(key));
  return key == registry || bare_host(key) == registry;
}

/// The entry of the registry: an exact name before one with a scheme.
std::string key_in(const Json& map, std::string_view registry) {
  const std::string exact = credential_key(registry);
  if (map.contains(exact)) return exact;
  for (const auto& [key, value] : map.items()) {
    if (is_key_of(key, registry)) return key;
  }
  return {};
}

Json object_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_object() ? *found : Json::object();
}

bool is_helper_name(std::string_view name) {
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  });
}

}  // namespace

std::filesystem::path DockerConfig::default_file() {
  if (const std::string folder = environment_variable("DOCKER_CONFIG"); !folder.empty()) {
    return std::filesystem::path(folder) / "config.json";
  }
  return std::filesystem::path(environment_variable("HOME")) / ".docker" / "config.json";
}

DockerConfig DockerConfig::read(const std::filesystem::path& file) {
  std::string text;
  try {
    text = read_file(file, limit_bytes);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
  }
  return parse(text.empty() ? "{}" : text, "'" + file.string() + "'");
}

DockerConfig DockerConfig::parse(std::string_view json, const std::string& name) {
  DockerConfig config;
  config.name_ = name;
  const auto damaged = [&](const std::string& why) -> Error {
    return {ErrorCode::invalid_config, fmt::format("{} is not a configuration of Docker: {}", name, why)};
  };
  try {
    config.json_ = parse_bounded_json(json);
  } catch (const nlohmann::json::exception& error) {
    throw damaged(json_problem(error));
  } catch (const Error& error) {
    throw damaged(error.what());
  }
  if (!config.json_.is_object()) throw damaged("it is not a JSON object");
  for (const char* key : {"auths", "credHelpers"}) {
    const auto found = config.json_.find(key);
    if (found != config.json_.end() && !found->is_object() && !found->is_null()) {
      throw damaged(fmt::format("'{}' is not an object", key).c_str());
    }
  }
  return config;
}

std::string DockerConfig::helper_for(std::string_view registry) const {
  const Json helpers = object_of(json_, "credHelpers");
  const std::string key = key_in(helpers, registry);
  std::string helper = key.empty() ? std::string() : text_of(helpers, key.c_str());
  if (helper.empty()) helper = text_of(json_, "credsStore");
  if (is_helper_name(helper)) return helper;
  throw Error(ErrorCode::invalid_config,
              fmt::format("{} names a credential helper that is no name of a program", name_));
}

std::optional<Credential> DockerConfig::credential_for(std::string_view registry) const {
  const Json auths = object_of(json_, "auths");
  const std::string key = key_in(auths, registry);
  if (key.empty() || !auths.at(key).is_object()) return std::nullopt;
  const Json& entry = auths.at(key);
  Credential credential{text_of(entry, "username"), text_of(entry, "password"), text_of(entry, "identitytoken"),
                        text_of(entry, "registrytoken")};
  if (const std::string auth = text_of(entry, "auth"); !auth.empty()) {
    const std::optional<std::vector<std::byte>> bytes = from_base64(auth);
    std::string decoded;
    if (bytes) decoded.assign(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    // Some clients wrote a zero byte behind it.
    while (decoded.ends_with('\0')) decoded.pop_back();
    const std::size_t colon = decoded.find(':');
    if (colon == std::string::npos) {
      throw Error(ErrorCode::invalid_config,
                  fmt::format("the 'auth' of {} in {} is not the base64 of USER:PASSWORD; 'gpux login {}' replaces it",
                              registry, name_, registry));
    }
    credential.user = decoded.substr(0, colon);
    credential.password = decoded.substr(colon + 1);
  }
  if (credential == Credential{}) return std::nullopt;
  return credential;
}

void DockerConfig::set(std::string_view registry, const Credential& credential) {
  erase(registry);
  Json entry = Json::object();
  const std::string pair = credential.user + ":" + credential.password;
  entry["auth"] = to_base64(std::as_bytes(std::span(pair)));
  if (!credential.identity_token.empty()) {
    const std::string name_alone = credential.user + ":";
    entry["auth"] = to_base64(std::as_bytes(std::span(name_alone)));
    entry["identitytoken"] = credential.identity_token;
  }
  json_["auths"][credential_key(registry)] = std::move(entry);
}

void DockerConfig::set_in_helper(std::string_view registry) {
  erase(registry);
  json_["auths"][credential_key(registry)] = Json::object();
}

bool DockerConfig::erase(std::string_view registry) {
  bool found = false;
  if (json_.contains("auths") && json_["auths"].is_object()) {
    Json& auths = json_["auths"];
    for (std::string key = key_in(auths, registry); !key.empty(); key = key_in(auths, registry)) {
      auths.erase(key);
      found = true;
    }
  } else {
    json_["auths"] = Json::object();
  }
  return found;
}

std::string DockerConfig::text() const {
  return json_.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void DockerConfig::write(const std::filesystem::path& file) const {
  const std::string content = text();
  FileReplacement replacement(file);
  // Before there is something to read in it.
  std::error_code error;
  std::filesystem::permissions(replacement.part(), std::filesystem::perms(0600), error);
  if (error) throw_file_error("write", file, error.value());
  replacement.append(std::as_bytes(std::span(content)));
  replacement.commit();
}

std::string credential_key(std::string_view registry) {
  return is_docker_hub(registry) ? docker_hub_key : std::string(registry);
}

Credential parse_helper_answer(std::string_view json, const std::string& helper) {
  Json answer;
  try {
    answer = parse_bounded_json(json);
  } catch (const nlohmann::json::exception&) {
  } catch (const Error&) {
  }
  if (!answer.is_object() || text_of(answer, "Secret").empty()) {
    throw Error(ErrorCode::invalid_config,
                fmt::format("{} did not print a JSON object with Username and Secret", helper));
  }
  const std::string user = text_of(answer, "Username"), secret = text_of(answer, "Secret");
  // So helpers mark an identity token.
  if (user == "<token>") return {{}, {}, secret, {}};
  return {user, secret, {}, {}};
}

}  // namespace gpux::oci

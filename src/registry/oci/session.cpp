#include "registry/oci/session.h"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "base/base64.h"
#include "base/spelling.h"
#include "gpux/error.h"
#include "registry/http/url.h"
#include "registry/oci/registry_errors.h"
#include "registry/oci/token.h"

namespace gpux::oci {
namespace {

using registry::Method;
using registry::Request;
using registry::Response;

constexpr const char* client_id = "gpux";
constexpr std::uint64_t limit_token_answer = std::uint64_t{1} << 20;
// A token that expires on its way is renewed before it is sent.
constexpr std::chrono::seconds leeway{5};
constexpr int unauthorized = 401;

std::string basic_authorization(const Credential& credential) {
  const std::string pair = credential.user + ":" + credential.password;
  return "Basic " + to_base64(std::as_bytes(std::span(pair)));
}

std::vector<AuthChallenge> challenges_of(const Response& answer) {
  std::vector<AuthChallenge> all;
  for (const auto& [name, value] : answer.headers.entries()) {
    if (name != "www-authenticate") continue;
    for (AuthChallenge& one : parse_auth_challenges(value)) all.push_back(std::move(one));
  }
  return all;
}

const AuthChallenge* find_scheme(const std::vector<AuthChallenge>& challenges, std::string_view scheme) {
  const auto found = std::find_if(challenges.begin(), challenges.end(),
                                  [&](const AuthChallenge& one) { return one.scheme == scheme; });
  return found == challenges.end() ? nullptr : &*found;
}

std::string query_of(const std::vector<std::pair<std::string, std::string>>& parameters) {
  std::string query;
  for (const auto& [name, value] : parameters) {
    if (!query.empty()) query += '&';
    query += name + "=" + registry::percent_encoded(value);
  }
  return query;
}

}  // namespace

Session::Session(registry::Client& client, std::string registry, CredentialStore credentials, Options options)
    : client_(client), registry_(std::move(registry)), store_(std::move(credentials)), options_(std::move(options)) {}

bool may_have_credentials(const registry::Url& registry, const registry::Url& token_server,
                          const std::set<std::string>& insecure_hosts) {
  if (token_server.scheme == "https") return true;
  if (registry.scheme == "https") return false;
  return token_server.host == registry.host ||
         (registry::is_loopback(registry.host) && registry::is_loopback(token_server.host)) ||
         registry::names_host(insecure_hosts, token_server);
}

bool Session::is_insecure() const {
  return registry::names_host(options_.insecure_hosts, registry::parse_url("https://" + registry_));
}

const std::string& Session::base_url() {
  const std::lock_guard lock(mutex_);
  if (base_url_.empty()) find_base_url();
  return base_url_;
}

void Session::find_base_url() {
  const std::string host = api_host(registry_);
  const std::string with_tls = "https://" + host, plain = "http://" + host;
  const auto answers = [&](const std::string& base) {
    Request request;
    request.url = base + "/v2/";
    request.max_redirects = 0;
    request.retry.max_attempts = 1;
    const int status = client_.send(request).status;
    return status == 200 || status == unauthorized;
  };
  const auto answers_plainly = [&] {
    try {
      return answers(plain);
    } catch (const registry::TransferError&) {
      return false;
    }
  };
  base_url_ = with_tls;
  // Nothing secret is sent before it is clear how. On loopback nobody listens in between.
  if (is_loopback(registry_) && answers_plainly()) {
    base_url_ = plain;
  } else if (is_insecure()) {
    try {
      static_cast<void>(answers(with_tls));
    } catch (const registry::TransferError&) {
      if (!answers_plainly()) throw;
      base_url_ = plain;
    }
  }
}

const std::optional<Credential>& Session::credential() {
  if (!credential_) {
    credential_ = options_.credential ? options_.credential : store_.find(registry_);
  }
  return *credential_;
}

std::string Session::kept_authorization(const std::string& key) {
  const std::lock_guard lock(mutex_);
  if (!basic_.empty()) return basic_;
  const auto found = tokens_.find(key);
  return found == tokens_.end() || Clock::now() >= found->second.expires ? std::string() : found->second.authorization;
}

Error Session::refusal() const {
  const bool has_credential = credential_ && credential_->has_value();
  if (options_.credential) {
    return {ErrorCode::permission, fmt::format("{} does not accept this user name and password", registry_)};
  }
  if (!has_credential) {
    return {ErrorCode::permission, fmt::format("{} requires a login for this: 'gpux login {}'", registry_, registry_)};
  }
  return {ErrorCode::permission,
          fmt::format("{} does not accept the stored credentials, or they do not allow this: 'gpux login {}' replaces "
                      "them",
                      registry_, registry_)};
}

Request Session::token_request(const AuthChallenge& challenge, const std::vector<std::string>& scopes) {
  const std::string realm = challenge.parameter("realm");
  registry::Url url;
  try {
    url = registry::parse_url(realm);
  } catch (const Error& error) {
    throw Error(ErrorCode::network,
                fmt::format("{} names a token server that cannot be asked: {}", registry_, error.message()));
  }
  if (!may_have_credentials(registry::parse_url(base_url_), url, options_.insecure_hosts)) {
    throw Error(ErrorCode::network,
                fmt::format("{} names a token server without TLS, '{}': credentials are not sent there", registry_,
                            without_query(url.text())));
  }
  std::vector<std::pair<std::string, std::string>> parameters;
  if (const std::string service = challenge.parameter("service"); !service.empty()) {
    parameters.emplace_back("service", service);
  }
  std::vector<std::string> wanted = scopes;
  if (const std::string scope = challenge.parameter("scope");
      !scope.empty() && std::find(wanted.begin(), wanted.end(), scope) == wanted.end()) {
    wanted.push_back(scope);
  }
  Request request;
  request.limit_body_bytes = limit_token_answer;
  const std::optional<Credential>& known = credential();
  if (known && !known->identity_token.empty()) {
    parameters.emplace_back("grant_type", "refresh_token");
    parameters.emplace_back("refresh_token", known->identity_token);
    parameters.emplace_back("client_id", client_id);
    if (!wanted.empty()) parameters.emplace_back("scope", join(wanted, " "));
    request.method = Method::post;
    request.url = url.text();
    request.headers.emplace_back("Content-Type", "application/x-www-form-urlencoded");
    request.body = query_of(parameters);
    request.has_secret_body = true;
    request.is_repeatable = true;
    return request;
  }
  for (const std::string& scope : wanted) parameters.emplace_back("scope", scope);
  if (known) {
    parameters.emplace_back("account", known->user);
    parameters.emplace_back("client_id", client_id);
    if (options_.credential) parameters.emplace_back("offline_token", "true");
    request.authorization = basic_authorization(*known);
  }
  const std::string query = query_of(parameters);
  if (!query.empty()) url.target += (url.target.find('?') == std::string::npos ? '?' : '&') + query;
  request.url = url.text();
  return request;
}

std::string Session::fetch_token(const AuthChallenge& challenge, const std::vector<std::string>& scopes,
                                 const std::string& key) {
  if (const std::optional<Credential>& known = credential(); known && !known->registry_token.empty()) {
    return "Bearer " + known->registry_token;
  }
  const Clock::time_point start = Clock::now();
  const Response answer = client_.send(token_request(challenge, scopes));
  if (answer.status == unauthorized || answer.status == 403) throw refusal();
  const std::string what = fmt::format("cannot get a token for {}", registry_);
  if (!answer.is_success()) throw error_of_status(what, answer.status, answer.body);
  TokenAnswer token;
  try {
    token = parse_token_answer(answer.body);
  } catch (const Error& error) {
    throw Error(ErrorCode::network, fmt::format("{}: the answer cannot be used: {}", what, error.message()));
  }
  identity_token_ = token.refresh_token;
  Token& kept = tokens_[key];
  kept = {"Bearer " + token.token, start + token.expires_in - std::min(token.expires_in / 2, leeway)};
  return kept.authorization;
}

std::string Session::authorize(const Response& answer, const std::vector<std::string>& scopes, const std::string& key,
                               const std::string& refused) {
  const std::lock_guard lock(mutex_);
  // Another thread may have renewed it meanwhile.
  if (const auto found = tokens_.find(key);
      found != tokens_.end() && found->second.authorization != refused && Clock::now() < found->second.expires) {
    return found->second.authorization;
  }
  const std::vector<AuthChallenge> challenges = challenges_of(answer);
  if (const AuthChallenge* bearer = find_scheme(challenges, "bearer")) return fetch_token(*bearer, scopes, key);
  if (find_scheme(challenges, "basic") == nullptr) {
    throw Error(ErrorCode::permission,
                fmt::format("{} wants a kind of authentication that is not supported; Bearer and "
                            "Basic are",
                            registry_));
  }
  const std::optional<Credential>& known = credential();
  if (!known || known->user.empty()) throw refusal();
  if (basic_authorization(*known) == refused) throw refusal();
  basic_ = basic_authorization(*known);
  return basic_;
}

Response Session::send(Request request, const std::vector<std::string>& scopes) {
  if (request.url.starts_with('/')) request.url = base_url() + request.url;
  const std::string key = join(scopes, " ");
  // Answers of other hosts are theirs, as those of storage that a registry redirects to.
  const registry::Url own = registry::parse_url(base_url()), asked = registry::parse_url(request.url);
  const bool is_own = registry::has_same_origin(own, asked);
  if (is_own) request.authorization = kept_authorization(key);
  Response answer = client_.send(request);
  const auto is_refused = [&] {
    return is_own && answer.status == unauthorized && registry::has_same_origin(own, registry::parse_url(answer.url));
  };
  if (!is_refused()) return answer;
  request.authorization = authorize(answer, scopes, key, request.authorization);
  answer = client_.send(request);
  if (is_refused()) {
    const std::lock_guard lock(mutex_);
    throw refusal();
  }
  return answer;
}

void Session::check_access() {
  Request request;
  request.url = "/v2/";
  const Response answer = send(request, {});
  if (answer.status != 200) {
    throw error_of_status(fmt::format("{} does not answer as a registry", registry_), answer.status, answer.body);
  }
}

std::string Session::identity_token() const {
  const std::lock_guard lock(mutex_);
  return identity_token_;
}

}  // namespace gpux::oci

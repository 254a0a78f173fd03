#include "registry/hub/hub_error.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "base/in_quotes.h"

namespace gpux::registry {
namespace {

constexpr int unauthorized = 401, forbidden = 403, not_found_status = 404, too_many_requests = 429, server_error = 500;
constexpr const char* bad_token_message = "Invalid credentials in Authorization header";

/// What the hub says, from its header or its JSON, shortened.
std::string words_of(const Response& response) {
  constexpr std::size_t limit = 200;
  std::string words = response.headers.find("x-error-message");
  if (words.empty()) {
    constexpr std::string_view key = R"({"error":")";
    const std::string& body = response.body;
    if (body.starts_with(key)) words = body.substr(key.size(), body.find('"', key.size()) - key.size());
  }
  return words.substr(0, std::min(words.size(), limit));
}

std::string token_hint(const HubRequest& request, std::string_view without) {
  return request.token_source.empty() ? std::string(without)
                                      : fmt::format("the token of {} gives no access", request.token_source);
}

Error rate_limit_error(const Response& response, const HubRequest& request) {
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  const auto wait = parse_retry_after(response.headers.find("retry-after"), now);
  return {ErrorCode::network, fmt::format("the hub limits the rate of requests (429): try again {}{}",
                                          wait ? fmt::format("in {} s", wait->count()) : "later",
                                          request.token_source.empty() ? "; HF_TOKEN raises the limit" : "")};
}

}  // namespace

Error hub_error(const Response& response, const HubRequest& request) {
  const std::string code = response.headers.find("x-error-code"), words = words_of(response);
  const std::string model = "hf.co/" + request.repository;
  const std::string page = request.endpoint + "/" + request.repository;
  if (code == "RevisionNotFound") {
    return {ErrorCode::not_found, fmt::format("{} has no revision {}", model, in_quotes(request.revision))};
  }
  if (code == "EntryNotFound") {
    return {ErrorCode::not_found, fmt::format("{} has no file {}{}", model, in_quotes(request.file),
                                              request.revision.empty() ? "" : " at " + request.revision)};
  }
  if (code == "GatedRepo") {
    return {ErrorCode::permission, fmt::format("{} is gated: accept its conditions at {}, and {}", model, page,
                                               token_hint(request, "set HF_TOKEN to a token of that account"))};
  }
  if (words == "Access to this resource is disabled.") {
    return {ErrorCode::permission, fmt::format("the hub has disabled access to {}", model)};
  }
  if (response.status == unauthorized && words == bad_token_message) {
    return {ErrorCode::permission, fmt::format("the hub does not accept the token of {}: it is wrong, or has expired",
                                               request.token_source.empty() ? "this request" : request.token_source)};
  }
  if (code == "RepoNotFound" || response.status == unauthorized ||
      (response.status == not_found_status && request.file.empty())) {
    return {ErrorCode::not_found, fmt::format("the hub has no model '{}', or it is private: {}", request.repository,
                                              token_hint(request, "HF_TOKEN gives access to private models"))};
  }
  if (response.status == not_found_status) {
    return {ErrorCode::not_found, fmt::format("{} has no file {}", model, in_quotes(request.file))};
  }
  if (response.status == forbidden) {
    return {ErrorCode::permission, fmt::format("the hub refuses access to {}: {}", model,
                                               words.empty() ? token_hint(request, "HF_TOKEN is not set") : words)};
  }
  if (response.status == too_many_requests) return rate_limit_error(response, request);
  const std::string said = words.empty() ? "" : ": " + words;
  if (response.status >= server_error) {
    return {ErrorCode::network,
            fmt::format("the hub fails with {} for {}{}; try again later", response.status, model, said)};
  }
  return {ErrorCode::network, fmt::format("the hub answers {} for {}{}", response.status, model, said)};
}

}  // namespace gpux::registry

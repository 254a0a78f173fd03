#include "project/trust_policy.h"

#include <algorithm>
#include <array>
#include <iterator>

#include <fmt/format.h>

#include "base/files.h"
#include "base/format_message.h"
#include "base/in_quotes.h"
#include "base/spelling.h"
#include "gpux/error.h"
#include "project/project_check.h"
#include "project/project_schema.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;
using enum KeyKind;
using enum InPackage;

constexpr std::array<SchemaKey, 1> trust_keys{{
    {"registries", text_map, of_the_user,
     "REGISTRY[/REPOSITORY] with a PEM file of public keys, relative to this file's folder.", true},
}};
constexpr SchemaKey trust_root{"trust.yml", object, of_the_user, "Whose packages are trusted.", true, trust_keys};

bool is_at_or_below(std::string_view repository, std::string_view prefix) {
  return repository.starts_with(prefix) && (repository.size() == prefix.size() || repository[prefix.size()] == '/');
}

bool has(const std::vector<std::string>& keys, const std::string& key) {
  return std::ranges::find(keys, key) != keys.end();
}

}  // namespace

std::string repository_of(std::string_view reference) {
  reference = reference.substr(0, reference.find('@'));
  const std::size_t slash = reference.rfind('/');
  if (slash != std::string_view::npos) reference = reference.substr(0, reference.find(':', slash));
  return lower(reference);
}

const TrustRule* TrustPolicy::rule_for(std::string_view reference) const {
  const std::string repository = repository_of(reference);
  const TrustRule* longest = nullptr;
  for (const TrustRule& rule : rules) {
    const bool is_longer = longest == nullptr || rule.prefix.size() > longest->prefix.size();
    if (is_longer && is_at_or_below(repository, rule.prefix)) longest = &rule;
  }
  return longest;
}

TrustPolicy read_trust_policy(const fs::path& home) {
  constexpr std::uint64_t limit_bytes = std::uint64_t{1} << 20;
  const fs::path file = home / "trust.yml";
  std::error_code error;
  if (!fs::exists(file, error) && !error) return {};
  ProblemList problems(file.string());
  Positions positions;
  const auto root = parse_expanded(read_file(file, limit_bytes), file.string(), problems);
  check_against_schema(*root, trust_root, problems, positions);
  problems.throw_if_any();
  TrustPolicy policy;
  for (const yaml::Entry& entry : root->find("registries")->entries) {
    TrustRule rule{.prefix = lower(entry.key),
                   .keys = public_keys_in(read_file(home / entry.value->text, limit_bytes)),
                   .from = fmt::format("{}:{}:{}", file.string(), entry.key_position.line, entry.key_position.column)};
    if (repository_of(rule.prefix) != rule.prefix || rule.prefix.empty() || rule.prefix.ends_with('/')) {
      problems.add(entry.key_position,
                   fmt::format("{} is no registry or repository; REGISTRY or REGISTRY/REPOSITORY without a tag is "
                               "accepted",
                               in_quotes(entry.key)));
    }
    if (rule.keys.empty()) {
      problems.add(entry.value->position,
                   fmt::format("{} has no public key; PEM with keys on the curve P-256 is accepted",
                               in_quotes(entry.value->text)));
    }
    policy.rules.push_back(std::move(rule));
  }
  problems.throw_if_any();
  return policy;
}

std::vector<std::string> public_keys_in(std::string_view pem) {
  constexpr std::string_view begin = "-----BEGIN PUBLIC KEY-----", end = "-----END PUBLIC KEY-----";
  std::vector<std::string> keys;
  for (std::size_t at = pem.find(begin); at != std::string_view::npos; at = pem.find(begin, at)) {
    at += begin.size();
    const std::size_t stop = pem.find(end, at);
    if (stop == std::string_view::npos) break;
    std::string key;
    std::ranges::copy_if(pem.substr(at, stop - at), std::back_inserter(key),
                         [](char c) { return c != '\n' && c != '\r' && c != ' ' && c != '\t'; });
    keys.push_back(std::move(key));
  }
  return keys;
}

std::string pem_of_public_key(std::string_view key) {
  constexpr std::size_t line = 64;
  std::string pem = "-----BEGIN PUBLIC KEY-----\n";
  for (std::size_t at = 0; at < key.size(); at += line) pem += fmt::format("{}\n", key.substr(at, line));
  return pem + "-----END PUBLIC KEY-----\n";
}

RequiredSignature required_signature(const TrustPolicy& policy, std::string_view reference,
                                     const std::vector<std::string>& given, const std::string& former) {
  const TrustRule* rule = policy.rule_for(reference);
  if (rule == nullptr && !given.empty()) return {given, {setting_named("verify_key")}};
  if (rule == nullptr && !former.empty()) return {{former}, {"the stored package has one, and 'gpux rm' forgets it"}};
  if (rule == nullptr) return {};
  if (given.empty()) return {rule->keys, {rule->from}};
  std::vector<std::string> both;
  std::ranges::copy_if(given, std::back_inserter(both), [&](const std::string& key) { return has(rule->keys, key); });
  if (!both.empty()) return {both, {setting_named("verify_key")}};
  throw Error(ErrorCode::usage, format_message("{} is none of the keys that {} accepts for {}",
                                               setting_named("verify_key"), rule->from, in_quotes(rule->prefix)));
}

namespace {

// An archive names its packages itself: one that has the name of a registry's package is held to that registry's rule.
const TrustRule* rule_of(const TrustPolicy& policy, const StoredModel& model) {
  const TrustRule* rule = policy.rule_for(model.pulled_from);
  return rule != nullptr ? rule : policy.rule_for(model.reference.text());
}

}  // namespace

bool is_trusted(const TrustPolicy& policy, const StoredModel& model) {
  const TrustRule* rule = rule_of(policy, model);
  return rule == nullptr || has(rule->keys, model.verified_by);
}

void require_trusted(const TrustPolicy& policy, const StoredModel& model) {
  if (is_trusted(policy, model)) return;
  throw Error(
      ErrorCode::network,
      fmt::format("{} was pulled from {}, and no signature of the keys that {} asks for was seen: it is refused; "
                  "'gpux pull {}' looks for one",
                  in_quotes(model.reference.text()), model.pulled_from, rule_of(policy, model)->from,
                  policy.rule_for(model.pulled_from) != nullptr ? model.pulled_from : model.reference.text()));
}

}  // namespace gpux

#include "server/requests/api_keys.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/sha256.h"
#include "base/spelling.h"
#include "base/utf8.h"
#include "gpux/error.h"

namespace gpux::server {
namespace {

constexpr std::size_t least_characters = 8;
constexpr std::size_t max_name_characters = 64;

// Without the blanks that HTTP would take off a key as well.
std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (const std::string& line : split(std::string(text), '\n')) {
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first != std::string::npos) lines.push_back(line.substr(first, line.find_last_not_of(" \t\r") - first + 1));
  }
  return lines;
}

bool is_name(std::string_view text) {
  const auto may_be = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '@' || c == '-';
  };
  return !text.empty() && text.size() <= max_name_characters && std::ranges::all_of(text, may_be);
}

// Names that gpux itself gives: to keys without one, and to requests without a key.
bool is_reserved(std::string_view name) {
  constexpr std::string_view numbered = "key-";
  if (name == "anonymous") return true;
  return name.starts_with(numbered) && name.size() > numbered.size() &&
         name.find_first_not_of("0123456789", numbered.size()) == std::string_view::npos;
}

ApiKey read_key(std::string line, const std::string& source) {
  ApiKey key{.name = {}, .secret = std::move(line)};
  const std::size_t equals = key.secret.find('=');
  const bool has_more = equals != std::string::npos && key.secret.find_first_not_of('=', equals) != std::string::npos;
  if (has_more && is_name(std::string_view(key.secret).substr(0, equals))) {
    key.name = key.secret.substr(0, equals);
    key.secret.erase(0, equals + 1);
  }
  const bool can_be_sent =
      std::ranges::none_of(key.secret, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (!can_be_sent) {
    throw Error(ErrorCode::usage, fmt::format("{}: a key has control characters, which no client can send", source));
  }
  if (key.secret.size() < least_characters) {
    throw Error(ErrorCode::usage, fmt::format("{}: a key has less than {} characters", source, least_characters));
  }
  if (is_reserved(key.name)) {
    throw Error(ErrorCode::usage,
                fmt::format("{}: '{}' is a name that gpux gives to keys without one, or to requests without a key; "
                            "another name is accepted",
                            source, key.name));
  }
  return key;
}

// As it was sent; empty where none was.
std::string_view sent_key(std::string_view authorization, std::string_view x_api_key) {
  constexpr std::string_view scheme = "bearer ";
  if (authorization.size() > scheme.size() && lower(authorization.substr(0, scheme.size())) == scheme) {
    return authorization.substr(scheme.size());
  }
  return x_api_key;
}

}  // namespace

std::vector<ApiKey> keys_of_file(std::string_view text, const std::string& file) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  // A key with a NUL, or of UTF-16, no client can send: nobody would get in, and nothing would say why.
  if (const std::string problem = file_text_problem(text); !problem.empty()) {
    throw Error(ErrorCode::usage, fmt::format("{}: {}", file, problem));
  }
  std::vector<ApiKey> keys;
  for (std::string& line : lines_of(text)) {
    if (!line.starts_with('#')) keys.push_back(read_key(std::move(line), file));
  }
  if (keys.empty()) throw Error(ErrorCode::usage, fmt::format("{} holds no key", file));
  return keys;
}

std::vector<ApiKey> keys_of_variable(std::string_view text, const std::string& variable) {
  std::vector<ApiKey> keys;
  for (std::string& line : lines_of(text)) {
    if (line.starts_with('#')) {
      throw Error(ErrorCode::usage,
                  fmt::format("{} begins with '#', which is a comment in a file of keys and no key", variable));
    }
    keys.push_back(read_key(std::move(line), variable));
  }
  if (keys.empty()) {
    throw Error(ErrorCode::usage,
                fmt::format("{} is set and has no key: set a key, or unset it to serve without keys", variable));
  }
  return keys;
}

ApiKeys::ApiKeys(std::span<const ApiKey> keys, std::span<const ApiKey> admin_keys, const ApiKeys* before)
    : last_number_(before == nullptr ? 0 : before->last_number_),
      is_required_(!keys.empty()),
      has_admin_keys_(!admin_keys.empty()) {
  for (const ApiKey& key : keys) add(key, false, before);
  for (const ApiKey& key : admin_keys) add(key, true, before);
}

void ApiKeys::add(const ApiKey& key, bool is_admin, const ApiKeys* before) {
  const auto [place, is_new] = holders_.try_emplace(sha256_of(key.secret), KeyHolder{key.name, is_admin});
  KeyHolder& holder = place->second;
  if (holder.is_admin != is_admin) {
    throw Error(ErrorCode::usage, "a key is among the admin keys and among the others: it can be one of both");
  }
  if (!is_new && holder.name != key.name && !key.name.empty()) {
    throw Error(ErrorCode::usage,
                fmt::format("a key has the names '{}' and '{}': it can have one", holder.name, key.name));
  }
  if (holder.name.empty()) {
    const KeyHolder* known = before == nullptr ? nullptr : before->find_digest(place->first);
    const bool has_number = known != nullptr && is_reserved(known->name);
    holder.name = has_number ? known->name : fmt::format("key-{}", ++last_number_);
  }
  names_.insert(holder.name);
}

const KeyHolder* ApiKeys::find(std::string_view authorization, std::string_view x_api_key) const {
  if (holders_.empty()) return nullptr;
  // The time of a look-up depends on the digest alone, which is of no use without the key.
  return find_digest(sha256_of(sent_key(authorization, x_api_key)));
}

const KeyHolder* ApiKeys::find_digest(const std::string& digest) const {
  const auto found = holders_.find(digest);
  return found == holders_.end() ? nullptr : &found->second;
}

std::optional<KeyRefusal> key_refusal(const ApiKeys& keys, KeyNeed need, std::string_view authorization,
                                      std::string_view x_api_key) {
  const bool needs_admin = need == KeyNeed::admin && keys.has_admin_keys();
  if (!needs_admin && (need == KeyNeed::none || !keys.are_required())) return std::nullopt;
  const KeyHolder* holder = keys.find(authorization, x_api_key);
  if (holder == nullptr) {
    const bool is_sent = !authorization.empty() || !x_api_key.empty();
    return KeyRefusal{.is_known = false,
                      .message = is_sent       ? "the API key is not accepted"
                                 : needs_admin ? "an admin key is needed"
                                               : "an API key is needed"};
  }
  if (!needs_admin || holder->is_admin) return std::nullopt;
  return KeyRefusal{.is_known = true,
                    .message = fmt::format(
                        "the API key '{}' may use models and not change them: an admin key is needed", holder->name)};
}

}  // namespace gpux::server

#include "vector_store/store_url.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "base/utf8.h"
#include "gpux/error.h"

namespace gpux::vector_store {
namespace {

constexpr std::string_view default_collection = "gpux_vectors";
constexpr std::size_t max_collection_bytes = 48;
// The facts of all collections, and the temporary table of PostgreSQL.
constexpr std::string_view own_names[]{"gpux_collections", "gpux_staging"};
constexpr std::string_view accepted =
    "accepted: postgres://USER@HOST/DATABASE?collection=NAME, qdrant://HOST:6333/COLLECTION, file:PATH";

struct Scheme {
  std::string_view prefix;
  StoreUrl::Kind kind;
};

constexpr Scheme schemes[]{{"postgres://", StoreUrl::Kind::postgres},
                           {"postgresql://", StoreUrl::Kind::postgres},
                           {"qdrant://", StoreUrl::Kind::qdrant},
                           {"file:", StoreUrl::Kind::file}};

const Scheme* scheme_of(std::string_view text) noexcept {
  const auto* found = std::ranges::find_if(schemes, [&](const Scheme& one) { return text.starts_with(one.prefix); });
  return found == std::end(schemes) ? nullptr : found;
}

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::usage, what);
}

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool has_whole_escapes(std::string_view text) noexcept {
  for (auto at = text.find('%'); at != std::string_view::npos; at = text.find('%', at + 1)) {
    if (at + 2 >= text.size() || hex_digit(text[at + 1]) < 0 || hex_digit(text[at + 2]) < 0) return false;
  }
  return true;
}

// Of a text that has_whole_escapes().
std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    out += static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
    i += 2;
  }
  return out;
}

// "HOST", "HOST:PORT" or "[ADDRESS]:PORT"; the host may be empty.
bool is_host(std::string_view text) noexcept {
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == std::string_view::npos) return false;
    text.remove_prefix(end + 1);
    if (!text.empty() && !text.starts_with(':')) return false;
  }
  if (text.find_first_of("[]") != std::string_view::npos) return false;
  const auto colon = text.find(':');
  const std::string_view port = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  return std::ranges::all_of(port, [](char c) { return c >= '0' && c <= '9'; });
}

// Of what is behind "scheme://". A part of a password that is taken for a host, a path or a parameter would be shown:
// only an address whose parts are certain is read, and another is not quoted.
void require_certain_parts(std::string_view text) {
  constexpr std::string_view remedy = "write %, /, ?, @ of a password as %25, %2F, %3F, %40";
  if (!has_whole_escapes(text)) {
    refuse(fmt::format("the address of a vector store: '%' is followed by two hexadecimal digits; {}", remedy));
  }
  const auto at = text.find('@');
  std::string_view authority = text.substr(0, text.find_first_of("/?"));
  if (at != std::string_view::npos && (at >= authority.size() || text.find('@', at + 1) != std::string_view::npos)) {
    refuse(fmt::format("the address of a vector store: '@' is once there, before the host; {}", remedy));
  }
  if (at != std::string_view::npos) authority.remove_prefix(at + 1);
  for (;;) {
    const auto comma = authority.find(',');
    if (!is_host(authority.substr(0, comma))) {
      refuse(fmt::format("the address of a vector store: accepted before the path: [USER:PASSWORD@]HOST[:PORT]; {}",
                         remedy));
    }
    if (comma == std::string_view::npos) return;
    authority.remove_prefix(comma + 1);
  }
}

struct Parts {
  std::string_view user, password, host, path, query;  // as they are written
};

// Of what is behind "scheme://". Error usage.
Parts split(std::string_view text) {
  require_certain_parts(text);
  Parts parts;
  if (const auto at = text.find('?'); at != std::string_view::npos) {
    parts.query = text.substr(at + 1);
    text = text.substr(0, at);
  }
  const auto slash = text.find('/');
  std::string_view authority = text.substr(0, slash);
  if (slash != std::string_view::npos) parts.path = text.substr(slash + 1);
  if (const auto at = authority.find('@'); at != std::string_view::npos) {
    const std::string_view user = authority.substr(0, at);
    const auto colon = user.find(':');
    parts.user = user.substr(0, colon);
    if (colon != std::string_view::npos) parts.password = user.substr(colon + 1);
    authority = authority.substr(at + 1);
  }
  parts.host = authority;
  return parts;
}

std::vector<std::pair<std::string_view, std::string_view>> parameters_of(std::string_view query) {
  std::vector<std::pair<std::string_view, std::string_view>> list;
  while (!query.empty()) {
    const auto end = query.find('&');
    const std::string_view one = query.substr(0, end);
    const auto equals = one.find('=');
    list.emplace_back(one.substr(0, equals),
                      equals == std::string_view::npos ? std::string_view() : one.substr(equals + 1));
    query = end == std::string_view::npos ? std::string_view() : query.substr(end + 1);
  }
  return list;
}

std::string shown_of(std::string_view prefix, const Parts& parts) {
  return fmt::format("{}{}{}{}{}{}", prefix, parts.user, parts.user.empty() ? "" : "@", parts.host,
                     parts.path.empty() ? "" : "/", parts.path);
}

StoreUrl postgres_url(std::string_view text, const Scheme& scheme) {
  const Parts parts = split(text.substr(scheme.prefix.size()));
  StoreUrl url{.kind = scheme.kind,
               .address = {},
               .collection = std::string(default_collection),
               .key = {},
               .shown = shown_of("postgres://", parts)};
  std::string rest;
  for (const auto& [name, value] : parameters_of(parts.query)) {
    if (name == "collection") {
      url.collection = percent_decoded(value);
      url.shown = shown_of("postgres://", parts) + "?collection=" + std::string(value);
    } else if (name == "index") {
      if (value != "hnsw" && value != "none") {
        refuse(fmt::format("'{}': index={}; accepted: hnsw, none", url.shown, in_quotes(value)));
      }
      url.has_index = value == "hnsw";
    } else {
      rest += fmt::format("{}{}={}", rest.empty() ? '?' : '&', name, value);
    }
  }
  url.address = std::string(text.substr(0, text.find('?'))) + rest;
  check_collection_name(url.collection);
  return url;
}

StoreUrl qdrant_url(std::string_view text, const Scheme& scheme) {
  const Parts parts = split(text.substr(scheme.prefix.size()));
  const std::string shown =
      shown_of(scheme.prefix, {.user = {}, .password = {}, .host = parts.host, .path = parts.path, .query = {}});
  if (parts.host.empty() || !parts.user.empty()) {
    refuse(fmt::format("'{}': accepted: qdrant://[:KEY@]HOST[:6333]/COLLECTION[?tls=true]", shown));
  }
  StoreUrl url{.kind = scheme.kind,
               .address = {},
               .collection = percent_decoded(parts.path),
               .key = percent_decoded(parts.password),
               .shown = shown};
  bool has_tls = false;
  for (const auto& [name, value] : parameters_of(parts.query)) {
    if (name != "tls" || (value != "true" && value != "false")) {
      refuse(fmt::format("'{}': the parameter {}; accepted: tls=true, tls=false", shown, in_quotes(name)));
    }
    has_tls = value == "true";
  }
  if (url.collection.empty()) url.collection = default_collection;
  check_collection_name(url.collection);
  // A colon within brackets is one of an IPv6 address.
  const auto bracket = parts.host.rfind(']');
  const bool has_port = parts.host.find(':', bracket == std::string_view::npos ? 0 : bracket) != std::string_view::npos;
  url.address = fmt::format("http{}://{}{}", has_tls ? "s" : "", parts.host, has_port ? "" : ":6333");
  return url;
}

StoreUrl file_url(std::string_view text, const Scheme& scheme) {
  std::string_view path = text.substr(scheme.prefix.size());
  if (path.starts_with("//")) {
    path.remove_prefix(2);
    if (!path.starts_with('/')) refuse(fmt::format("{}: accepted: file:PATH or file:///PATH", in_quotes(text)));
  }
  if (path.empty()) refuse("file: without a path; accepted: file:PATH");
  return {.kind = scheme.kind, .address = std::string(path), .collection = {}, .key = {}, .shown = std::string(path)};
}

}  // namespace

bool is_store_url(std::string_view text) noexcept {
  return scheme_of(text) != nullptr;
}

StoreUrl parse_store_url(std::string_view text) {
  const Scheme* scheme = scheme_of(text);
  if (scheme == nullptr) {
    // What is no address may be one with a password.
    const std::string shown = text.find('@') == std::string_view::npos ? in_quotes(text) : "the address";
    refuse(fmt::format("{} is no address of a vector store; {}", shown, accepted));
  }
  if (!is_utf8(text) || std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20; })) {
    refuse(fmt::format("the address of a vector store has control characters or is not UTF-8; {}", accepted));
  }
  switch (scheme->kind) {
    case StoreUrl::Kind::postgres:
      return postgres_url(text, *scheme);
    case StoreUrl::Kind::qdrant:
      return qdrant_url(text, *scheme);
    default:
      return file_url(text, *scheme);
  }
}

void check_collection_name(std::string_view name) {
  const bool is_printable = is_utf8(name) && std::ranges::none_of(name, [](char c) {
                              return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
                            });
  if (std::ranges::find(own_names, name) != std::end(own_names)) {
    refuse(fmt::format("collection {}: gpux keeps its own data in it", in_quotes(name)));
  }
  if (!name.empty() && name.size() <= max_collection_bytes && is_printable) return;
  refuse(fmt::format("collection {}: a name has 1 to {} bytes of UTF-8 without control characters", in_quotes(name),
                     max_collection_bytes));
}

}  // namespace gpux::vector_store

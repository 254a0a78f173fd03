#include "server/models/ran_on.h"

#include <algorithm>

#include <fmt/format.h>

namespace gpux::server {
namespace {

constexpr std::size_t digest_digits = 12;

// A token of RFC 8941, which begins with a letter. A user's own provider has any name.
std::string token_of(std::string_view text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  std::string token(text);
  for (char& c : token) {
    if (!is_letter(c) && (c < '0' || c > '9') && c != '-' && c != '.') c = '_';
  }
  if (token.empty() || !is_letter(token.front())) token.insert(0, "x");
  return token;
}

}  // namespace

std::string header_of_towers(const std::string& header, const Verdict& image_tower) {
  std::string both = header;
  for (const std::string& id : image_tower.active) {
    both += fmt::format("{}{};tower=image", both.empty() ? "" : ", ", token_of(id));
  }
  return both;
}

RanOn ran_on(const Verdict& verdict, std::string_view digest) {
  const std::string model(digest.substr(0, digest_digits));
  RanOn short_form{.header = {}, .fingerprint = "fp_" + model};
  for (const std::string& id : verdict.active) {
    const std::string provider = token_of(id);
    const bool is_first = short_form.header.empty();
    short_form.header += (is_first ? "" : ", ") + provider;
    const auto attempt = std::ranges::find(verdict.tried, id, &ProviderAttempt::id);
    if (verdict.placement_known && attempt != verdict.tried.end()) {
      short_form.header += fmt::format(";nodes={}", attempt->node_count);
    }
    if (is_first && !verdict.precision.empty()) {
      short_form.header += fmt::format(";precision={}", token_of(verdict.precision));
    }
    // A digest may begin with a digit, which a string of the RFC may, too.
    if (is_first && !model.empty()) short_form.header += fmt::format(R"(;model="{}")", model);
    short_form.fingerprint += (is_first ? '_' : '+') + provider;
  }
  if (!verdict.precision.empty()) short_form.fingerprint += '_' + token_of(verdict.precision);
  return short_form;
}

}  // namespace gpux::server

#include "registry/hub/hub_reference.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "base/sha256.h"
#include "base/spelling.h"
#include "base/utf8_prefix.h"
#include "gpux/error.h"

namespace gpux::registry {
namespace {

constexpr std::size_t limit_repository = 96 + 1 + 96, limit_revision = 255, limit_file = 1024;
constexpr std::array<std::string_view, 9> prefixes{"https://huggingface.co/",
                                                   "http://huggingface.co/",
                                                   "https://hf.co/",
                                                   "http://hf.co/",
                                                   "hf://",
                                                   "hf.co/",
                                                   "huggingface.co/",
                                                   "hf:",
                                                   "www.huggingface.co/"};

std::size_t prefix_size(std::string_view text) noexcept {
  for (const std::string_view prefix : prefixes) {
    if (text.size() >= prefix.size() && lower(text.substr(0, prefix.size())) == prefix) return prefix.size();
  }
  return 0;
}

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

bool is_hub_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), is_name_character) && !name.starts_with('.') &&
         !name.starts_with('-') && !name.ends_with('.') && name.find("..") == std::string_view::npos;
}

bool is_revision(std::string_view revision) {
  const bool is_clean = std::all_of(revision.begin(), revision.end(),
                                    [](char c) { return is_name_character(c) || c == '/' || c == '+'; });
  return !revision.empty() && revision.size() <= limit_revision && is_clean && !revision.starts_with('/') &&
         !revision.starts_with('-') && revision.find("..") == std::string_view::npos;
}

[[noreturn]] void refuse(std::string_view text, std::string_view reason) {
  throw Error(ErrorCode::usage,
              fmt::format("{} names no model of the Hugging Face hub: {}; hf.co/ORG/NAME and hf.co/ORG/NAME@REVISION "
                          "are accepted",
                          in_quotes(utf8_prefix(text, limit_file)), reason));
}

/// Takes "tree/REVISION", "blob/REVISION/FILE" or "resolve/REVISION/FILE" apart.
void read_page(std::string_view whole, std::string_view page, HubReference& reference) {
  page = page.substr(0, page.find_first_of("?#"));
  const std::size_t slash = page.find('/');
  const std::string_view kind = page.substr(0, slash);
  const std::string_view rest = slash == std::string_view::npos ? "" : page.substr(slash + 1);
  const bool is_file = kind == "blob" || kind == "resolve" || kind == "raw";
  if ((kind != "tree" && !is_file) || rest.empty()) refuse(whole, "it has more parts than ORG/NAME");
  const std::size_t end = rest.find('/');
  reference.revision = rest.substr(0, end);
  if (end != std::string_view::npos && is_file) reference.file = rest.substr(end + 1);
  if (end != std::string_view::npos && !is_file) refuse(whole, "a folder of a repository is no model");
}

}  // namespace

std::string HubReference::text() const {
  if (!quantization.empty()) return fmt::format("hf.co/{}:{}", repository, quantization);
  return revision.empty() ? "hf.co/" + repository : fmt::format("hf.co/{}@{}", repository, revision);
}

bool names_quantization(std::string_view text) {
  const std::string name = upper(text);
  for (const char* whole : {"F16", "BF16", "F32", "MXFP4", "MXFP4_MOE"}) {
    if (name == whole) return true;
  }
  std::string_view type = name;
  if (type.starts_with("UD-")) type.remove_prefix(3);
  if (type.starts_with('I') || type.starts_with('T')) type.remove_prefix(1);
  const bool has_bits = type.size() > 3 && type[0] == 'Q' && type[1] >= '1' && type[1] <= '8' && type[2] == '_';
  return has_bits && type.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", 3) == std::string_view::npos;
}

bool is_hub_reference(std::string_view text) noexcept {
  return prefix_size(text) != 0;
}

HubReference parse_hub_reference(std::string_view text, bool prefix_is_optional) {
  const std::string_view whole = text;
  const std::size_t prefix = prefix_size(text);
  if (prefix == 0 && !prefix_is_optional) refuse(whole, "it does not begin with hf.co/");
  text.remove_prefix(prefix);
  HubReference reference;
  // A revision may contain slashes, as refs/pr/1 does.
  const std::size_t at = text.find('@');
  if (at != std::string_view::npos) {
    reference.revision = text.substr(at + 1);
    if (!is_revision(reference.revision)) refuse(whole, "what follows '@' is no revision");
    text = text.substr(0, at);
  }
  const std::size_t first = text.find('/');
  const std::size_t second = first == std::string_view::npos ? first : text.find('/', first + 1);
  if (second != std::string_view::npos && second + 1 < text.size()) {
    if (at != std::string_view::npos) refuse(whole, "it has more parts than ORG/NAME@REVISION");
    read_page(whole, text.substr(second + 1), reference);
    if (!is_revision(reference.revision)) refuse(whole, "it has no valid revision");
  }
  text = text.substr(0, second);
  const std::size_t colon = text.find(':');
  if (colon != std::string_view::npos) {
    const std::string_view tag = text.substr(colon + 1);
    if (!reference.revision.empty() || !is_revision(tag)) refuse(whole, "what follows ':' is no tag");
    reference.is_stored_name = true;
    if (names_quantization(tag)) {
      reference.quantization = tag;
    } else if (tag.ends_with(".gguf")) {
      reference.file = tag;
    } else if (tag != "latest") {
      reference.revision = tag;
    }
    text = text.substr(0, colon);
  }
  // Not the slash of a tag: the organization may be missing before it.
  const std::size_t slash = text.find('/');
  const bool is_old_name = slash == std::string_view::npos;
  const std::string_view organization = text.substr(0, slash), name = is_old_name ? "" : text.substr(slash + 1);
  if (!is_hub_name(organization) || (!is_old_name && !is_hub_name(name)) || text.size() > limit_repository) {
    refuse(whole, "ORG and NAME are of letters, digits, '-', '_' and '.'");
  }
  if (is_old_name && prefix == 0) refuse(whole, "it has no ORG");
  if (reference.file.size() > limit_file) refuse(whole, "its file name is too long");
  reference.repository = text;
  return reference;
}

std::string as_name_part(std::string_view text) {
  std::string part;
  for (const char c : lower(text)) {
    const bool is_word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (is_word) {
      part += c;
      continue;
    }
    // One separator between words, and none at the ends.
    const bool is_separator = c == '.' || c == '_' || c == '-';
    if (part.empty()) continue;
    const char last = part.back();
    const bool follows_separator = last == '.' || last == '_' || last == '-';
    if (!follows_separator) {
      part += is_separator ? c : '-';
    } else if (last != c || c != '-') {
      part.back() = '-';
    } else {
      part += c;
    }
  }
  while (!part.empty() && (part.back() == '.' || part.back() == '_' || part.back() == '-')) part.pop_back();
  return part;
}

namespace {

// Distinguishes what becomes the same name.
std::string with_digest(const std::string& name, std::string_view of) {
  constexpr std::size_t shown_digits = 8;
  const std::string digest = sha256_of(std::string(of)).substr(0, shown_digits);
  return name.empty() ? digest : name + "-" + digest;
}

std::string tag_of(const HubReference& reference) {
  if (!reference.quantization.empty()) return reference.quantization;
  const std::string& revision = reference.revision;
  if (revision.empty() && reference.file.empty()) return "latest";
  constexpr std::size_t limit_tag = 128, limit_kept = limit_tag - 9;
  std::string tag = revision.empty() ? "latest" : revision;
  std::replace_if(
      tag.begin(), tag.end(), [](char c) { return c == '/' || c == '+'; }, '-');
  if (tag.front() == '.' || tag.front() == '-') tag.front() = '_';
  const bool is_its_own = tag == revision && tag.size() <= limit_tag && tag != "latest" && !names_quantization(tag);
  if (is_its_own && reference.file.empty()) return tag;
  return with_digest(tag.substr(0, limit_kept), revision + "\n" + reference.file);
}

}  // namespace

Reference stored_name_of(const HubReference& reference) {
  std::string name = "hf.co";
  std::string_view rest = reference.repository;
  while (!rest.empty()) {
    const std::size_t slash = rest.find('/');
    const std::string part = lower(rest.substr(0, slash)), kept = as_name_part(part);
    name += "/" + (kept == part ? kept : with_digest(kept, part));
    rest = slash == std::string_view::npos ? "" : rest.substr(slash + 1);
  }
  return {.name = std::move(name), .tag = tag_of(reference)};
}

}  // namespace gpux::registry

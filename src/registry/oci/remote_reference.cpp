#include "registry/oci/remote_reference.h"

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "gpux/error.h"
#include "registry/http/url.h"
#include "store/blobs.h"

namespace gpux::oci {
namespace {

constexpr std::string_view digest_mark = "@sha256:";

std::string_view registry_of(std::string_view text) noexcept {
  const std::size_t slash = text.find('/');
  return slash == std::string_view::npos ? std::string_view{} : text.substr(0, slash);
}

}  // namespace

std::string RemoteReference::text() const {
  std::string text = registry + "/" + repository;
  if (!tag.empty()) text += ":" + tag;
  if (!digest.empty()) text += std::string(digest_mark) + digest;
  return text;
}

std::string RemoteReference::selector() const {
  return digest.empty() ? tag : "sha256:" + digest;
}

Reference RemoteReference::stored_name() const {
  return {registry + "/" + repository, tag.empty() ? "sha256-" + digest : tag};
}

bool names_registry(std::string_view text) noexcept {
  const std::string_view registry = registry_of(text);
  if (registry.empty() || registry.front() == '.') return false;
  return registry == "localhost" || registry.find('.') != std::string_view::npos ||
         registry.find(':') != std::string_view::npos;
}

RemoteReference parse_remote_reference(std::string_view text) {
  if (!names_registry(text)) {
    throw Error(
        ErrorCode::usage,
        fmt::format("{} names no registry; REGISTRY/REPOSITORY[:TAG][@sha256:DIGEST] is accepted, where REGISTRY "
                    "has a '.' or a port, or is localhost",
                    in_quotes(text)));
  }
  RemoteReference reference;
  std::string_view name = text;
  if (const std::size_t at = text.find('@'); at != std::string_view::npos) {
    const std::string_view digest = text.substr(at);
    if (!digest.starts_with(digest_mark) || !is_digest(digest.substr(digest_mark.size()))) {
      throw Error(ErrorCode::usage, fmt::format("{} has no digest after '@'; sha256: and 64 hexadecimal digits are "
                                                "accepted",
                                                in_quotes(text)));
    }
    reference.digest = digest.substr(digest_mark.size());
    name = text.substr(0, at);
  }
  const Reference local = parse_reference(name);
  const std::size_t slash = local.name.find('/');
  reference.registry = local.name.substr(0, slash);
  reference.repository = local.name.substr(slash + 1);
  const bool has_tag = name.find(':', name.rfind('/')) != std::string_view::npos;
  if (has_tag || reference.digest.empty()) reference.tag = local.tag;
  return reference;
}

std::string_view host_of(std::string_view registry) noexcept {
  return registry.substr(0, registry.find(':'));
}

bool is_loopback(std::string_view registry) noexcept {
  return registry::is_loopback(host_of(registry));
}

std::string api_host(std::string_view registry) {
  return registry == "docker.io" || registry == "index.docker.io" ? "registry-1.docker.io" : std::string(registry);
}

}  // namespace gpux::oci

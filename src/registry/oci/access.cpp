#include "registry/oci/access.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/format_message.h"
#include "base/in_quotes.h"
#include "gpux/error.h"
#include "registry/http/url.h"
#include "registry/oci/docker_config.h"

namespace gpux::oci {
namespace {

namespace fs = std::filesystem;

void require_host(const std::string& host) {
  try {
    if (registry::parse_url("https://" + host + "/").authority() == host) return;
  } catch (const Error&) {
  }
  throw Error(ErrorCode::usage, format_message("{} {} is no host; HOST or HOST:PORT is accepted, in lower case",
                                               setting_named("insecure"), in_quotes(host)));
}

fs::path the_only(fs::path& place, const fs::path& found) {
  if (place.empty()) return found;
  throw Error(ErrorCode::invalid_config,
              fmt::format("the folder {} has both {} and {}; gpux uses one file of a kind: put "
                          "authorities into one file",
                          in_quotes(found.parent_path().string()), in_quotes(place.filename().string()),
                          in_quotes(found.filename().string())));
}

}  // namespace

std::vector<fs::path> certificate_folders() {
  return {DockerConfig::default_file().parent_path() / "certs.d", "/etc/docker/certs.d", "/etc/containers/certs.d"};
}

registry::TlsFiles certificates_of(const std::string& host, std::span<const fs::path> folders) {
  // It is a part of a path.
  if (host.find('/') != std::string::npos || host.starts_with('.')) return {};
  for (const fs::path& folder : folders) {
    registry::TlsFiles files;
    std::vector<fs::path> names;
    std::error_code error;
    for (fs::directory_iterator i(folder / host, error), end; !error && i != end; i.increment(error)) {
      names.push_back(i->path());
    }
    if (names.empty()) continue;
    std::sort(names.begin(), names.end());
    for (const fs::path& name : names) {
      if (name.extension() == ".crt") files.ca_file = the_only(files.ca_file, name);
      if (name.extension() == ".cert") files.certificate = the_only(files.certificate, name);
      if (name.extension() == ".key") files.key = the_only(files.key, name);
    }
    if (files.certificate.empty() != files.key.empty()) {
      throw Error(ErrorCode::invalid_config,
                  fmt::format("the folder {} has only one of a certificate (*.cert) and its key "
                              "(*.key)",
                              in_quotes((folder / host).string())));
    }
    return files;
  }
  return {};
}

registry::ClientOptions client_options(const Access& access, std::function<void(const std::string&)> on_note) {
  for (const std::string& host : access.insecure_hosts) require_host(host);
  registry::ClientOptions options;
  options.ca_file = access.ca_file;
  options.insecure_hosts = access.insecure_hosts;
  options.only_public_and = access.only_public_and;
  options.tls_files_of = [folders = certificate_folders()](const std::string& host) {
    return certificates_of(host, folders);
  };
  if (on_note) {
    options.on_retry = [on_note = std::move(on_note)](const std::string& reason, std::chrono::milliseconds delay) {
      on_note(fmt::format("{}; again in {:.1f} s", reason, static_cast<double>(delay.count()) / 1000));
    };
  }
  return options;
}

}  // namespace gpux::oci

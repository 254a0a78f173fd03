#include "cli/registry_flags.h"

#include <CLI/App.hpp>

namespace gpux::cli {

oci::Access RegistryFlags::access() const {
  return {ca_file, {insecure.begin(), insecure.end()}};
}

void add_registry_flags(CLI::App& command, RegistryFlags& flags) {
  command.add_option("--ca-file", flags.ca_file,
                     "certificates of authorities that are trusted instead of the system's: a PEM file or a folder "
                     "(default: CURL_CA_BUNDLE, SSL_CERT_FILE)");
  command
      .add_option("--insecure", flags.insecure,
                  "HOST or HOST:PORT whose certificate is not checked, and that may answer over plain HTTP; may be "
                  "repeated")
      ->allow_extra_args(false);
}

}  // namespace gpux::cli

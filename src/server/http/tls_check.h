#pragma once

#include <filesystem>

namespace gpux::http {

/// Checks a certificate and its key, and the certificates that clients need one of, unless that is empty. Error
/// invalid_config if the PEM files are missing, unusable or do not belong together.
void check_tls_files(const std::filesystem::path& certificate, const std::filesystem::path& key,
                     const std::filesystem::path& client_ca = {});

}  // namespace gpux::http

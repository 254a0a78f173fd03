#pragma once

#include <filesystem>

namespace gpux::http {

/// Error invalid_config where the PEM files are missing, unusable or do not belong together.
void check_tls_files(const std::filesystem::path& certificate, const std::filesystem::path& key);

}  // namespace gpux::http

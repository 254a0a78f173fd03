#pragma once

#include <filesystem>
#include <string>

namespace gpux::test {

/// Writes a certificate for `name`, signed by itself and good for an hour, and its key. Both are PEM.
void write_certificate(const std::string& name, const std::filesystem::path& certificate,
                       const std::filesystem::path& key);

/// The same, signed by the certificate of `issuer` with its key.
void write_certificate(const std::string& name, const std::filesystem::path& certificate,
                       const std::filesystem::path& key, const std::filesystem::path& issuer,
                       const std::filesystem::path& issuer_key);

}  // namespace gpux::test

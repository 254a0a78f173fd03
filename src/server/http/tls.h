#pragma once

#include <array>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include <boost/asio/ssl/context.hpp>

#include "base/changing_files.h"

namespace gpux::http {

/// A certificate and its key, and those that clients need, read again when the files change. For one thread.
class TlsFiles {
 public:
  /// Loads certificate and key, and the certificates of which clients need one; `client_ca` empty: they need none.
  /// Error invalid_config if the files are missing or do not belong together.
  TlsFiles(std::filesystem::path certificate, std::filesystem::path key, std::filesystem::path client_ca = {});

  /// For the next connection. Looks at the files once a second; what cannot be used is logged once for each reason and
  /// tried again, and the last good pair is kept.
  std::shared_ptr<boost::asio::ssl::context> current();

 private:
  using Stamps = std::array<FileStamp, 3>;

  [[nodiscard]] Stamps stamps() const;
  [[nodiscard]] std::shared_ptr<boost::asio::ssl::context> read() const;

  std::filesystem::path certificate_;
  std::filesystem::path key_;
  std::filesystem::path client_ca_;
  Stamps stamps_;        // of what is in use
  std::string problem_;  // why the files could not be used the last time; empty: they could
  std::chrono::steady_clock::time_point looked_;
  std::shared_ptr<boost::asio::ssl::context> context_;
};

/// Common name of the certificate that the client has sent, which was verified: as it is there, and empty where there
/// is none in it. Null where the client sent no certificate.
std::shared_ptr<const std::string> client_name(SSL* connection);

}  // namespace gpux::http

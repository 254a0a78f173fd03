#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include <boost/asio/ssl/context.hpp>
#include <sys/stat.h>

namespace gpux::http {

/// A certificate and its key, and those that clients need, read again when the files change. For one thread.
class TlsFiles {
 public:
  /// Loads certificate and key, and the certificates of which clients need one; `client_ca` empty: they need none.
  /// Error invalid_config if the files are missing or do not belong together.
  TlsFiles(std::filesystem::path certificate, std::filesystem::path key, std::filesystem::path client_ca = {});

  /// For the next connection. Looks at the files once a second; what cannot be used is logged, and the last good pair
  /// is kept.
  std::shared_ptr<boost::asio::ssl::context> current();

 private:
  struct Stamp {
    timespec certificate{};
    timespec key{};
    timespec client_ca{};
    bool operator==(const Stamp& other) const noexcept;
  };

  [[nodiscard]] Stamp stamp() const noexcept;
  [[nodiscard]] std::shared_ptr<boost::asio::ssl::context> read() const;

  std::filesystem::path certificate_;
  std::filesystem::path key_;
  std::filesystem::path client_ca_;
  Stamp stamp_;
  std::chrono::steady_clock::time_point looked_;
  std::shared_ptr<boost::asio::ssl::context> context_;
};

/// Common name of the certificate that the client has sent, which was verified; null where it sent none, or the name
/// has control characters.
std::shared_ptr<const std::string> client_name(SSL* connection);

}  // namespace gpux::http

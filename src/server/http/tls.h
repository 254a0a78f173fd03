#pragma once

#include <chrono>
#include <filesystem>
#include <memory>

#include <boost/asio/ssl/context.hpp>
#include <sys/stat.h>

namespace gpux::http {

/// A certificate and its key, read again when the files change. For one thread.
class TlsFiles {
 public:
  /// Loads certificate and key. Error invalid_config if the files are missing or do not belong together.
  TlsFiles(std::filesystem::path certificate, std::filesystem::path key);

  /// For the next connection. Looks at the files once a second; what cannot be used is logged, and the last good pair
  /// is kept.
  std::shared_ptr<boost::asio::ssl::context> current();

 private:
  struct Stamp {
    timespec certificate{};
    timespec key{};
    bool operator==(const Stamp& other) const noexcept;
  };

  [[nodiscard]] Stamp stamp() const noexcept;
  [[nodiscard]] std::shared_ptr<boost::asio::ssl::context> read() const;

  std::filesystem::path certificate_;
  std::filesystem::path key_;
  Stamp stamp_;
  std::chrono::steady_clock::time_point looked_;
  std::shared_ptr<boost::asio::ssl::context> context_;
};

}  // namespace gpux::http

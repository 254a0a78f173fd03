#include "server/http/tls.h"

#include <utility>

#include <fmt/format.h>

#include "base/format_message.h"
#include "base/log.h"
#include "gpux/error.h"
#include "server/http/tls_check.h"

namespace gpux::http {

namespace {

namespace ssl = boost::asio::ssl;

constexpr std::chrono::seconds look_interval{1};

timespec changed(const std::filesystem::path& path) noexcept {
  struct stat facts {};

  return ::stat(path.c_str(), &facts) == 0 ? facts.st_mtim : timespec{};
}

bool same(const timespec& left, const timespec& right) noexcept {
  return left.tv_sec == right.tv_sec && left.tv_nsec == right.tv_nsec;
}

}  // namespace

bool TlsFiles::Stamp::operator==(const Stamp& other) const noexcept {
  return same(certificate, other.certificate) && same(key, other.key);
}

TlsFiles::TlsFiles(std::filesystem::path certificate, std::filesystem::path key)
    : certificate_(std::move(certificate)),
      key_(std::move(key)),
      stamp_(stamp()),
      looked_(std::chrono::steady_clock::now()),
      context_(read()) {}

TlsFiles::Stamp TlsFiles::stamp() const noexcept {
  return {changed(certificate_), changed(key_)};
}

std::shared_ptr<ssl::context> TlsFiles::read() const {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  boost::system::error_code error;
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  SSL_CTX_set_mode(context->native_handle(), SSL_MODE_RELEASE_BUFFERS);
  // Without this a prompt on the terminal would ask for an encrypted key's password.
  context->set_password_callback([](std::size_t, ssl::context::password_purpose) { return std::string(); }, error);
  context->use_certificate_chain_file(certificate_.string(), error);
  if (error) {
    throw Error(ErrorCode::invalid_config,
                format_message("cannot use '{}' as a TLS certificate (a PEM file is expected): {}",
                               file_at(certificate_), error.message()));
  }
  context->use_private_key_file(key_.string(), ssl::context::pem, error);
  if (error) {
    throw Error(
        ErrorCode::invalid_config,
        format_message("cannot use '{}' as the key of TLS certificate '{}' (an unencrypted PEM file is expected): {}",
                       file_at(key_), file_at(certificate_), error.message()));
  }
  return context;
}

std::shared_ptr<ssl::context> TlsFiles::current() {
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_ < look_interval) return context_;
  looked_ = now;
  const Stamp present = stamp();
  if (present == stamp_) return context_;
  stamp_ = present;
  try {
    context_ = read();
    log::info("the TLS certificate was read again from '{}'", certificate_.string());
  } catch (const std::exception& error) {
    log::warning("keeping the last valid TLS certificate: {}", error.what());
  }
  return context_;
}

void check_tls_files(const std::filesystem::path& certificate, const std::filesystem::path& key) {
  const TlsFiles files(certificate, key);
}

}  // namespace gpux::http

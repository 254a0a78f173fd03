#include "server/http/tls.h"

#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/x509.h>

#include "base/format_message.h"
#include "base/log.h"
#include "gpux/error.h"
#include "server/http/tls_check.h"

namespace gpux::http {

namespace {

namespace ssl = boost::asio::ssl;

constexpr std::chrono::seconds look_interval{1};

}  // namespace

TlsFiles::TlsFiles(std::filesystem::path certificate, std::filesystem::path key, std::filesystem::path client_ca)
    : certificate_(std::move(certificate)),
      key_(std::move(key)),
      client_ca_(std::move(client_ca)),
      stamps_(stamps()),
      looked_(std::chrono::steady_clock::now()),
      context_(read()) {}

TlsFiles::Stamps TlsFiles::stamps() const {
  return {stamp_of(certificate_), stamp_of(key_), client_ca_.empty() ? FileStamp() : stamp_of(client_ca_)};
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
  if (client_ca_.empty()) return context;
  // Its names go to clients, so that they choose a certificate that is accepted.
  STACK_OF(X509_NAME)* names = SSL_load_client_CA_file(client_ca_.c_str());
  if (names != nullptr) context->load_verify_file(client_ca_.string(), error);
  if (names == nullptr || error) {
    sk_X509_NAME_pop_free(names, X509_NAME_free);
    ERR_clear_error();
    throw Error(ErrorCode::invalid_config,
                format_message("cannot use '{}' as the certificates of which clients need one (a PEM file is expected)",
                               file_at(client_ca_)));
  }
  SSL_CTX_set_client_CA_list(context->native_handle(), names);
  context->set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert, error);
  // Sessions that are resumed are verified by whom they were begun for.
  constexpr std::string_view session_context = "gpux";
  SSL_CTX_set_session_id_context(
      context->native_handle(), reinterpret_cast<const unsigned char*>(session_context.data()), session_context.size());
  return context;
}

std::shared_ptr<ssl::context> TlsFiles::current() {
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_ < look_interval) return context_;
  looked_ = now;
  const Stamps present = stamps();
  if (present == stamps_) return context_;
  try {
    context_ = read();
    stamps_ = present;
    problem_.clear();
    log::info("the TLS certificate was read again from '{}'", certificate_.string());
  } catch (const std::exception& error) {
    // Tried again at the next look: they may not have been readable for a moment.
    if (problem_ != error.what()) log::warning("keeping the last valid TLS certificate: {}", error.what());
    problem_ = error.what();
  }
  return context_;
}

std::shared_ptr<const std::string> client_name(SSL* connection) {
  X509* certificate = SSL_get1_peer_certificate(connection);
  if (certificate == nullptr) return nullptr;
  std::string name;
  X509_NAME* subject = X509_get_subject_name(certificate);
  const int place = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (place >= 0) {
    unsigned char* text = nullptr;
    const int length = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, place)));
    if (length > 0) name.assign(reinterpret_cast<const char*>(text), static_cast<std::size_t>(length));
    OPENSSL_free(text);
  }
  X509_free(certificate);
  return std::make_shared<const std::string>(std::move(name));
}

void check_tls_files(const std::filesystem::path& certificate, const std::filesystem::path& key,
                     const std::filesystem::path& client_ca) {
  const TlsFiles files(certificate, key, client_ca);
}

}  // namespace gpux::http

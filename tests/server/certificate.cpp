#include "server/certificate.h"

#include <cstdio>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

namespace gpux::test {

namespace {

// `issuer` null: signed by itself.
void write_signed(const std::string& name, const std::filesystem::path& certificate, const std::filesystem::path& key,
                  X509* issuer, EVP_PKEY* issuer_key) {
  EVP_PKEY* pair = EVP_EC_gen("P-256");
  X509* x509 = X509_new();
  ASN1_INTEGER_set(X509_get_serialNumber(x509), issuer == nullptr ? 1 : 2);
  X509_gmtime_adj(X509_getm_notBefore(x509), 0);
  X509_gmtime_adj(X509_getm_notAfter(x509), 3600);
  X509_set_pubkey(x509, pair);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(x509), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(x509, X509_get_subject_name(issuer == nullptr ? x509 : issuer));
  X509_sign(x509, issuer == nullptr ? pair : issuer_key, EVP_sha256());
  if (FILE* file = std::fopen(certificate.c_str(), "w")) {
    PEM_write_X509(file, x509);
    std::fclose(file);
  }
  if (FILE* file = std::fopen(key.c_str(), "w")) {
    PEM_write_PrivateKey(file, pair, nullptr, nullptr, 0, nullptr, nullptr);
    std::fclose(file);
  }
  X509_free(x509);
  EVP_PKEY_free(pair);
}

}  // namespace

void write_certificate(const std::string& name, const std::filesystem::path& certificate,
                       const std::filesystem::path& key) {
  write_signed(name, certificate, key, nullptr, nullptr);
}

void write_certificate(const std::string& name, const std::filesystem::path& certificate,
                       const std::filesystem::path& key, const std::filesystem::path& issuer,
                       const std::filesystem::path& issuer_key) {
  X509* signer = nullptr;
  EVP_PKEY* signing_key = nullptr;
  if (FILE* file = std::fopen(issuer.c_str(), "r")) {
    signer = PEM_read_X509(file, nullptr, nullptr, nullptr);
    std::fclose(file);
  }
  if (FILE* file = std::fopen(issuer_key.c_str(), "r")) {
    signing_key = PEM_read_PrivateKey(file, nullptr, nullptr, nullptr);
    std::fclose(file);
  }
  write_signed(name, certificate, key, signer, signing_key);
  X509_free(signer);
  EVP_PKEY_free(signing_key);
}

}  // namespace gpux::test

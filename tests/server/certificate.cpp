#include "server/certificate.h"

#include <cstdio>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

namespace gpux::test {

void write_certificate(const std::string& name, const std::filesystem::path& certificate,
                       const std::filesystem::path& key) {
  EVP_PKEY* pair = EVP_EC_gen("P-256");
  X509* x509 = X509_new();
  ASN1_INTEGER_set(X509_get_serialNumber(x509), 1);
  X509_gmtime_adj(X509_getm_notBefore(x509), 0);
  X509_gmtime_adj(X509_getm_notAfter(x509), 3600);
  X509_set_pubkey(x509, pair);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(x509), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(x509, X509_get_subject_name(x509));
  X509_sign(x509, pair, EVP_sha256());
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

}  // namespace gpux::test

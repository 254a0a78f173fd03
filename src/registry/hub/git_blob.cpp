#include "registry/hub/git_blob.h"

#include <array>
#include <memory>

#include <fmt/format.h>
#include <openssl/evp.h>

#include "base/files.h"
#include "gpux/error.h"

namespace gpux::registry {

std::string git_blob_id_of_file(const std::filesystem::path& file) {
  const MappedFile content(file);
  const std::string head = fmt::format("blob {}", content.bytes().size());
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  const bool is_computed = context && EVP_DigestInit_ex(context.get(), EVP_sha1(), nullptr) == 1 &&
                           EVP_DigestUpdate(context.get(), head.c_str(), head.size() + 1) == 1 &&
                           EVP_DigestUpdate(context.get(), content.bytes().data(), content.bytes().size()) == 1 &&
                           EVP_DigestFinal_ex(context.get(), digest.data(), &size) == 1;
  if (!is_computed) throw Error(ErrorCode::internal, "OpenSSL has no SHA-1");
  std::string text;
  for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", digest.at(i));
  return text;
}

}  // namespace gpux::registry

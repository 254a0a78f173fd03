#include "base/sha256.h"

#include <array>
#include <cerrno>
#include <fstream>
#include <vector>

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/files.h"
#include "gpux/error.h"

namespace gpux {

namespace {

std::string hexadecimal(std::span<const unsigned char> digest) {
  std::string text;
  text.reserve(2 * digest.size());
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();

  State() {
    if (context == nullptr || EVP_DigestInit_ex(context, EVP_sha256(), nullptr) != 1) {
      throw Error(ErrorCode::internal, "OpenSSL has no SHA-256");
    }
  }

  ~State() { EVP_MD_CTX_free(context); }

  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}

Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) {
  EVP_DigestUpdate(state_->context, bytes.data(), bytes.size());
}

std::string Sha256::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  EVP_DigestFinal_ex(state_->context, digest.data(), &length);
  return hexadecimal(std::span(digest).first(length));
}

bool is_sha256(std::string_view text) noexcept {
  constexpr std::size_t digits = 64;
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string sha256_of(std::string_view bytes) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(bytes)));
  return hash.hex();
}

std::string hmac_sha256_of(std::string_view key, std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(bytes.data()),
           bytes.size(), digest.data(), &length) == nullptr) {
    throw Error(ErrorCode::internal, "OpenSSL has no HMAC-SHA-256");
  }
  return hexadecimal(std::span(digest).first(length));
}

std::string sha256_of_file(const std::filesystem::path& path, const std::stop_token& stop) {
  // Mapped only to be refused with the right words: the content is read, since a file that shrinks meanwhile would
  // kill whoever touches its mapping.
  static_cast<void>(MappedFile(path));
  std::ifstream stream(path, std::ios::binary);
  std::vector<char> piece(std::size_t{1} << 20);
  Sha256 hash;
  do {
    if (stop.stop_requested()) return {};
    stream.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    hash.update(std::as_bytes(std::span(piece).first(static_cast<std::size_t>(stream.gcount()))));
  } while (stream);
  if (!stream.eof()) throw_file_error("read", path, EIO);
  return hash.hex();
}

}  // namespace gpux

#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

namespace gpux {

/// SHA-256 (FIPS 180-4) of bytes given piece by piece.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::span<const std::byte> bytes);
  /// 64 lower-case hexadecimal digits. Ends the computation.
  [[nodiscard]] std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Whether the text is as sha256_of() gives it: 64 lower-case hexadecimal digits.
bool is_sha256(std::string_view text) noexcept;

std::string sha256_of(std::string_view bytes);
/// HMAC-SHA-256 (RFC 2104), likewise: without the key, nobody can find out which bytes it is of.
std::string hmac_sha256_of(std::string_view key, std::string_view bytes);
/// SHA-256 of a file in hexadecimal digits; empty if stopped before the end. Errors as MappedFile.
std::string sha256_of_file(const std::filesystem::path& path, const std::stop_token& stop = {});

}  // namespace gpux

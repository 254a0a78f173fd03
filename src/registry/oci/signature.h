#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gpux/error.h"
#include "registry/oci/manifest.h"

namespace gpux::oci {

// Signatures of packages in cosign's format: a payload that names the digest of a manifest ("simple signing"), signed
// with ECDSA P-256 and SHA-256, in an image manifest under the tag "sha256-DIGEST.sig".

inline constexpr const char* signature_layer_type = "application/vnd.dev.cosign.simplesigning.v1+json";
inline constexpr const char* signature_annotation = "dev.cosignproject.cosign/signature";
inline constexpr const char* signature_artifact_type = "application/vnd.dev.cosign.artifact.sig.v1+json";
inline constexpr std::uint64_t limit_payload_bytes = std::uint64_t{1} << 20;

class VerifyingKey;

/// A private key, to sign with.
class SigningKey {
 public:
  /// A PEM file: PKCS #8 or SEC 1, on the curve P-256, not encrypted. Errors invalid_input (which names what was
  /// found), not_found, permission.
  static SigningKey read(const std::filesystem::path& file);
  static SigningKey parse(const std::string& pem, const std::string& name);
  ~SigningKey();
  SigningKey(SigningKey&&) noexcept;
  SigningKey& operator=(SigningKey&&) noexcept;

  /// The signature in DER, as base64.
  [[nodiscard]] std::string sign(std::string_view payload) const;

  [[nodiscard]] VerifyingKey public_key() const;

 private:
  struct State;
  explicit SigningKey(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// A public key, to verify with.
class VerifyingKey {
 public:
  /// A PEM file with a public key on the curve P-256. Errors as SigningKey::read().
  static VerifyingKey read(const std::filesystem::path& file);
  static VerifyingKey parse(const std::string& pem, const Message& name);
  ~VerifyingKey();
  VerifyingKey(VerifyingKey&&) noexcept;
  VerifyingKey& operator=(VerifyingKey&&) noexcept;

  /// Whether the base64 of a DER signature is this key's for the payload. False for anything malformed.
  [[nodiscard]] bool verifies(std::string_view payload, std::string_view signature) const;

 private:
  friend class SigningKey;
  struct State;
  explicit VerifyingKey(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// The payload for a manifest: the same arguments give the same text.
std::string encode_payload(const std::string& repository, const std::string& digest);

/// The digest that a payload names, 64 hexadecimal digits; empty if it is no payload of a container signature.
std::string digest_of_payload(std::string_view json);

/// The tag of the signatures of a manifest.
std::string signature_tag(const std::string& digest);

/// Config object of a signature manifest, as cosign writes it: an image configuration with the digests of the payloads.
std::string encode_signature_config(const std::vector<Descriptor>& layers);

/// The manifest of signatures. `subject` is the signed manifest.
std::string encode_signature_manifest(const Descriptor& config, const std::vector<Descriptor>& layers,
                                      const Descriptor& subject);

}  // namespace gpux::oci

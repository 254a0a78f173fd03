#include "registry/oci/signature.h"

#include <gtest/gtest.h>

#include "gpux/error.h"

namespace gpux::oci {
namespace {

// Made with openssl for this test.
constexpr const char* private_pem = R"(-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgE0jP+BUiDhou7I46
sxycPEuZZBL62mReP2AGm2C8gpehRANCAATvX35UuKAem9yVtOBVtGq4+Tnq4BeP
+V+ieA9SbaKomN3u7R4+FKmF0vzahMBMe8UGv9MiKcmMt1r4JfL2Mwwb
-----END PRIVATE KEY-----
)";
constexpr const char* public_pem = R"(-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE719+VLigHpvclbTgVbRquPk56uAX
j/lfongPUm2iqJjd7u0ePhSphdL82oTATHvFBr/TIinJjLda+CXy9jMMGw==
-----END PUBLIC KEY-----
)";
constexpr const char* other_public_pem = R"(-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEiFo8WHrrfKnx3uPvgeBS3G27/OtN
PA6l1sAjo26Nw/+Zm+bogsCozuTX8kY1RtWFfI+iX5lo6cLuhujPGENT1A==
-----END PUBLIC KEY-----
)";
// By `openssl dgst -sha256 -sign` of "payload".
constexpr const char* signature_by_openssl =
    "MEQCIF9BXCyJTKZ8CaQwwR064qO+chzqVrE6iEN2M62hWZERAiAudPC57924ViskdR7HYruptGPgAU+itpVSTt54c4fmsg==";

TEST(Signature, OwnSignaturesVerify) {
  const SigningKey key = SigningKey::parse(private_pem, "key");
  const VerifyingKey own = VerifyingKey::parse(public_pem, {"key"});
  const VerifyingKey other = VerifyingKey::parse(other_public_pem, {"key"});
  const std::string signature = key.sign("payload");
  EXPECT_TRUE(own.verifies("payload", signature));
  EXPECT_TRUE(key.public_key().verifies("payload", signature));
  EXPECT_FALSE(own.verifies("payloaD", signature));
  EXPECT_FALSE(other.verifies("payload", signature));
  EXPECT_FALSE(own.verifies("payload", "AAAA"));
  EXPECT_FALSE(own.verifies("payload", "not base64"));
  EXPECT_FALSE(own.verifies("payload", ""));
}

TEST(Signature, OpensslsSignatureVerifies) {
  EXPECT_TRUE(VerifyingKey::parse(public_pem, {"key"}).verifies("payload", signature_by_openssl));
}

TEST(Signature, OtherKeysAreRefused) {
  EXPECT_THROW(SigningKey::parse("x", "key"), Error);
  EXPECT_THROW(SigningKey::parse(public_pem, "key"), Error);
  EXPECT_THROW(VerifyingKey::parse(private_pem, {"key"}), Error);
  try {
    (void)SigningKey::parse(
        "-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\neA==\n-----END ENCRYPTED SIGSTORE PRIVATE "
        "KEY-----\n",
        "key");
    FAIL() << "an encrypted key was taken";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("encrypted"), std::string::npos) << error.message();
    EXPECT_NE(error.message().find("cosign import-key-pair"), std::string::npos) << error.message();
    EXPECT_EQ(error.code(), ErrorCode::invalid_input);
  }
}

TEST(Signature, PayloadsNameAManifest) {
  const std::string digest(64, 'a');
  EXPECT_EQ(encode_payload("h.io/a", digest),
            R"({"critical":{"identity":{"docker-reference":"h.io/a"},"image":{"docker-manifest-digest":"sha256:)" +
                digest + R"("},"type":"cosign container image signature"},"optional":null})");
  EXPECT_EQ(digest_of_payload(encode_payload("h.io/a", digest)), digest);
  EXPECT_EQ(digest_of_payload("{}"), "");
  EXPECT_EQ(digest_of_payload("["), "");
  EXPECT_EQ(digest_of_payload(R"({"critical":{"image":{"docker-manifest-digest":"sha256:)" + digest +
                              R"("},"type":"another"}})"),
            "");
  EXPECT_EQ(signature_tag(digest), "sha256-" + digest + ".sig");
}

}  // namespace
}  // namespace gpux::oci

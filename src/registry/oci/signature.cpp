#include "registry/oci/signature.h"

#include <array>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include "base/base64.h"
#include "base/bounded_json.h"
#include "base/files.h"
#include "base/format_message.h"
#include "base/in_quotes.h"
#include "gpux/error.h"

namespace gpux::oci {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* payload_type = "cosign container image signature";
constexpr std::uint64_t limit_key_bytes = 65536;

struct FreeKey {
  void operator()(EVP_PKEY* key) const noexcept { EVP_PKEY_free(key); }
};

struct FreeBio {
  void operator()(BIO* bio) const noexcept { BIO_free(bio); }
};

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const noexcept { EVP_MD_CTX_free(context); }
};

using Key = std::unique_ptr<EVP_PKEY, FreeKey>;
using Bio = std::unique_ptr<BIO, FreeBio>;
using Context = std::unique_ptr<EVP_MD_CTX, FreeContext>;

// Without it OpenSSL would ask on the terminal.
int no_password(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*data*/) {
  return -1;
}

Error refusal(const Message& name, std::string_view found, std::string_view accepted) {
  return {ErrorCode::invalid_input, format_message("{} cannot be used as a key: {}; {}", name, found, accepted)};
}

bool is_p256(EVP_PKEY* key) {
  if (EVP_PKEY_is_a(key, "EC") != 1) return false;
  std::array<char, 64> group{};
  std::size_t length = 0;
  if (EVP_PKEY_get_utf8_string_param(key, OSSL_PKEY_PARAM_GROUP_NAME, group.data(), group.size(), &length) != 1) {
    return false;
  }
  const std::string_view curve(group.data(), length);
  return curve == "prime256v1" || curve == "P-256" || curve == "secp256r1";
}

Bio bio_of(const std::string& pem) {
  return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

/// "EC PRIVATE KEY": what the first block of the PEM text is said to be.
std::string label_of(const std::string& pem) {
  constexpr std::string_view begin = "-----BEGIN ";
  const std::size_t start = pem.find(begin);
  if (start == std::string::npos) return {};
  const std::size_t end = pem.find("-----", start + begin.size());
  if (end == std::string::npos) return {};
  return pem.substr(start + begin.size(), end - start - begin.size());
}

Json json_of(const Descriptor& descriptor) {
  Json json{{"mediaType", descriptor.media_type},
            {"digest", "sha256:" + descriptor.blob.digest},
            {"size", descriptor.blob.bytes}};
  if (!descriptor.artifact_type.empty()) json["artifactType"] = descriptor.artifact_type;
  if (!descriptor.annotations.empty()) json["annotations"] = descriptor.annotations;
  return json;
}

std::string read_pem(const std::filesystem::path& file) {
  return read_file(file, limit_key_bytes);
}

}  // namespace

struct SigningKey::State {
  Key key;
};

struct VerifyingKey::State {
  Key key;
};

SigningKey::SigningKey(std::unique_ptr<State> state) : state_(std::move(state)) {}

SigningKey::~SigningKey() = default;
SigningKey::SigningKey(SigningKey&&) noexcept = default;
SigningKey& SigningKey::operator=(SigningKey&&) noexcept = default;

VerifyingKey::VerifyingKey(std::unique_ptr<State> state) : state_(std::move(state)) {}

VerifyingKey::~VerifyingKey() = default;
VerifyingKey::VerifyingKey(VerifyingKey&&) noexcept = default;
VerifyingKey& VerifyingKey::operator=(VerifyingKey&&) noexcept = default;

SigningKey SigningKey::read(const std::filesystem::path& file) {
  return parse(read_pem(file), {in_quotes(file.string())});
}

SigningKey SigningKey::parse(const std::string& pem, const std::string& name) {
  constexpr std::string_view accepted =
      "a private key in PEM on the curve P-256 is accepted, not encrypted ('openssl genpkey -algorithm EC -pkeyopt "
      "ec_paramgen_curve:P-256' makes one)";
  const std::string label = label_of(pem);
  if (label.empty()) throw refusal({name}, "it is not PEM", accepted);
  if (label.find("ENCRYPTED") != std::string::npos || pem.find("Proc-Type: 4,ENCRYPTED") != std::string::npos) {
    // cosign's own format is decrypted by cosign alone, which does not give the key out.
    const bool is_of_cosign = label.find("COSIGN") != std::string::npos || label.find("SIGSTORE") != std::string::npos;
    throw refusal({name},
                  fmt::format("it is encrypted ({}); {}", label,
                              is_of_cosign ? "cosign does not give such a key out, and 'cosign import-key-pair' takes "
                                             "one that openssl made"
                                           : "'openssl pkey -in KEY -out NEW' decrypts it"),
                  accepted);
  }
  auto state = std::make_unique<State>();
  state->key.reset(PEM_read_bio_PrivateKey(bio_of(pem).get(), nullptr, no_password, nullptr));
  if (!state->key) throw refusal({name}, fmt::format("it has no private key ({})", in_quotes(label)), accepted);
  if (!is_p256(state->key.get())) throw refusal({name}, "it has another type", accepted);
  return SigningKey(std::move(state));
}

std::string SigningKey::sign(std::string_view payload) const {
  const Context context(EVP_MD_CTX_new());
  std::size_t size = 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(payload.data());
  bool done = context && EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, state_->key.get()) == 1 &&
              EVP_DigestSign(context.get(), nullptr, &size, bytes, payload.size()) == 1;
  std::vector<std::byte> signature(size);
  done = done && EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size, bytes,
                                payload.size()) == 1;
  if (!done) throw Error(ErrorCode::internal, "OpenSSL cannot sign with the key");
  signature.resize(size);
  return to_base64(signature);
}

VerifyingKey SigningKey::public_key() const {
  auto state = std::make_unique<VerifyingKey::State>();
  EVP_PKEY_up_ref(state_->key.get());
  state->key.reset(state_->key.get());
  return VerifyingKey(std::move(state));
}

VerifyingKey VerifyingKey::read(const std::filesystem::path& file) {
  return parse(read_pem(file), {in_quotes(file.string())});
}

VerifyingKey VerifyingKey::parse(const std::string& pem, const Message& name) {
  constexpr std::string_view accepted = "a public key in PEM on the curve P-256 is accepted";
  const std::string label = label_of(pem);
  if (label.empty()) throw refusal(name, "it is not PEM", accepted);
  auto state = std::make_unique<State>();
  state->key.reset(PEM_read_bio_PUBKEY(bio_of(pem).get(), nullptr, no_password, nullptr));
  if (!state->key) throw refusal(name, fmt::format("it has no public key ({})", in_quotes(label)), accepted);
  if (!is_p256(state->key.get())) throw refusal(name, "it has another type", accepted);
  return VerifyingKey(std::move(state));
}

bool VerifyingKey::verifies(std::string_view payload, std::string_view signature) const {
  const std::optional<std::vector<std::byte>> bytes = from_base64(signature);
  const Context context(EVP_MD_CTX_new());
  if (!bytes || !context) return false;
  return EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr, state_->key.get()) == 1 &&
         EVP_DigestVerify(context.get(), reinterpret_cast<const unsigned char*>(bytes->data()), bytes->size(),
                          reinterpret_cast<const unsigned char*>(payload.data()), payload.size()) == 1;
}

std::string encode_payload(const std::string& repository, const std::string& digest) {
  return Json{{"critical",
               {{"identity", {{"docker-reference", repository}}},
                {"image", {{"docker-manifest-digest", "sha256:" + digest}}},
                {"type", payload_type}}},
              {"optional", nullptr}}
      .dump();
}

std::string digest_of_payload(std::string_view json) {
  try {
    const auto payload = parse_bounded_json(json);
    const auto& critical = payload.at("critical");
    const std::string digest = critical.at("image").at("docker-manifest-digest").get<std::string>();
    const bool is_signature = critical.at("type").get<std::string>() == payload_type;
    if (is_signature && digest.starts_with("sha256:") && is_digest(std::string_view(digest).substr(7))) {
      return digest.substr(7);
    }
  } catch (const nlohmann::json::exception&) {
  } catch (const Error&) {
  }
  return {};
}

std::string signature_tag(const std::string& digest) {
  return "sha256-" + digest + ".sig";
}

std::string encode_signature_config(const std::vector<Descriptor>& layers) {
  constexpr const char* no_time = "0001-01-01T00:00:00Z";
  Json digests = Json::array(), history = Json::array();
  for (const Descriptor& layer : layers) {
    digests.push_back("sha256:" + layer.blob.digest);
    history.push_back({{"created", no_time}});
  }
  return Json{{"architecture", ""},
              {"created", no_time},
              {"history", history},
              {"os", ""},
              {"rootfs", {{"type", "layers"}, {"diff_ids", digests}}},
              {"config", Json::object()}}
      .dump();
}

std::string encode_signature_manifest(const Descriptor& config, const std::vector<Descriptor>& layers,
                                      const Descriptor& subject) {
  Json list = Json::array();
  for (const Descriptor& layer : layers) list.push_back(json_of(layer));
  return Json{{"schemaVersion", 2},
              {"mediaType", image_manifest_type},
              {"artifactType", signature_artifact_type},
              {"config", json_of(config)},
              {"layers", list},
              {"subject", json_of(subject)}}
      .dump();
}

}  // namespace gpux::oci

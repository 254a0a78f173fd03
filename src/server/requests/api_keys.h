#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace gpux::server {

/// A key as a file or a variable has it.
struct ApiKey {
  std::string name;  ///< empty: it has none
  std::string secret;

  bool operator==(const ApiKey&) const = default;
};

/// The keys of a file, one per line: KEY, or NAME=KEY with a name of up to 64 letters, digits, '.', '_', '@' and '-'.
/// What ends with '=' alone, as base64 does, is a key. Blank lines and lines that begin with '#' are skipped. Error
/// usage that names the file where there is none, one is shorter than 8 characters, or a name is one that gpux gives.
std::vector<ApiKey> keys_of_file(std::string_view text, const std::string& file);

/// The keys of an environment variable that is set: one per line as in a file, without comments. Error usage where it
/// is blank, or a key is shorter than 8 characters or begins with '#': a server without keys would serve everyone.
std::vector<ApiKey> keys_of_variable(std::string_view text, const std::string& variable);

/// Who has a key.
struct KeyHolder {
  /// As it was given; "key-1", "key-2" … in the order in which this process first saw the keys without one.
  std::string name;
  bool is_admin = false;  ///< may change models, too
};

/// What a request needs.
enum class KeyNeed : std::uint8_t {
  none,
  any,    ///< a key, where keys are required
  admin,  ///< the same, and an admin key where there are such
};

/// The keys of a server. Holds their digests and not the keys. Immutable, so all members from any thread.
class ApiKeys {
 public:
  /// No keys: everybody is served.
  ApiKeys() = default;

  /// `admin_keys` may do what `keys` may. Keys without a name that are in `before`, too, keep the name that they have
  /// there; no other key gets it. Error usage where a key has two names, or is among both.
  ApiKeys(std::span<const ApiKey> keys, std::span<const ApiKey> admin_keys, const ApiKeys* before = nullptr);

  /// The holder of the key that came as "Bearer KEY" in the field Authorization, or as it is in X-API-Key; null where
  /// none did. Its time does not depend on where a wrong key differs.
  [[nodiscard]] const KeyHolder* find(std::string_view authorization, std::string_view x_api_key) const;

  /// Whether requests need a key.
  [[nodiscard]] bool are_required() const noexcept { return is_required_; }

  /// Whether changes of models need one of the admin keys.
  [[nodiscard]] bool has_admin_keys() const noexcept { return has_admin_keys_; }

  [[nodiscard]] const std::set<std::string>& names() const noexcept { return names_; }

 private:
  void add(const ApiKey& key, bool is_admin, const ApiKeys* before);
  [[nodiscard]] const KeyHolder* find_digest(const std::string& digest) const;

  std::unordered_map<std::string, KeyHolder> holders_;  // by the digest of the key
  std::set<std::string> names_;
  std::uint64_t last_number_ = 0;  // of a key without a name
  bool is_required_ = false, has_admin_keys_ = false;
};

/// Why a request lacks a key.
struct KeyRefusal {
  bool is_known = false;  ///< it has a key, which may not do this: 403 and not 401
  std::string message;
};

/// Empty where the key that came, or none, is enough. Pure.
std::optional<KeyRefusal> key_refusal(const ApiKeys& keys, KeyNeed need, std::string_view authorization,
                                      std::string_view x_api_key);

}  // namespace gpux::server

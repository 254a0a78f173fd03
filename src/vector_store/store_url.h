#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gpux::vector_store {

/// The address of a collection of vectors, as users write it:
/// - "postgres://[USER[:PASSWORD]@][HOST[:PORT]][/DATABASE][?…]" or "postgresql://…": a URI of libpq, with the
///   parameters `collection=NAME` (default "gpux_vectors") and `index=hnsw` (default) or `index=none` beside libpq's;
/// - "qdrant://[:KEY@]HOST[:PORT]/COLLECTION[?tls=true]": port 6333 by default;
/// - "file:PATH" or "file:///PATH".
struct StoreUrl {
  enum class Kind : std::uint8_t { postgres, qdrant, file };

  Kind kind = Kind::file;
  std::string address =
      {};  ///< postgres: the URI without gpux's parameters; qdrant: "http://host:port"; file: the path
  std::string collection = {};  ///< empty for a file, which is one collection
  std::string key = {};         ///< qdrant: the API key; a secret
  std::string shown = {};       ///< for messages: without passwords, keys, and parameters but the collection
  bool has_index = true;        ///< postgres: an approximate index is made

  bool operator==(const StoreUrl&) const = default;
};

/// Whether the text begins as one of these addresses.
bool is_store_url(std::string_view text) noexcept;

/// Parses an address. Pure. Error usage, which quotes no password.
StoreUrl parse_store_url(std::string_view text);

/// Checks the name of a collection: 1 to 48 bytes of UTF-8 without control characters, none of gpux's own. The limit
/// leaves room for the names of indexes, of which PostgreSQL keeps 63 bytes. Error usage.
void check_collection_name(std::string_view name);

}  // namespace gpux::vector_store

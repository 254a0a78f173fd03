#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "gpux/collection.h"

namespace gpux::vector_store {

using gpux::CollectionFacts;

/// A sparse vector: `values[i]` at `indices[i]`, which rise.
struct SparseVector {
  std::vector<std::uint32_t> indices = {};
  std::vector<float> values = {};

  bool operator==(const SparseVector&) const = default;
};

/// A vector with what is stored beside it.
struct Point {
  std::string id = {};  ///< 64 lower-case hexadecimal digits; a point of the same id is replaced
  std::vector<float> vector = {};
  SparseVector sparse = {};  ///< empty where the collection has no sparse vectors
  std::string text = {};
  nlohmann::json payload = nlohmann::json::object();
};

/// The name of a distance: "cosine".
std::string_view name_of(Similarity distance) noexcept;
/// By its name; empty: no such.
std::optional<Similarity> distance_named(std::string_view name) noexcept;

/// Checks that vectors of the model `given` can be put into the collection `stored`, which `shown` names: digest,
/// dimensions, distance, normalization and prompt are the same. Precision may differ. Pure. Error invalid_input, which
/// names both.
void require_same_vectors(const CollectionFacts& stored, const CollectionFacts& given, std::string_view shown);

/// Error invalid_input where a query is normalized and the vectors are not, or the other way round, and the distance
/// depends on lengths: all but cosine.
void require_same_lengths(const CollectionFacts& stored, bool is_normalized, std::string_view shown);

/// require_same_vectors(), and a warning in the log where the provider computed in another precision.
void accept_vectors(const CollectionFacts& stored, const CollectionFacts& given, std::string_view shown);

/// Checks that a vector of the model can be searched for in it: digest and dimension are the same. Pure. Error
/// invalid_input. An empty digest, of a vector without a model, is compared with none.
void require_searchable(const CollectionFacts& stored, std::string_view model, std::string_view digest,
                        std::size_t dimension, std::string_view shown);

/// The facts as a JSON object of texts and numbers. Pure.
nlohmann::json facts_to_json(const CollectionFacts& facts);
/// Reads them back. Error invalid_input, within `shown`, for what gpux has not written.
CollectionFacts facts_from_json(const nlohmann::json& json, std::string_view shown);

/// Levels of lists and objects within a stored payload.
inline constexpr int max_payload_depth = 128;

/// Parses the JSON that a store gave. What is nested deeper than `max_depth` is left out: what prints or copies it
/// calls itself once for each level. Discarded where it is no JSON. Pure.
nlohmann::json stored_json(std::string_view text, int max_depth = max_payload_depth);

/// The text without what PostgreSQL's texts and jsonb cannot hold: U+FFFD replaces NUL and bytes that are not UTF-8.
/// Pure.
std::string storable_text(std::string_view text);
/// The JSON with storable_text() of all texts and names in it. Pure.
nlohmann::json storable_json(const nlohmann::json& json);

}  // namespace gpux::vector_store

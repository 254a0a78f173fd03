#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "gpux/error.h"
#include "vector_store/vector_store.h"

/// The bodies of Qdrant's REST interface, as its OpenAPI document of 1.10 and newer has them. Pure.
namespace gpux::vector_store {

/// The collection with the facts of all collections of the server, a point each.
inline constexpr std::string_view qdrant_facts_collection = "gpux_collections";

/// The id of a point in Qdrant: a UUID (RFC 9562, version 8) of the first 122 free bits of a SHA-256 in hexadecimal
/// digits.
std::string point_uuid(std::string_view sha256);

/// The body that makes a collection: vectors "dense", and "sparse" where there are some.
nlohmann::json collection_body(const CollectionFacts& facts);

/// A point as a member of a batch. Its payload: {"id": …, "text": …, "payload": {…}}.
nlohmann::json point_body(const Point& point, bool has_sparse);

/// A filter's conditions, on payload.PATH. Error usage for a name with a double quote, which Qdrant's paths cannot
/// have.
nlohmann::json filter_body(const Filter& filter);

nlohmann::json query_body(const SearchRequest& request);

/// The points of a query's answer; scores higher where nearer. Error network for another answer.
std::vector<FoundPoint> found_points(const nlohmann::json& answer, Similarity distance, std::string_view shown);

/// The error of an answer with this status: {"status": {"error": "…"}}.
Error qdrant_error(int status, std::string_view body, std::string_view shown);

}  // namespace gpux::vector_store

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "vector_store/vector_store.h"

/// The statements of a collection in PostgreSQL. Names are quoted identifiers; values are parameters. Pure.
namespace gpux::vector_store {

/// The table that has the facts of all collections of a schema.
inline constexpr std::string_view facts_table = "gpux_collections";

/// pgvector's longest vector that an HNSW index takes.
inline constexpr std::size_t max_indexed_dimension = 2000;
/// pgvector's longest vector.
inline constexpr std::size_t max_postgres_dimension = 16'000;

/// A name as an identifier: in double quotes, which are doubled within.
std::string quoted_identifier(std::string_view name);

/// "[0.5,1]": pgvector's text of a vector, each number with as many digits as it has.
std::string vector_text(std::span<const float> vector);
/// "{1:0.5,4:2}/10": its text of a sparse vector, with indices from 1.
std::string sparse_text(const SparseVector& vector, std::size_t dimension);

std::string create_facts_table();
std::string create_collection_table(std::string_view collection, const CollectionFacts& facts);
/// Empty where the dimension is too large for an index.
std::string create_index(std::string_view collection, const CollectionFacts& facts);

/// The temporary table of one transaction that COPY fills, COPY itself, and what moves its rows.
std::string create_staging_table(std::string_view collection);
std::string copy_into_staging(bool has_sparse);
std::string move_from_staging(std::string_view collection, bool has_sparse);

/// A search and its parameters. The columns of its rows: id, score, text, payload.
struct SearchStatement {
  std::string text;
  std::vector<std::string> parameters;
};

SearchStatement search_statement(std::string_view collection, const CollectionFacts& facts,
                                 const SearchRequest& request);

/// The setting of a transaction whose searches compare every vector.
inline constexpr std::string_view setting_without_index = "SET LOCAL enable_indexscan = off";

/// The settings of the transaction of a search: how much of the index is looked at, so that `count` are found behind
/// most filters as well (pgvector 0.8). pgvector gives up after hnsw.max_scan_tuples, 20,000 by default: where fewer
/// than `count` came back, the same statement behind setting_without_index finds the others.
std::vector<std::string> search_settings(const SearchRequest& request);

}  // namespace gpux::vector_store

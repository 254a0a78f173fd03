#include "vector_store/postgres/statements.h"

#include <algorithm>

#include <fmt/format.h>

namespace gpux::vector_store {
namespace {

struct Operator {
  std::string_view symbol, index_class, score;  // `score` of the distance {}
};

Operator operator_of(Similarity distance) {
  switch (distance) {
    case Similarity::dot:
      return {"<#>", "vector_ip_ops", "-({})"};
    case Similarity::euclidean:
      return {"<->", "vector_l2_ops", "-({})"};
    case Similarity::manhattan:
      return {"<+>", "vector_l1_ops", "-({})"};
    default:
      return {"<=>", "vector_cosine_ops", "1 - ({})"};
  }
}

}  // namespace

std::string quoted_identifier(std::string_view name) {
  std::string out = "\"";
  for (const char c : name) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

std::string vector_text(std::span<const float> vector) {
  std::string out = "[";
  for (const float value : vector) fmt::format_to(std::back_inserter(out), "{}{}", out.size() == 1 ? "" : ",", value);
  return out + "]";
}

std::string sparse_text(const SparseVector& vector, std::size_t dimension) {
  std::string out = "{";
  for (std::size_t i = 0; i < vector.indices.size(); ++i) {
    fmt::format_to(std::back_inserter(out), "{}{}:{}", i == 0 ? "" : ",", vector.indices[i] + 1, vector.values[i]);
  }
  return fmt::format("{}}}/{}", out, dimension);
}

std::string create_facts_table() {
  return fmt::format(
      "CREATE TABLE IF NOT EXISTS {} (collection text PRIMARY KEY, model text NOT NULL, digest text NOT NULL, "
      "\"precision\" text NOT NULL, dimension integer NOT NULL, distance text NOT NULL, prompt text NOT NULL, "
      "sparse_dimension integer NOT NULL, is_normalized boolean NOT NULL, created_at timestamptz NOT NULL DEFAULT "
      "now())",
      facts_table);
}

std::string create_collection_table(std::string_view collection, const CollectionFacts& facts) {
  const std::string sparse =
      facts.sparse_dimension == 0 ? "" : fmt::format("sparse sparsevec({}) NOT NULL, ", facts.sparse_dimension);
  return fmt::format(
      "CREATE TABLE {} (id text PRIMARY KEY, embedding vector({}) NOT NULL, {}text text NOT NULL, payload jsonb NOT "
      "NULL, created_at timestamptz NOT NULL DEFAULT now())",
      quoted_identifier(collection), facts.dimension, sparse);
}

std::string create_index(std::string_view collection, const CollectionFacts& facts) {
  if (facts.dimension > max_indexed_dimension) return {};
  return fmt::format("CREATE INDEX IF NOT EXISTS {} ON {} USING hnsw (embedding {})",
                     quoted_identifier(fmt::format("{}_hnsw", collection)), quoted_identifier(collection),
                     operator_of(facts.distance).index_class);
}

std::string create_staging_table(std::string_view collection) {
  return fmt::format("CREATE TEMPORARY TABLE gpux_staging (LIKE {} INCLUDING DEFAULTS) ON COMMIT DROP",
                     quoted_identifier(collection));
}

std::string copy_into_staging(bool has_sparse) {
  return fmt::format("COPY gpux_staging (id, embedding, {}text, payload) FROM STDIN (FORMAT binary)",
                     has_sparse ? "sparse, " : "");
}

std::string move_from_staging(std::string_view collection, bool has_sparse) {
  const std::string_view columns = has_sparse ? "id, embedding, sparse, text, payload" : "id, embedding, text, payload";
  return fmt::format(
      "INSERT INTO {} ({}) SELECT {} FROM gpux_staging ORDER BY id ON CONFLICT (id) DO UPDATE SET embedding = "
      "excluded.embedding, {}text = excluded.text, payload = excluded.payload",
      quoted_identifier(collection), columns, columns, has_sparse ? "sparse = excluded.sparse, " : "");
}

SearchStatement search_statement(std::string_view collection, const CollectionFacts& facts,
                                 const SearchRequest& request) {
  const bool is_sparse = request.vector.empty();
  const Operator compared = is_sparse ? operator_of(Similarity::dot) : operator_of(facts.distance);
  const std::string distance = fmt::format("{} {} $1::{}", is_sparse ? "sparse" : "embedding", compared.symbol,
                                           is_sparse ? "sparsevec" : "vector");
  SearchStatement statement;
  statement.parameters.push_back(is_sparse ? sparse_text(request.sparse, facts.sparse_dimension)
                                           : vector_text(request.vector));
  std::string where;
  for (ContainedObjects& objects : containment_of(request.filter)) {
    statement.parameters.push_back(std::move(objects.with_value));
    statement.parameters.push_back(std::move(objects.with_list));
    where += fmt::format(" {} (payload @> ${}::jsonb OR payload @> ${}::jsonb)", where.empty() ? "WHERE" : "AND",
                         statement.parameters.size() - 1, statement.parameters.size());
  }
  statement.text = fmt::format("SELECT id, {}, text, payload FROM {}{} ORDER BY {} LIMIT {}",
                               fmt::format(fmt::runtime(compared.score), distance), quoted_identifier(collection),
                               where, distance, request.count);
  return statement;
}

std::vector<std::string> search_settings(const SearchRequest& request) {
  // As pgvector bounds it.
  constexpr std::size_t default_candidates = 100, max_candidates = 1000;
  if (request.is_exact || request.count > max_candidates) return {std::string(setting_without_index)};
  return {fmt::format("SET LOCAL hnsw.ef_search = {}", std::clamp(request.count, default_candidates, max_candidates)),
          "SET LOCAL hnsw.iterative_scan = strict_order"};
}

}  // namespace gpux::vector_store

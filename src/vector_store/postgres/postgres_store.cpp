#include "vector_store/postgres/postgres_store.h"

#include <charconv>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "gpux/error.h"
#include "vector_store/postgres/connection.h"
#include "vector_store/postgres/copy_rows.h"
#include "vector_store/postgres/statements.h"

namespace gpux::vector_store {
namespace {

// An index of many million vectors takes hours.
constexpr Connection::Limit index_limit{24 * 3600};
constexpr Connection::Limit batch_limit{600};

template <typename Number>
Number number_of(std::string_view text) {
  Number number{};
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

class PostgresStore final : public VectorStore {
 public:
  PostgresStore(StoreUrl url, const Cancellation& cancellation)
      : url_(std::move(url)), connection_(url_.address, url_.shown, cancellation) {}

  std::optional<CollectionFacts> facts() override {
    if (!facts_) facts_ = read_facts();
    return facts_;
  }

  void create(const CollectionFacts& facts) override;
  void upsert(std::span<const Point> points) override;

  bool has(const std::string& id) override {
    return connection_.run(fmt::format("SELECT 1 FROM {} WHERE id = $1", table()), {id}).size() != 0;
  }

  std::uint64_t count() override {
    const Rows rows = connection_.run(fmt::format("SELECT count(*) FROM {}", table()), {}, batch_limit);
    return number_of<std::uint64_t>(rows.text(0, 0));
  }

  std::vector<FoundPoint> search(const SearchRequest& request) override;
  void finish() override;

  [[nodiscard]] const std::string& shown() const noexcept override { return url_.shown; }

 private:
  [[nodiscard]] std::string table() const { return quoted_identifier(url_.collection); }

  std::optional<CollectionFacts> read_facts();
  void require_extension();
  const CollectionFacts& known_facts();

  StoreUrl url_;
  Connection connection_;
  std::optional<CollectionFacts> facts_;
};

std::optional<CollectionFacts> PostgresStore::read_facts() {
  const Rows tables = connection_.run("SELECT to_regclass($1) IS NOT NULL AND to_regclass($2) IS NOT NULL",
                                      {std::string(facts_table), table()});
  if (tables.text(0, 0) != "t") return std::nullopt;
  const Rows rows =
      connection_.run(fmt::format("SELECT model, digest, \"precision\", dimension, distance, prompt, sparse_dimension, "
                                  "is_normalized FROM {} WHERE collection = $1",
                                  facts_table),
                      {url_.collection});
  if (rows.size() == 0) return std::nullopt;
  return facts_from_json({{"model", rows.text(0, 0)},
                          {"digest", rows.text(0, 1)},
                          {"precision", rows.text(0, 2)},
                          {"dimension", number_of<std::uint64_t>(rows.text(0, 3))},
                          {"distance", rows.text(0, 4)},
                          {"prompt", rows.text(0, 5)},
                          {"sparse_dimension", number_of<std::uint64_t>(rows.text(0, 6))},
                          {"is_normalized", rows.text(0, 7) == "t"}},
                         url_.shown);
}

const CollectionFacts& PostgresStore::known_facts() {
  (void)facts();
  if (facts_) return *facts_;
  throw Error(ErrorCode::not_found,
              fmt::format("'{}': there is no collection '{}' of gpux", url_.shown, url_.collection));
}

void PostgresStore::require_extension() {
  const auto version = [&] { return connection_.run("SELECT extversion FROM pg_extension WHERE extname = 'vector'"); };
  if (version().size() == 0) {
    const Rows available = connection_.run("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'");
    if (available.size() == 0) {
      throw Error(ErrorCode::not_found,
                  fmt::format("'{}': the server has no extension 'vector'; it comes with pgvector", url_.shown));
    }
    try {
      connection_.run("CREATE EXTENSION IF NOT EXISTS vector");
    } catch (const Error& error) {
      throw error.followed_by(Message("; a superuser makes it: CREATE EXTENSION vector"));
    }
  }
  const Rows rows = version();
  const std::string_view text = rows.size() == 0 ? std::string_view() : rows.text(0, 0);
  const auto dot = text.find('.');
  const int major = number_of<int>(text);
  const int minor = dot == std::string_view::npos ? 0 : number_of<int>(text.substr(dot + 1));
  if (major > 0 || minor >= 8) return;
  throw Error(
      ErrorCode::not_found,
      fmt::format("'{}': pgvector is {}; accepted: 0.8 or newer (ALTER EXTENSION vector UPDATE)", url_.shown, text));
}

void PostgresStore::create(const CollectionFacts& facts) {
  if (facts.dimension > max_postgres_dimension) {
    throw Error(ErrorCode::invalid_input, fmt::format("'{}': vectors of {} dimensions; pgvector takes {}", url_.shown,
                                                      facts.dimension, max_postgres_dimension));
  }
  Transaction transaction(connection_);
  // Of two processes that make a collection at the same time, one waits for the other.
  connection_.run("SELECT pg_advisory_xact_lock(hashtext($1))", {std::string(facts_table)});
  require_extension();
  if (const auto stored = read_facts()) {
    accept_vectors(*stored, facts, url_.shown);
    facts_ = stored;
    return;
  }
  if (connection_.run("SELECT to_regclass($1) IS NOT NULL", {table()}).text(0, 0) == "t") {
    throw Error(ErrorCode::invalid_input,
                fmt::format("'{}': the table '{}' is there, and gpux has not made it; collection=NAME names another",
                            url_.shown, url_.collection));
  }
  connection_.run(create_facts_table());
  connection_.run(create_collection_table(url_.collection, facts));
  connection_.run(
      fmt::format("INSERT INTO {} (collection, model, digest, \"precision\", dimension, distance, prompt, "
                  "sparse_dimension, is_normalized) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT "
                  "(collection) DO UPDATE SET model = excluded.model, digest = excluded.digest, \"precision\" = "
                  "excluded.\"precision\", dimension = excluded.dimension, distance = excluded.distance, "
                  "prompt = excluded.prompt, sparse_dimension = excluded.sparse_dimension, "
                  "is_normalized = excluded.is_normalized",
                  facts_table),
      {url_.collection, storable_text(facts.model), facts.digest, facts.precision, std::to_string(facts.dimension),
       std::string(name_of(facts.distance)), storable_text(facts.prompt), std::to_string(facts.sparse_dimension),
       facts.is_normalized ? "t" : "f"});
  transaction.commit();
  facts_ = facts;
}

void PostgresStore::upsert(std::span<const Point> points) {
  if (points.empty()) return;
  const CollectionFacts& facts = known_facts();
  const bool has_sparse = facts.sparse_dimension != 0;
  // INSERT … ON CONFLICT refuses two rows of one id.
  std::map<std::string_view, const Point*> last;
  for (const Point& point : points) last[point.id] = &point;
  CopyRows rows;
  for (const auto& [id, point] : last) {
    rows.begin_row(has_sparse ? 5 : 4);
    rows.add_text(id);
    rows.add_vector(point->vector);
    if (has_sparse) rows.add_sparse(point->sparse, facts.sparse_dimension);
    rows.add_text(storable_text(point->text));
    rows.add_jsonb(storable_json(point->payload).dump());
  }
  Transaction transaction(connection_);
  connection_.run(create_staging_table(url_.collection));
  connection_.copy(copy_into_staging(has_sparse), rows.finish(), batch_limit);
  connection_.run(move_from_staging(url_.collection, has_sparse), {}, batch_limit);
  transaction.commit(batch_limit);
}

std::vector<FoundPoint> PostgresStore::search(const SearchRequest& request) {
  const SearchStatement statement = search_statement(url_.collection, known_facts(), request);
  Transaction transaction(connection_);
  for (const std::string& setting : search_settings(request)) connection_.run(setting);
  Rows rows = connection_.run(statement.text, statement.parameters, batch_limit);
  const bool may_have_more = !request.filter.empty() && std::cmp_less(rows.size(), request.count);
  if (may_have_more && !request.is_exact && !request.vector.empty()) {
    connection_.run(std::string(setting_without_index));
    rows = connection_.run(statement.text, statement.parameters, batch_limit);
  }
  transaction.commit();
  std::vector<FoundPoint> found;
  for (int row = 0; row < rows.size(); ++row) {
    // NaN is the cosine of a vector of zeros, which has no direction.
    const double score = number_of<double>(rows.text(row, 1));
    found.push_back({.id = std::string(rows.text(row, 0)),
                     .score = std::isnan(score) ? 0 : score,
                     .text = std::string(rows.text(row, 2)),
                     .payload = stored_json(rows.text(row, 3))});
  }
  return found;
}

void PostgresStore::finish() {
  if (!url_.has_index) return;
  const CollectionFacts& facts = known_facts();
  const std::string index = create_index(url_.collection, facts);
  if (index.empty()) {
    log::warning(
        "'{}' has no index, and searches compare every vector: pgvector's HNSW takes {} dimensions, and these "
        "have {}",
        url_.shown, max_indexed_dimension, facts.dimension);
  } else {
    // Of two processes that end at the same time, one waits, and finds the index of the other.
    Transaction transaction(connection_);
    connection_.run("SELECT pg_advisory_xact_lock(hashtext($1))", {index}, index_limit);
    connection_.run(index, {}, index_limit);
    transaction.commit();
  }
  // None for the sparse vectors: pgvector's takes 1,000 of their elements at most, and texts have more.
}

}  // namespace

std::unique_ptr<VectorStore> open_postgres(const StoreUrl& url, const Cancellation& cancellation) {
  return std::make_unique<PostgresStore>(url, cancellation);
}

}  // namespace gpux::vector_store

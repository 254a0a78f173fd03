#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/cancellation.h"
#include "vector_store/collection.h"
#include "vector_store/filter.h"
#include "vector_store/store_url.h"

namespace gpux::vector_store {

/// What is searched for: a dense vector, or a sparse one where `vector` is empty.
struct SearchRequest {
  std::vector<float> vector = {};
  SparseVector sparse = {};
  std::size_t count = 10;
  Filter filter = {};
  bool is_exact = false;  ///< every vector is compared, without an approximate index
};

/// A point that was found.
struct FoundPoint {
  std::string id;
  double score = 0;  ///< as of embedding::Match: higher is nearer, distances are negative; sparse: the product
  std::string text;
  nlohmann::json payload;
};

/// A collection of vectors in a database or a file. Used by one thread at a time. A call that fails leaves the
/// collection as it was before it, and may be repeated; a lost connection is opened again by the next call.
/// Errors: network (no server, or it went away), permission (password, rights), storage (disk full), not_found (the
/// database, pgvector), invalid_input (a collection that gpux has not made).
class VectorStore {
 public:
  VectorStore() = default;
  virtual ~VectorStore() = default;
  VectorStore(const VectorStore&) = delete;
  VectorStore& operator=(const VectorStore&) = delete;

  /// The facts of the collection; empty: it does not exist.
  virtual std::optional<CollectionFacts> facts() = 0;

  /// Makes the collection where it does not exist. Otherwise checks it by require_same_vectors().
  virtual void create(const CollectionFacts& facts) = 0;

  /// Stores all points or none; Qdrant, above 8 MiB, some of them, and the same call again is safe. A point of the same
  /// id is replaced; of two in the span the later counts. The collection exists, and vectors have its dimension.
  virtual void upsert(std::span<const Point> points) = 0;

  /// Whether the point is there.
  virtual bool has(const std::string& id) = 0;

  /// Number of points.
  virtual std::uint64_t count() = 0;

  /// The nearest points, nearest first. The collection exists.
  virtual std::vector<FoundPoint> search(const SearchRequest& request) = 0;

  /// Called after the last upsert() of a bulk load: makes the approximate index and makes all durable.
  virtual void finish() = 0;

  /// The collection's address for messages.
  [[nodiscard]] virtual const std::string& shown() const noexcept = 0;
};

/// Opens the store; a database is connected to by the first call. After `cancellation`, calls that wait for a server
/// end with an error, within a second, or ten where a connection is being made. Errors usage; not_found (libpq is
/// missing).
std::unique_ptr<VectorStore> open_store(const StoreUrl& url, const Cancellation& cancellation = {});

/// Both searches, `candidates` points each, fused by fuse_ranks(); `count` of them. The score is the fused one.
std::vector<FoundPoint> search_hybrid(VectorStore& store, const SearchRequest& request);

}  // namespace gpux::vector_store

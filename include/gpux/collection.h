#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "gpux/embedder.h"
#include "gpux/export.h"
#include "gpux/similarity.h"

namespace gpux {

class Pipeline;

/// What all vectors of a collection have in common; stored with it.
struct CollectionFacts {
  std::string model = {};      ///< its name
  std::string digest = {};     ///< "sha256:…" of the ONNX file, with those of external data
  std::string precision = {};  ///< that the provider computed in: "fp32"
  std::size_t dimension = 0;
  Similarity distance = Similarity::cosine;
  bool is_normalized = false;        ///< vectors have the length 1
  std::string prompt = {};           ///< put before each stored text; empty: none
  std::size_t sparse_dimension = 0;  ///< entries of the vocabulary of the sparse vectors; 0: the collection has none

  bool operator==(const CollectionFacts&) const = default;
};

/// A text to store.
struct CollectionText {
  std::string text;
  /// A JSON object that is stored with it. Its member `id`, unless it is null or empty, names the text's point; else
  /// the text does.
  std::string payload = "{}";
};

/// A stored text that was found.
struct CollectionHit {
  std::string id;       ///< 64 hexadecimal digits
  double score = 0;     ///< higher is nearer; distances are negative
  std::string text;     ///< as it was stored, without its prompt
  std::string payload;  ///< a JSON object
};

/// How texts are stored.
struct CollectionWriteOptions {
  EmbeddingOptions embedding = {};
  bool is_hybrid = false;     ///< the model's sparse vectors are stored, too (BGE-M3)
  bool updates_index = true;  ///< false: update_index() is called later, behind many small calls
};

/// How a collection is searched.
struct CollectionSearchOptions {
  std::size_t count = 10;
  /// "KEY=VALUE" each: only texts whose payload has all of these. KEY is a path ("meta.user"). VALUE is a JSON number,
  /// true, false, null or a text in double quotes; anything else is a text as it is. Of a list, one element is enough.
  std::vector<std::string> where = {};
  bool is_exact = false;               ///< every vector is compared, without an approximate index
  bool is_hybrid = false;              ///< by the sparse vectors, too; both lists are fused by reciprocal ranks
  const Pipeline* reranker = nullptr;  ///< a cross-encoder (task text-ranking) that ranks what was found; null: none
  EmbeddingOptions embedding = {};     ///< of the query
};

/// Texts with their vectors in PostgreSQL (pgvector), in Qdrant or in one file, as `gpux embed --to` stores them and
/// `gpux search --in` searches them. A collection has the vectors of one model: those of another are refused by name.
/// Movable; used by one thread at a time. A call that fails may be repeated. Errors of all calls: network (no server,
/// or it went away), permission (password, rights), storage (disk full, another process writes the file), not_found
/// (libpq, the database, pgvector), invalid_input (a table or a file that gpux has not made).
class GPUX_API Collection {
 public:
  /// `url`: postgres://USER@HOST/DATABASE?collection=NAME, qdrant://HOST:6333/COLLECTION or file:PATH. Nothing is
  /// connected to, and nothing made, before the first call. After a stop of `stop`, calls that wait for a server throw
  /// interrupted. Error usage, which quotes no password.
  explicit Collection(const std::string& url, const std::stop_token& stop = {});
  ~Collection();
  Collection(Collection&&) noexcept;
  Collection& operator=(Collection&&) noexcept;

  /// The facts that are stored; empty: the collection does not exist.
  [[nodiscard]] std::optional<CollectionFacts> facts();

  /// Number of texts; 0 where the collection does not exist. PostgreSQL counts its rows.
  [[nodiscard]] std::uint64_t count();

  /// Puts the next text into its argument; false: there is none. Called by one thread at a time.
  using Source = std::function<bool(CollectionText&)>;

  /// Embeds texts and stores them, 1,000 at a time, each batch as a whole. The first call makes the collection. A text
  /// whose point is there replaces it. Returns the number of texts. Errors invalid_input: vectors of another model,
  /// dimension, distance or prompt than those there; a payload that is no JSON object; a text that fails, by its
  /// number: "text 3". Usage: options that the model cannot meet. What the source throws is thrown as it is.
  std::uint64_t upsert(const Embedder& embedder, const Source& source, const CollectionWriteOptions& options = {});
  std::uint64_t upsert(const Embedder& embedder, std::span<const CollectionText> texts,
                       const CollectionWriteOptions& options = {});

  /// Makes the approximate index, where there is none and it is worth it, and makes all durable.
  void update_index();

  /// Embeds the text and finds the nearest, nearest first. Errors not_found: the collection does not exist;
  /// invalid_input: another model made its vectors; usage: a hybrid search in a collection of dense vectors, a reranker
  /// that ranks no texts, a condition that cannot be read.
  [[nodiscard]] std::vector<CollectionHit> search(const Embedder& embedder, std::string_view text,
                                                  const CollectionSearchOptions& options = {});

  /// The same for a vector, which is compared as it is. Errors also usage with `is_hybrid` or a reranker, which need a
  /// text; invalid_input where it has another dimension, is all zeros (cosine) or not finite.
  [[nodiscard]] std::vector<CollectionHit> search(std::span<const float> vector,
                                                  const CollectionSearchOptions& options = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpux

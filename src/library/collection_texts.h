#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "model/open_encoder.h"
#include "vector_store/vector_store.h"

/// Texts in a collection of vectors: how they are stored and found. `gpux embed --to`, `gpux search --in` and
/// gpux::Collection do it this way.
namespace gpux {

/// Puts the next text and its payload into the arguments; false: there is none. Called by one thread at a time.
using StoredTextSource = std::function<bool(std::string& text, nlohmann::json& payload)>;

/// How texts are stored.
struct TextStoring {
  embedding::EmbedOptions options;  ///< accepted by the encoder, of dense vectors
  bool is_hybrid = false;           ///< with sparse vectors beside the dense ones, of the same runs
  unsigned workers = 1;             ///< texts side by side
};

/// Stores texts with their vectors, some at a time. One thread at a time.
class TextPoints {
 public:
  /// The store must outlive it.
  explicit TextPoints(vector_store::VectorStore& store) : store_(store) {}

  /// A point's name is point_id(). Errors of VectorStore::upsert().
  void add(std::string_view text, std::vector<float> vector, vector_store::SparseVector sparse, nlohmann::json payload);
  /// Stores what is left. The same errors.
  void put();

 private:
  vector_store::VectorStore& store_;
  std::vector<vector_store::Point> points_;
};

/// Makes the collection where it does not exist, embeds the texts and stores them, some at a time. A point's name is
/// point_id(). `on_text`: called behind each text that is embedded. Returns the number of texts. finish() of the store
/// is left to the caller. Errors of VectorStore, embed_all(), facts_of(); what the source throws.
std::uint64_t store_texts(
    vector_store::VectorStore& store, const OpenEncoder& encoder, const TextStoring& how,
    const StoredTextSource& source, const std::function<void()>& on_text = [] {});

/// The name of a text's point: the SHA-256 of the text, or of the member `id` of its payload where there is one,
/// neither null nor empty. Pure.
std::string point_id(std::string_view text, const nlohmann::json& payload);

/// How a collection is searched.
struct TextSearch {
  std::size_t count = 10;
  vector_store::Filter filter = {};
  bool is_exact = false, is_hybrid = false;
  /// Gives the score of each text for the query, higher where it fits better; empty: texts are not ranked again.
  std::function<std::vector<double>(const std::string& query, const std::vector<std::string>& texts)> rank = {};
};

/// What is searched for.
struct TextQuery {
  std::string text = {};  ///< empty: a vector alone is searched for
  std::vector<float> vector = {};
  vector_store::SparseVector sparse = {};
};

/// The facts of the store's collection. Error not_found where it does not exist.
vector_store::CollectionFacts require_collection(vector_store::VectorStore& store);

/// Error usage: a hybrid search in a collection of dense vectors alone.
void require_searches(const vector_store::CollectionFacts& facts, const TextSearch& search, std::string_view shown);

/// The vectors of a text that is searched for; with a hybrid search both, of one run. Errors invalid_input where the
/// collection has vectors of another model; of facts_of() and TextEmbedder.
TextQuery query_of(std::string_view text, const OpenEncoder& encoder, const embedding::EmbedOptions& options,
                   const TextSearch& search, const vector_store::CollectionFacts& facts, std::string_view shown);

/// The nearest, nearest first. With `rank`, more are found than are wanted, since those that it prefers may be among
/// them, and scores are its own. Errors invalid_input where the query is all zeros (cosine) or not finite; of
/// VectorStore.
std::vector<vector_store::FoundPoint> find_texts(vector_store::VectorStore& store,
                                                 const vector_store::CollectionFacts& facts, const TextSearch& search,
                                                 const TextQuery& query);

}  // namespace gpux

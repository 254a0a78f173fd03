#include "library/collection_texts.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <limits>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "base/format_message.h"
#include "base/sha256.h"
#include "embedding/embed_all.h"
#include "embedding/top_k.h"
#include "gpux/error.h"
#include "library/collection_facts.h"

namespace gpux {
namespace {

using PayloadJson = nlohmann::json;
using vector_store::FoundPoint;

constexpr std::size_t points_at_once = 1000;

/// The payloads of texts that are being embedded, in order.
class WaitingPayloads {
 public:
  void push(PayloadJson payload) {
    const std::scoped_lock lock(mutex_);
    waiting_.push_back(std::move(payload));
  }

  PayloadJson pop() {
    const std::scoped_lock lock(mutex_);
    PayloadJson first = std::move(waiting_.front());
    waiting_.pop_front();
    return first;
  }

 private:
  std::mutex mutex_;
  std::deque<PayloadJson> waiting_;
};

// Best first, of equal scores those that were nearer.
std::vector<FoundPoint> ranked(const TextSearch& search, const std::string& query, std::vector<FoundPoint> found) {
  if (found.empty()) return found;
  std::vector<std::string> texts;
  for (const FoundPoint& point : found) texts.push_back(point.text);
  const std::vector<double> scores = search.rank(query, texts);
  for (std::size_t i = 0; i < found.size(); ++i) found[i].score = scores.at(i);
  std::ranges::stable_sort(found, std::greater(), &FoundPoint::score);
  found.resize(std::min(found.size(), search.count));
  return found;
}

}  // namespace

std::string point_id(std::string_view text, const PayloadJson& payload) {
  const auto id = payload.find("id");
  const bool is_absent =
      id == payload.end() || id->is_null() || (id->is_string() && id->get_ref<const std::string&>().empty());
  if (is_absent) return sha256_of(text);
  // No text begins with a byte that UTF-8 does not have.
  return sha256_of(
      "\xff"
      "id " +
      id->dump());
}

void TextPoints::add(std::string_view text, std::vector<float> vector, vector_store::SparseVector sparse,
                     PayloadJson payload) {
  points_.push_back({.id = point_id(text, payload),
                     .vector = std::move(vector),
                     .sparse = std::move(sparse),
                     .text = std::string(text),
                     .payload = std::move(payload)});
  if (points_.size() == points_at_once) put();
}

void TextPoints::put() {
  store_.upsert(points_);
  points_.clear();
}

std::uint64_t store_texts(vector_store::VectorStore& store, const OpenEncoder& encoder, const TextStoring& how,
                          const StoredTextSource& source, const std::function<void()>& on_text) {
  store.create(facts_of(encoder, how.options, how.is_hybrid));
  WaitingPayloads payloads;
  TextPoints points(store);
  const embedding::TextSource next = [&](std::string& text) {
    PayloadJson payload = PayloadJson::object();
    if (!source(text, payload)) return false;
    payloads.push(std::move(payload));
    return true;
  };
  const embedding::EmbeddingSink keep = [&](std::string_view text, const embedding::Embedding& embedding) {
    points.add(text, embedding.values, {embedding.sparse.indices, embedding.sparse.values}, payloads.pop());
    on_text();
  };
  embedding::EmbedOptions options = how.is_hybrid ? with_sparse(encoder, how.options) : how.options;
  options.representation = embedding::Representation::dense;
  const std::uint64_t count = embedding::embed_all(*encoder.embedder, options, next, how.workers, keep);
  points.put();
  return count;
}

vector_store::CollectionFacts require_collection(vector_store::VectorStore& store) {
  if (auto facts = store.facts()) return *std::move(facts);
  throw Error(ErrorCode::not_found, fmt::format("'{}': there is no collection of gpux; the first texts that are stored "
                                                "make it",
                                                store.shown()));
}

void require_searches(const vector_store::CollectionFacts& facts, const TextSearch& search, std::string_view shown) {
  if (!search.is_hybrid || facts.sparse_dimension != 0) return;
  throw Error(ErrorCode::usage,
              format_message("{}: '{}' has dense vectors alone; those that are stored with {} have both",
                             setting_named("hybrid"), shown, setting_named("hybrid")));
}

TextQuery query_of(std::string_view text, const OpenEncoder& encoder, const embedding::EmbedOptions& given,
                   const TextSearch& search, const vector_store::CollectionFacts& facts, std::string_view shown) {
  embedding::EmbedOptions options = search.is_hybrid ? with_sparse(encoder, given) : given;
  options.representation = embedding::Representation::dense;
  const vector_store::CollectionFacts own = facts_of(encoder, options);
  vector_store::require_searchable(facts, own.model, own.digest, own.dimension, shown);
  vector_store::require_same_lengths(facts, own.is_normalized, shown);
  embedding::Embedding embedding = encoder.embedder->represent(text, options);
  return {.text = std::string(text),
          .vector = std::move(embedding.values),
          .sparse = {std::move(embedding.sparse.indices), std::move(embedding.sparse.values)}};
}

std::vector<FoundPoint> find_texts(vector_store::VectorStore& store, const vector_store::CollectionFacts& facts,
                                   const TextSearch& search, const TextQuery& query) {
  constexpr std::size_t min_ranked = 50, times = 4, most = std::numeric_limits<std::size_t>::max() / times;
  const std::size_t several = search.count > most ? search.count : times * search.count;
  embedding::require_query(query.vector, facts.distance);
  const vector_store::SearchRequest request{.vector = query.vector,
                                            .sparse = query.sparse,
                                            .count = search.rank ? std::max(min_ranked, several) : search.count,
                                            .filter = search.filter,
                                            .is_exact = search.is_exact};
  std::vector<FoundPoint> found = search.is_hybrid ? search_hybrid(store, request) : store.search(request);
  return search.rank ? ranked(search, query.text, std::move(found)) : found;
}

}  // namespace gpux

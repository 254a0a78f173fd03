#include "gpux/collection.h"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/format_message.h"
#include "gpux/error.h"
#include "gpux/pipeline.h"
#include "library/collection_facts.h"
#include "library/collection_texts.h"
#include "library/embedder_state.h"
#include "vector_store/vector_store.h"

namespace gpux {
namespace {

using PayloadJson = nlohmann::json;

std::string json_text(const PayloadJson& json) {
  return json.dump(-1, ' ', false, PayloadJson::error_handler_t::replace);
}

PayloadJson payload_of(const std::string& text) {
  PayloadJson payload;
  try {
    payload = parse_bounded_json(text, WholeNumbers::exact);
  } catch (const PayloadJson::exception&) {
    payload = nullptr;
  } catch (const Error& error) {
    throw Error(ErrorCode::invalid_input, "the payload: " + error.message());
  }
  if (!payload.is_object()) throw Error(ErrorCode::invalid_input, "the payload is no JSON object");
  return payload;
}

TextSearch search_of(const CollectionSearchOptions& options) {
  TextSearch search{.count = options.count, .is_exact = options.is_exact, .is_hybrid = options.is_hybrid};
  for (const std::string& condition : options.where) {
    search.filter.push_back(vector_store::parse_condition(condition));
  }
  if (options.reranker == nullptr) return search;
  // Refuses a model of another task, also where nothing is found.
  (void)options.reranker->rank({}, {});
  search.rank = [ranker = options.reranker](const std::string& query, const std::vector<std::string>& texts) {
    std::vector<double> scores(texts.size());
    for (const RankedText& one : ranker->rank(query, texts)) scores.at(one.index) = one.score;
    return scores;
  };
  return search;
}

std::vector<CollectionHit> hits_of(std::vector<vector_store::FoundPoint> found) {
  std::vector<CollectionHit> hits;
  hits.reserve(found.size());
  for (vector_store::FoundPoint& point : found) {
    hits.push_back({.id = std::move(point.id),
                    .score = point.score,
                    .text = std::move(point.text),
                    .payload = json_text(point.payload)});
  }
  return hits;
}

}  // namespace

struct Collection::State {
  std::unique_ptr<vector_store::VectorStore> store;
};

Collection::Collection(const std::string& url, const std::stop_token& stop)
    : state_(
          std::make_unique<State>(vector_store::open_store(vector_store::parse_store_url(url), Cancellation(stop)))) {}

Collection::~Collection() = default;
Collection::Collection(Collection&&) noexcept = default;
Collection& Collection::operator=(Collection&&) noexcept = default;

std::optional<CollectionFacts> Collection::facts() {
  return state_->store->facts();
}

std::uint64_t Collection::count() {
  return state_->store->facts() ? state_->store->count() : 0;
}

std::uint64_t Collection::upsert(const Embedder& embedder, const Source& source,
                                 const CollectionWriteOptions& options) {
  const Embedder::State& state = *embedder.state_;
  std::uint64_t number = 0;
  const StoredTextSource next = [&](std::string& text, PayloadJson& payload) {
    CollectionText given;
    if (!source(given)) return false;
    ++number;
    try {
      payload = payload_of(given.payload);
    } catch (const Error& error) {
      throw error.within(fmt::format("text {}", number));
    }
    text = std::move(given.text);
    return true;
  };
  const std::uint64_t count = store_texts(
      *state_->store, state.encoder,
      {.options = state.accepted(options.embedding), .is_hybrid = options.is_hybrid, .workers = state.workers}, next);
  if (options.updates_index) state_->store->finish();
  return count;
}

std::uint64_t Collection::upsert(const Embedder& embedder, std::span<const CollectionText> texts,
                                 const CollectionWriteOptions& options) {
  std::size_t next = 0;
  const auto source = [&](CollectionText& text) {
    if (next == texts.size()) return false;
    text = texts[next++];
    return true;
  };
  return upsert(embedder, source, options);
}

void Collection::update_index() {
  (void)require_collection(*state_->store);
  state_->store->finish();
}

std::vector<CollectionHit> Collection::search(const Embedder& embedder, std::string_view text,
                                              const CollectionSearchOptions& options) {
  vector_store::VectorStore& store = *state_->store;
  const TextSearch search = search_of(options);
  const CollectionFacts facts = require_collection(store);
  require_searches(facts, search, store.shown());
  const Embedder::State& state = *embedder.state_;
  const TextQuery query =
      query_of(text, state.encoder, state.accepted(options.embedding), search, facts, store.shown());
  return hits_of(find_texts(store, facts, search, query));
}

std::vector<CollectionHit> Collection::search(std::span<const float> vector, const CollectionSearchOptions& options) {
  if (options.is_hybrid || options.reranker != nullptr) {
    throw Error(ErrorCode::usage, "a hybrid search and a reranker need a text, and a vector is searched for");
  }
  vector_store::VectorStore& store = *state_->store;
  const TextSearch search = search_of(options);
  const CollectionFacts facts = require_collection(store);
  vector_store::require_searchable(facts, {}, {}, vector.size(), store.shown());
  return hits_of(find_texts(store, facts, search, {.vector = {vector.begin(), vector.end()}}));
}

}  // namespace gpux

#include "cli/search_store.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/counted.h"
#include "cli/collection_facts.h"
#include "cli/print_json.h"
#include "cli/pull_flag.h"
#include "cli/short_text.h"
#include "cli/table.h"
#include "embedding/top_k.h"
#include "gpux/error.h"
#include "model/open_model.h"
#include "pipeline/pipeline.h"
#include "vector_store/vector_store.h"

namespace gpux::cli {
namespace {

using vector_store::FoundPoint;
using vector_store::VectorStore;

template <typename AnyJson>
std::string json_text(const AnyJson& json) {
  return json.dump(-1, ' ', false, AnyJson::error_handler_t::replace);
}

// A payload is not copied into a Json, which looks a name up among all members.
std::string to_json(const VectorStore& store, const std::vector<FoundPoint>& found) {
  std::string list;
  std::size_t rank = 0;
  for (const FoundPoint& point : found) {
    const auto score = static_cast<float>(point.score);
    const Json shown{{"rank", ++rank},
                     {"score", std::isfinite(score) ? Json::parse(fmt::format("{}", score)) : Json()},
                     {"id", point.id},
                     {"text", point.text}};
    std::string one = json_text(shown);
    one.pop_back();
    list += fmt::format("{}{},\"payload\":{}}}", list.empty() ? "" : ",", one, json_text(point.payload));
  }
  return fmt::format("{{\"collection\":{},\"results\":[{}]}}", json_text(Json(store.shown())), list);
}

std::string to_table(const std::vector<FoundPoint>& found) {
  constexpr std::size_t short_id = 12;
  Table table{{"RANK", "SCORE", "ID", "TEXT", "PAYLOAD"}, {}};
  for (const FoundPoint& point : found) {
    table.rows.push_back({std::to_string(table.rows.size() + 1), fmt::format("{:.4f}", point.score),
                          point.id.substr(0, short_id), beginning_of(point.text),
                          beginning_of(json_text(point.payload))});
  }
  return table.text();
}

struct OpenCollection {
  std::unique_ptr<VectorStore> store;
  vector_store::CollectionFacts facts;
};

OpenCollection open(const StoreSearch& search) {
  auto store = vector_store::open_store(vector_store::parse_store_url(search.url));
  auto facts = store->facts();
  if (!facts) {
    throw Error(ErrorCode::not_found,
                fmt::format("'{}': there is no collection of gpux; 'gpux embed --to' makes one", store->shown()));
  }
  return {std::move(store), *std::move(facts)};
}

vector_store::SearchRequest request_of(const StoreSearch& search) {
  vector_store::SearchRequest request;
  constexpr std::size_t min_reranked = 50, times = 4;
  request.count = search.reranker.empty() ? search.count : std::max(min_reranked, times * search.count);
  request.is_exact = search.is_exact;
  for (const std::string& condition : search.where) {
    request.filter.push_back(vector_store::parse_condition(condition));
  }
  return request;
}

struct Reranker {
  OpenModel model;
  Runtime runtime;
};

// It runs as the model of the vectors does, with all of its flags, and in a worker where that does.
std::optional<Reranker> open_reranker(const StoreSearch& search, const EncoderFlags& flags, const Context& context) {
  if (search.reranker.empty()) return std::nullopt;
  OpenModel model = open_model(pull_argument(search.reranker, flags.pull, context), {}, flags.load);
  model.open_inputs();
  if (!model.pipeline || model.pipeline->settings().task != pipeline::Task::text_ranking) {
    throw Error(ErrorCode::usage, fmt::format("--rerank: '{}' ranks no texts; accepted: cross-encoders, whose task is "
                                              "text-ranking",
                                              search.reranker));
  }
  Runtime runtime = model.load();
  return Reranker{std::move(model), std::move(runtime)};
}

// The scores are the reranker's. More are found than are wanted: those that it prefers may be among them.
std::vector<FoundPoint> rerank(const Reranker& ranker, const StoreSearch& search, const std::string& query,
                               std::vector<FoundPoint> found) {
  if (found.empty()) return found;
  std::vector<std::string> texts;
  for (const FoundPoint& point : found) texts.push_back(point.text);
  const auto count = static_cast<std::int64_t>(texts.size());
  const NamedValues outputs = pipeline::infer(
      *ranker.model.pipeline, ranker.runtime,
      {{"query", Tensor::of_strings({1}, {query})}, {"text", Tensor::of_strings({count}, std::move(texts))}},
      {.timeout = ranker.model.settings.timeout(), .outputs = {"scores"}});
  const std::span<const float> scores = outputs.front().second.tensor()->as<float>();
  for (std::size_t i = 0; i < found.size(); ++i) found[i].score = scores[i];
  std::ranges::stable_sort(found, std::greater(), &FoundPoint::score);
  found.resize(std::min(found.size(), search.count));
  return found;
}

void run(const OpenCollection& collection, const StoreSearch& search, const std::string& query,
         const vector_store::SearchRequest& request, const std::optional<Reranker>& ranker, const Context& context) {
  VectorStore& store = *collection.store;
  embedding::require_query(request.vector, collection.facts.distance);
  const auto start = std::chrono::steady_clock::now();
  std::vector<FoundPoint> found = search.is_hybrid ? search_hybrid(store, request) : store.search(request);
  if (ranker) found = rerank(*ranker, search, query, std::move(found));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  say(context, fmt::format("found {} in {:.3f} s", counted(found.size(), "vector"), seconds));
  if (context.wants_json()) {
    print_data(to_json(store, found));
  } else {
    print_data(to_table(found));
  }
}

}  // namespace

void search_store(const StoreSearch& search, const EncoderFlags& flags, const std::string& query,
                  const Context& context) {
  vector_store::SearchRequest request = request_of(search);
  // Before the model is loaded: a wrong address is known at once.
  const OpenCollection collection = open(search);
  if (search.is_hybrid && collection.facts.sparse_dimension == 0) {
    throw Error(ErrorCode::usage,
                fmt::format("--hybrid: '{}' has dense vectors alone; 'gpux embed --to --hybrid' stores "
                            "both",
                            collection.store->shown()));
  }
  const OpenEncoder encoder = open_encoder(flags, context);
  vector_store::require_searchable(collection.facts, encoder.embedder->encoder().model().name,
                                   "sha256:" + encoder.digest, encoder.dimension, collection.store->shown());
  const std::optional<Reranker> ranker = open_reranker(search, flags, context);
  request.vector = encoder.embedder->embed(query, encoder.options);
  if (search.is_hybrid) {
    embedding::EmbedOptions options = sparse_options(encoder);
    options.role = embedding::TextRole::query;
    embedding::Embedding sparse = encoder.embedder->represent(query, options);
    request.sparse = {std::move(sparse.indices), std::move(sparse.values)};
  }
  run(collection, search, query, request, ranker, context);
}

void search_store(const StoreSearch& search, std::vector<float> query, const Context& context) {
  vector_store::SearchRequest request = request_of(search);
  const OpenCollection collection = open(search);
  vector_store::require_searchable(collection.facts, {}, {}, query.size(), collection.store->shown());
  request.vector = std::move(query);
  run(collection, search, {}, request, {}, context);
}

}  // namespace gpux::cli

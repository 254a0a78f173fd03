#include "cli/search_store.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/counted.h"
#include "cli/collection_facts.h"
#include "cli/print_json.h"
#include "cli/short_text.h"
#include "cli/table.h"
#include "gpux/error.h"
#include "gpux/pipeline.h"
#include "vector_store/vector_store.h"

namespace gpux::cli {
namespace {

using vector_store::FoundPoint;
using vector_store::VectorStore;

Json to_json(const VectorStore& store, const std::vector<FoundPoint>& found) {
  Json list = Json::array();
  for (const FoundPoint& point : found) {
    list.push_back({{"rank", list.size() + 1},
                    {"score", Json::parse(fmt::format("{}", static_cast<float>(point.score)))},
                    {"id", point.id},
                    {"text", point.text},
                    {"payload", Json::parse(point.payload.dump())}});
  }
  return {{"collection", store.shown()}, {"results", std::move(list)}};
}

std::string to_table(const std::vector<FoundPoint>& found) {
  constexpr std::size_t short_id = 12;
  Table table{{"RANK", "SCORE", "ID", "TEXT", "PAYLOAD"}, {}};
  for (const FoundPoint& point : found) {
    table.rows.push_back({std::to_string(table.rows.size() + 1), fmt::format("{:.4f}", point.score),
                          point.id.substr(0, short_id), beginning_of(point.text), beginning_of(point.payload.dump())});
  }
  return table.text();
}

std::unique_ptr<VectorStore> open(const StoreSearch& search) {
  auto store = vector_store::open_store(vector_store::parse_store_url(search.url));
  if (!store->facts()) {
    throw Error(ErrorCode::not_found,
                fmt::format("'{}': there is no collection of gpux; 'gpux embed --to' makes one", store->shown()));
  }
  return store;
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

// The scores are the reranker's. More are found than are wanted: those that it prefers may be among them.
std::vector<FoundPoint> rerank(const StoreSearch& search, const std::string& query, std::vector<FoundPoint> found) {
  const Pipeline ranker(search.reranker);
  std::vector<std::string> texts;
  for (const FoundPoint& point : found) texts.push_back(point.text);
  std::vector<FoundPoint> ranked;
  for (const RankedText& one : ranker.rank(query, texts)) {
    if (ranked.size() == search.count) break;
    ranked.push_back(std::move(found[one.index]));
    ranked.back().score = one.score;
  }
  return ranked;
}

void run(VectorStore& store, const StoreSearch& search, const std::string& query,
         const vector_store::SearchRequest& request, const Context& context) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<FoundPoint> found = search.is_hybrid ? search_hybrid(store, request) : store.search(request);
  if (!search.reranker.empty()) found = rerank(search, query, std::move(found));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  say(context, fmt::format("found {} in {:.3f} s", counted(found.size(), "vector"), seconds));
  if (context.wants_json()) {
    print_json(to_json(store, found));
  } else {
    print_data(to_table(found));
  }
}

}  // namespace

void search_store(const StoreSearch& search, const EncoderFlags& flags, const std::string& query,
                  const Context& context) {
  vector_store::SearchRequest request = request_of(search);
  // Before the model is loaded: a wrong address is known at once.
  const auto store = open(search);
  const OpenEncoder encoder = open_encoder(flags, context);
  vector_store::require_searchable(*store->facts(), encoder.embedder->encoder().model().name,
                                   "sha256:" + encoder.digest, encoder.dimension, store->shown());
  request.vector = encoder.embedder->embed(query, encoder.options);
  if (search.is_hybrid) {
    if (store->facts()->sparse_dimension == 0) {
      throw Error(ErrorCode::usage,
                  fmt::format("--hybrid: '{}' has dense vectors alone; 'gpux embed --to --hybrid' stores both",
                              store->shown()));
    }
    embedding::EmbedOptions options = sparse_options(encoder);
    options.role = embedding::TextRole::query;
    embedding::Embedding sparse = encoder.embedder->represent(query, options);
    request.sparse = {std::move(sparse.indices), std::move(sparse.values)};
  }
  run(*store, search, query, request, context);
}

void search_store(const StoreSearch& search, std::vector<float> query, const Context& context) {
  vector_store::SearchRequest request = request_of(search);
  const auto store = open(search);
  vector_store::require_searchable(*store->facts(), {}, {}, query.size(), store->shown());
  request.vector = std::move(query);
  run(*store, search, {}, request, context);
}

}  // namespace gpux::cli

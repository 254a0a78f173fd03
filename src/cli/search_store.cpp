#include "cli/search_store.h"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/counted.h"
#include "cli/print_json.h"
#include "cli/pull_flag.h"
#include "cli/short_text.h"
#include "cli/table.h"
#include "gpux/error.h"
#include "library/collection_texts.h"
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
  auto facts = require_collection(*store);
  return {std::move(store), std::move(facts)};
}

TextSearch search_of(const StoreSearch& given) {
  TextSearch search{.count = given.count, .is_exact = given.is_exact, .is_hybrid = given.is_hybrid};
  for (const std::string& condition : given.where) search.filter.push_back(vector_store::parse_condition(condition));
  return search;
}

struct Reranker {
  OpenModel model;
  Runtime runtime;
};

// It runs as the model of the vectors does, with all of its flags, and in a worker where that does.
Reranker open_reranker(const StoreSearch& search, const EncoderFlags& flags, const Context& context) {
  OpenModel model = open_model(pull_argument(search.reranker, flags.pull, context), {}, flags.load);
  require_one_model(model.located, "--rerank");
  model.open_inputs();
  if (!model.pipeline || model.pipeline->settings().task != pipeline::Task::text_ranking) {
    throw Error(ErrorCode::usage, fmt::format("--rerank: '{}' ranks no texts; accepted: cross-encoders, whose task is "
                                              "text-ranking",
                                              search.reranker));
  }
  Runtime runtime = model.load();
  return {std::move(model), std::move(runtime)};
}

std::vector<double> scores_of(const Reranker& ranker, const std::string& query, const std::vector<std::string>& texts) {
  const NamedValues outputs =
      pipeline::infer(*ranker.model.pipeline, ranker.runtime,
                      {{"query", Tensor::of_strings({1}, {query})},
                       {"text", Tensor::of_strings({static_cast<std::int64_t>(texts.size())}, texts)}},
                      {.timeout = ranker.model.settings.timeout(), .outputs = {"scores"}});
  const std::span<const float> scores = outputs.front().second.tensor()->as<float>();
  return {scores.begin(), scores.end()};
}

void find_and_show(const OpenCollection& collection, const TextSearch& search, const TextQuery& query,
                   const Context& context) {
  VectorStore& store = *collection.store;
  const auto start = std::chrono::steady_clock::now();
  const std::vector<FoundPoint> found = find_texts(store, collection.facts, search, query);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  say(context, fmt::format("found {} in {:.3f} s", counted(found.size(), "vector"), seconds));
  if (context.wants_json()) {
    print_data(to_json(store, found));
  } else {
    print_data(to_table(found));
  }
}

}  // namespace

void search_store(const StoreSearch& given, const EncoderFlags& flags, const std::string& query,
                  const Context& context) {
  TextSearch search = search_of(given);
  // Before the model is loaded: a wrong address is known at once.
  const OpenCollection collection = open(given);
  const std::string& shown = collection.store->shown();
  require_searches(collection.facts, search, shown);
  const OpenEncoder encoder = open_encoder(flags, context);
  std::optional<Reranker> ranker;
  if (!given.reranker.empty()) {
    ranker.emplace(open_reranker(given, flags, context));
    search.rank = [&](const std::string& text, const std::vector<std::string>& texts) {
      return scores_of(*ranker, text, texts);
    };
  }
  find_and_show(collection, search, query_of(query, encoder, encoder.options, search, collection.facts, shown),
                context);
}

void search_store(const StoreSearch& given, std::vector<float> query, const Context& context) {
  const OpenCollection collection = open(given);
  vector_store::require_searchable(collection.facts, {}, {}, query.size(), collection.store->shown());
  find_and_show(collection, search_of(given), {.vector = std::move(query)}, context);
}

}  // namespace gpux::cli

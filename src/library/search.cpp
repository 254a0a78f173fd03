#include "gpux/search.h"

#include <fmt/format.h>

#include "base/counted.h"
#include "base/machine.h"
#include "embedding/stored_vectors.h"
#include "embedding/top_k.h"
#include "gpux/error.h"

namespace gpux {

struct SearchIndex::State {
  embedding::StoredVectors read;  ///< by open()
  std::vector<float> added;       ///< by add(); what was read is copied before the first of these
  std::size_t rows = 0, dimension = 0;
  std::vector<std::string> ids, texts;  ///< a row each

  [[nodiscard]] std::span<const float> elements() const { return added.empty() ? read.elements : added; }
};

SearchIndex::SearchIndex() : state_(std::make_unique<State>()) {}

SearchIndex::~SearchIndex() = default;
SearchIndex::SearchIndex(SearchIndex&&) noexcept = default;
SearchIndex& SearchIndex::operator=(SearchIndex&&) noexcept = default;

SearchIndex SearchIndex::open(const std::filesystem::path& place) {
  SearchIndex index;
  State& state = *index.state_;
  state.read = embedding::read_stored_vectors(place);
  state.rows = state.read.rows;
  state.dimension = state.read.dimension;
  const auto fill = [&](const std::vector<std::optional<std::string>>& list, std::vector<std::string>& out) {
    for (std::size_t row = 0; row < state.rows; ++row) {
      out.push_back(row < list.size() ? list[row].value_or("") : std::string());
    }
  };
  fill(state.read.ids.empty() ? state.read.hashes : state.read.ids, state.ids);
  fill(state.read.texts, state.texts);
  return index;
}

void SearchIndex::add(std::span<const float> vector, std::string text, std::string id) {
  State& state = *state_;
  if (vector.empty()) throw Error(ErrorCode::invalid_input, "a vector of no elements cannot be searched");
  if (state.rows != 0 && vector.size() != state.dimension) {
    throw Error(ErrorCode::invalid_input, fmt::format("the vector has {}, those before it have {}",
                                                      counted(vector.size(), "dimension"), state.dimension));
  }
  if (state.added.empty()) state.added.assign(state.read.elements.begin(), state.read.elements.end());
  state.added.insert(state.added.end(), vector.begin(), vector.end());
  state.dimension = vector.size();
  ++state.rows;
  state.texts.push_back(std::move(text));
  state.ids.push_back(std::move(id));
}

std::size_t SearchIndex::size() const noexcept {
  return state_->rows;
}

std::size_t SearchIndex::dimension() const noexcept {
  return state_->dimension;
}

std::vector<SearchHit> SearchIndex::search(std::span<const float> query, std::size_t count, unsigned threads,
                                           Similarity similarity) const {
  const State& state = *state_;
  if (state.rows == 0) return {};
  if (query.size() != state.dimension) {
    throw Error(ErrorCode::invalid_input, fmt::format("the query has {}, the vectors have {}",
                                                      counted(query.size(), "dimension"), state.dimension));
  }
  std::vector<SearchHit> hits;
  for (const embedding::Match& match :
       embedding::top_k(state.elements(), query, count, threads == 0 ? usable_processors(Machine::this_one()) : threads,
                        similarity)) {
    hits.push_back({match.index, match.score, state.ids[match.index], state.texts[match.index]});
  }
  return hits;
}

std::vector<SearchHit> SearchIndex::search(const Embedder& embedder, std::string_view text, std::size_t count,
                                           const EmbeddingOptions& options) const {
  const embedding::StoredVectors& read = state_->read;
  if (!read.digest.empty() && read.digest != "sha256:" + embedder.digest()) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("the vectors were made by model '{}' ({}), and this one is sha256:{}", read.model,
                            read.digest, embedder.digest()));
  }
  return search(embedder.embed(text, options), count, 0, embedder.similarity());
}

}  // namespace gpux

#include "embedding/top_k.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>

#include "base/start_thread.h"
#include "gpux/error.h"

namespace gpux::embedding {
namespace {

// Four sums in a vector register, and several of these side by side: an addition need not wait for the one before.
// Their number fixes the order of the additions, so that equal rows have equal scores.
using Lanes = float __attribute__((vector_size(16)));
constexpr std::size_t lanes = sizeof(Lanes) / sizeof(float), side_by_side = 4;
using Sums = std::array<Lanes, side_by_side>;

Lanes loaded(const float* from) {
  Lanes values;
  std::memcpy(&values, from, sizeof(values));  // rows need not be aligned
  return values;
}

double sum_of(const Sums& sums) {
  double sum = 0;
  for (const Lanes& each : sums) {
    for (std::size_t i = 0; i < lanes; ++i) sum += double{each[i]};
  }
  return sum;
}

double length_of(std::span<const float> vector) {
  double squares = 0;
  for (const float element : vector) squares += double{element} * double{element};
  return std::sqrt(squares);
}

// `query` has length 1. NaN where the row has no score.
float cosine(const float* row, const float* query, std::size_t width) {
  constexpr std::size_t step = lanes * side_by_side;
  Sums products{}, squares{};
  std::size_t at = 0;
  for (; at + step <= width; at += step) {
    for (std::size_t i = 0; i < side_by_side; ++i) {
      const Lanes elements = loaded(row + at + i * lanes);
      products[i] += elements * loaded(query + at + i * lanes);
      squares[i] += elements * elements;
    }
  }
  for (std::size_t i = 0; at < width; ++at, ++i) {
    products[i / lanes][i % lanes] += row[at] * query[at];
    squares[i / lanes][i % lanes] += row[at] * row[at];
  }
  const double length = std::sqrt(sum_of(squares));
  if (std::isinf(length)) return std::nanf("");
  return length == 0 ? 0 : static_cast<float>(std::clamp(sum_of(products) / length, -1.0, 1.0));
}

// Sums over the elements; NaN where the row has no score.
template <typename Term>
float sum_of_terms(const float* row, std::span<const float> query, const Term& term) {
  double sum = 0;
  for (std::size_t i = 0; i < query.size(); ++i) sum += term(double{row[i]}, double{query[i]});
  return std::isfinite(sum) ? static_cast<float>(sum) : std::nanf("");
}

// `query` is as by direction_of() for cosine.
float score_of(Similarity similarity, const float* row, std::span<const float> query) {
  switch (similarity) {
    case Similarity::cosine:
      break;
    case Similarity::dot:
      return sum_of_terms(row, query, [](double x, double y) { return x * y; });
    case Similarity::euclidean:
      return 0 - std::sqrt(sum_of_terms(row, query, [](double x, double y) { return (x - y) * (x - y); }));
    case Similarity::manhattan:
      return sum_of_terms(row, query, [](double x, double y) { return -std::fabs(x - y); });
  }
  return cosine(row, query.data(), query.size());
}

bool is_better(const Match& left, const Match& right) {
  return left.score != right.score ? left.score > right.score : left.index < right.index;
}

/// The best of those it is shown, in any order.
class Best {
 public:
  explicit Best(std::size_t k) : k_(k) {}

  void show(const Match& match) {
    if (std::isnan(match.score)) return;
    if (heap_.size() == k_) {
      if (!is_better(match, heap_.front())) return;
      std::pop_heap(heap_.begin(), heap_.end(), is_better);
      heap_.back() = match;
    } else {
      heap_.push_back(match);
    }
    std::push_heap(heap_.begin(), heap_.end(), is_better);
  }

  [[nodiscard]] const std::vector<Match>& matches() const { return heap_; }

 private:
  std::size_t k_;
  std::vector<Match> heap_;  // the worst in front
};

std::vector<float> direction_of(std::span<const float> query, Similarity similarity) {
  require_query(query, similarity);
  const double length = length_of(query);
  std::vector<float> direction;
  if (similarity != Similarity::cosine) return {query.begin(), query.end()};
  direction.reserve(query.size());
  for (const float element : query) direction.push_back(static_cast<float>(double{element} / length));
  return direction;
}

}  // namespace

void require_query(std::span<const float> query, Similarity similarity) {
  const double length = length_of(query);
  if (!query.empty() && std::isfinite(length) && (length != 0 || similarity != Similarity::cosine)) return;
  throw Error(ErrorCode::invalid_input, query.empty()
                                            ? "the query is empty"
                                            : "the query has no direction: it is all zeros, or has NaN or infinities");
}

std::vector<Match> top_k(std::span<const float> matrix, std::span<const float> query, std::size_t k, unsigned threads,
                         Similarity similarity) {
  constexpr std::size_t rows_at_a_time = 1024;
  const std::vector<float> direction = direction_of(query, similarity);
  const std::size_t width = query.size(), rows = matrix.size() / width;
  if (rows * width != matrix.size()) throw Error(ErrorCode::invalid_input, "the vectors are not as long as the query");
  k = std::min(k, rows);
  if (k == 0) return {};

  std::vector<Best> best(std::max(threads, 1U), Best(k));
  std::atomic<std::size_t> next = 0;
  const auto work = [&](Best& own) {
    for (std::size_t begin = 0; (begin = next.fetch_add(rows_at_a_time)) < rows;) {
      const std::size_t end = std::min(begin + rows_at_a_time, rows);
      for (std::size_t row = begin; row < end; ++row) {
        own.show({row, score_of(similarity, matrix.data() + row * width, direction)});
      }
    }
  };
  {
    std::atomic<std::size_t> first_free = 1;
    const std::vector<std::jthread> others =
        start_more_threads(best.size() - 1, [&] { work(best[first_free.fetch_add(1)]); });
    work(best.front());
  }
  Best all(k);
  for (const Best& own : best) {
    for (const Match& match : own.matches()) all.show(match);
  }
  std::vector<Match> matches = all.matches();
  std::sort(matches.begin(), matches.end(), is_better);
  return matches;
}

}  // namespace gpux::embedding

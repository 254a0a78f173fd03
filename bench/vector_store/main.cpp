// bench_vector_store URL DIMENSION VECTORS QUERIES COUNT MODE…: stores the vectors of a file of float32 as points of a
// collection, unless it has some, and searches for the queries of another, one after the other. MODE: default, exact.
// Prints one JSON object: seconds to store and to finish, and of each mode the milliseconds and the results of each
// query.
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/sha256.h"
#include "vector_store/vector_store.h"

namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;
using namespace gpux::vector_store;

constexpr std::size_t points_at_once = 1000;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Vectors of a file, by number.
class Vectors {
 public:
  Vectors(const char* file, std::size_t dimension) : file_(file), dimension_(dimension) {}

  [[nodiscard]] std::size_t size() const { return file_.bytes().size() / sizeof(float) / dimension_; }

  [[nodiscard]] std::vector<float> at(std::size_t number) const {
    const auto* begin = reinterpret_cast<const float*>(file_.bytes().data()) + number * dimension_;
    return {begin, begin + dimension_};
  }

 private:
  gpux::MappedFile file_;
  std::size_t dimension_;
};

void store(VectorStore& target, const Vectors& vectors) {
  std::vector<Point> points;
  for (std::size_t number = 0; number < vectors.size(); ++number) {
    const std::string text = std::to_string(number);
    points.push_back({.id = gpux::sha256_of(text), .vector = vectors.at(number), .sparse = {}, .text = text});
    if (points.size() < points_at_once && number + 1 < vectors.size()) continue;
    target.upsert(points);
    points.clear();
  }
}

Json search(VectorStore& target, const Vectors& queries, std::size_t count, bool is_exact) {
  Json times = Json::array(), results = Json::array();
  for (std::size_t number = 0; number < queries.size(); ++number) {
    const SearchRequest request{
        .vector = queries.at(number), .sparse = {}, .count = count, .filter = {}, .is_exact = is_exact};
    const auto start = Clock::now();
    const std::vector<FoundPoint> found = target.search(request);
    times.push_back(seconds_since(start) * 1000);
    Json numbers = Json::array();
    for (const FoundPoint& point : found) numbers.push_back(std::stoul(point.text));
    results.push_back(std::move(numbers));
  }
  return {{"ms", std::move(times)}, {"results", std::move(results)}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) return 2;
  const std::size_t dimension = std::stoul(argv[2]), count = std::stoul(argv[5]);
  const Vectors vectors(argv[3], dimension), queries(argv[4], dimension);
  const auto target = open_store(parse_store_url(argv[1]));
  Json out = Json::object();
  if (!target->facts()) {
    target->create({.model = "bench",
                    .digest = "sha256:bench",
                    .precision = "fp32",
                    .dimension = dimension,
                    .is_normalized = true,
                    .prompt = {}});
    auto start = Clock::now();
    store(*target, vectors);
    out["store_s"] = seconds_since(start);
    start = Clock::now();
    target->finish();
    out["index_s"] = seconds_since(start);
  }
  (void)search(*target, queries, count, false);  // what is read from the disk is not measured
  for (int i = 6; i < argc; ++i) {
    const std::string mode = argv[i];
    out[mode] = search(*target, queries, count, mode == "exact");
  }
  fmt::print("{}\n", out.dump());
  return 0;
}

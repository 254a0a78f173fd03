#include "vector_store/local/vectors_file.h"

#include <cstring>
#include <memory>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "base/scratch_folder.h"
#include "base/sha256.h"
#include "gpux/error.h"
#include "vector_store/local/file_search.h"
#include "vector_store/local/graph.h"
#include "vector_store/vector_store.h"

namespace gpux::vector_store {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::size_t dimension = 16;

std::vector<float> random_vector(std::mt19937& random, std::size_t size = dimension) {
  std::normal_distribution<float> normal;
  std::vector<float> vector(size);
  for (float& element : vector) element = normal(random);
  return vector;
}

std::vector<Point> random_points(std::size_t count, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::vector<Point> points(count);
  for (std::size_t i = 0; i < count; ++i) {
    points[i] = {.id = sha256_of(fmt::format("{}", i)),
                 .vector = random_vector(random),
                 .sparse = {{static_cast<std::uint32_t>(i % 7)}, {1.5F}},
                 .text = fmt::format("text {}", i),
                 .payload = {{"number", i}, {"third", i % 3 == 0}}};
  }
  return points;
}

CollectionFacts facts_of(Similarity distance = Similarity::cosine) {
  return {.model = "m",
          .digest = "sha256:aa",
          .precision = "fp32",
          .dimension = dimension,
          .distance = distance,
          .sparse_dimension = 7};
}

std::vector<const Point*> pointers_to(const std::vector<Point>& points) {
  std::vector<const Point*> pointers;
  for (const Point& point : points) pointers.push_back(&point);
  return pointers;
}

std::vector<const float*> table_of(const std::vector<Point>& points) {
  std::vector<const float*> vectors;
  for (const Point& point : points) vectors.push_back(point.vector.data());
  return vectors;
}

// At a multiple of eight, as a mapped file.
std::span<const std::byte> bytes_of(const std::string& text, std::vector<std::uint64_t>& room) {
  room.resize(text.size() / 8 + 1);
  std::memcpy(room.data(), text.data(), text.size());
  return std::as_bytes(std::span(room)).first(text.size());
}

std::string file_with_graph(std::size_t count) {
  const std::vector<Point> points = random_points(count);
  const auto pointers = pointers_to(points);
  std::vector<std::uint32_t> indices(count);
  for (std::size_t i = 0; i < count; ++i) indices[i] = static_cast<std::uint32_t>(i);
  const auto graph = Graph::build(indices, table_of(points), distance_of(Similarity::cosine), dimension, 1);
  return file_header(facts_of()) + point_segment(pointers, dimension, {}) + graph_segment(graph->bytes(), count);
}

class Scratch : public testing::Test {
 protected:
  [[nodiscard]] std::unique_ptr<VectorStore> open() const {
    return open_store(parse_store_url("file:" + (folder_.path() / "x.gpux").string()));
  }

  ScratchFolder folder_;
};

using VectorsFileTest = Scratch;

TEST_F(VectorsFileTest, IsReadBackAsItWasWritten) {
  const std::vector<Point> points = random_points(5);
  const auto store = open();
  EXPECT_EQ(store->facts(), std::nullopt);
  store->create(facts_of());
  store->upsert(std::span(points).first(3));
  store->upsert(std::span(points).subspan(2));
  EXPECT_TRUE(store->has(points[4].id));
  EXPECT_FALSE(store->has(sha256_of("other")));
  const auto other = open();
  EXPECT_EQ(other->facts(), facts_of());
  EXPECT_EQ(other->count(), 5U);
  for (const Point& point : points) {
    const auto found = other->search({.vector = point.vector, .count = 1});
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].id, point.id);
    EXPECT_EQ(found[0].text, point.text);
    EXPECT_EQ(found[0].payload, point.payload);
  }
  const auto sparse = other->search({.sparse = {{4}, {2}}});
  ASSERT_EQ(sparse.size(), 1U);
  EXPECT_EQ(sparse[0].id, points[4].id);
  EXPECT_EQ(sparse[0].score, 3);
}

TEST_F(VectorsFileTest, TheLaterOfTwoPointsOfAnIdCounts) {
  std::vector<Point> points = random_points(2);
  points[1].id = points[0].id;
  const auto store = open();
  store->create(facts_of());
  store->upsert(points);
  EXPECT_EQ(store->search({.vector = points[0].vector})[0].text, "text 1");
  points[1].text = "third";
  store->upsert(std::span(points).subspan(1));
  EXPECT_EQ(store->count(), 1U);
  EXPECT_EQ(store->search({.vector = points[0].vector}).size(), 1U);
  EXPECT_EQ(store->search({.vector = points[0].vector})[0].text, "third");
}

TEST_F(VectorsFileTest, HasOneProcessThatWrites) {
  const auto store = open(), other = open();
  store->create(facts_of());
  try {
    other->create(facts_of());
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::storage);
    EXPECT_THAT(error.message(), HasSubstr("another process writes it"));
  }
}

TEST_F(VectorsFileTest, AReaderFindsWhatAnotherStoresMeanwhile) {
  const std::vector<Point> points = random_points(200);
  const auto writer = open(), reader = open();
  EXPECT_EQ(reader->count(), 0U);
  writer->create(facts_of());
  writer->upsert(std::span(points).first(150));
  EXPECT_EQ(reader->count(), 150U);
  EXPECT_FALSE(reader->has(points[160].id));
  writer->upsert(std::span(points).subspan(100));
  EXPECT_EQ(reader->count(), 200U);
  EXPECT_TRUE(reader->has(points[160].id));
  EXPECT_EQ(reader->search({.vector = points[160].vector, .count = 1}).front().id, points[160].id);
  writer->finish();
  EXPECT_EQ(writer->count(), 200U);
  EXPECT_EQ(reader->count(), 200U);
}

// Only what follows the index reads it.
TEST_F(VectorsFileTest, AWrongIndexIsNoMatterToAnExactSearch) {
  std::string wrong = file_with_graph(300);
  const std::size_t graph = wrong.rfind("GPUXSEG1") + 56;
  wrong[graph + 8] = 99;
  const PointId digest = id_bytes(sha256_of(std::string_view(wrong).substr(graph)));
  std::memcpy(wrong.data() + graph - 32, digest.data(), digest.size());
  write_file_atomically(folder_.path() / "x.gpux", wrong);
  const auto store = open();
  const std::vector<float> query = random_points(8)[7].vector;
  EXPECT_EQ(store->count(), 300U);
  EXPECT_EQ(store->search({.vector = query, .count = 1, .is_exact = true}).front().text, "text 7");
  EXPECT_THROW((void)store->search({.vector = query, .count = 1}), Error);
}

TEST_F(VectorsFileTest, IsOneFileByWhicheverPathItIsNamed) {
  const std::string folder = (folder_.path() / "new" / "folder").string();
  const auto store = open_store(parse_store_url("file:" + folder + "/x.gpux"));
  store->create(facts_of());
  std::filesystem::create_symlink(folder + "/x.gpux", folder_.path() / "link");
  const auto other = open_store(parse_store_url("file:" + (folder_.path() / "link").string()));
  EXPECT_EQ(other->facts(), facts_of());
  EXPECT_THROW(other->create(facts_of()), Error);
}

TEST_F(VectorsFileTest, ManySmallSegmentsBecomeFew) {
  const std::vector<Point> points = random_points(200);
  const auto store = open();
  store->create(facts_of());
  for (const Point& point : points) store->upsert(std::span(&point, 1));
  store->upsert(std::span(points).first(50));
  const auto before = store->search({.vector = points[7].vector, .count = 20});
  store->finish();
  const auto after = open()->search({.vector = points[7].vector, .count = 20});
  EXPECT_EQ(open()->count(), 200U);
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t i = 0; i < after.size(); ++i) EXPECT_EQ(after[i].id, before[i].id);
  const MappedFile file(folder_.path() / "x.gpux");
  EXPECT_EQ(read_vectors_file(file.bytes(), "x").segments.size(), 1U);
}

// A process is killed, or the power goes, while the last segment is written.
TEST_F(VectorsFileTest, CountsWhatIsWhole) {
  const std::vector<Point> points = random_points(6);
  const auto pointers = pointers_to(points);
  const std::string first = file_header(facts_of()) + point_segment(std::span(pointers).first(4), dimension, {});
  const std::string whole = first + point_segment(std::span(pointers).subspan(4), dimension, {});
  std::vector<std::uint64_t> room;
  for (std::size_t size = first.size(); size < whole.size(); size += 7) {
    EXPECT_EQ(read_vectors_file(bytes_of(whole.substr(0, size), room), "x").points, 4U) << size;
    std::string zeros = whole;
    std::fill(zeros.begin() + static_cast<std::ptrdiff_t>(size), zeros.end(), '\0');
    const bool has_changed = zeros != whole;
    EXPECT_EQ(read_vectors_file(bytes_of(zeros, room), "x").points, has_changed ? 4U : 6U) << size;
  }
  EXPECT_EQ(read_vectors_file(bytes_of(whole, room), "x").points, 6U);
  std::string without_beginning = whole;
  std::fill_n(without_beginning.begin() + static_cast<std::ptrdiff_t>(first.size()), 40, '\0');
  EXPECT_EQ(read_vectors_file(bytes_of(without_beginning, room), "x").points, 4U);
  // The next to write goes on behind what is whole.
  write_file_atomically(folder_.path() / "x.gpux", whole.substr(0, whole.size() - 9));
  const auto store = open();
  store->create(facts_of());
  store->upsert(std::span(points).subspan(4));
  EXPECT_EQ(open()->count(), 6U);
}

// Whoever wrote it: nothing is read outside of it, and what is refused is an Error.
TEST_F(VectorsFileTest, OfAStrangerIsReadWithinItsBounds) {
  const std::string good = file_with_graph(300);
  std::mt19937 random(7);
  std::uniform_int_distribution<std::size_t> place(0, good.size() - 1);
  std::vector<std::uint64_t> room;
  int refused = 0, searched = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    std::string wrong = good;
    for (int change = 0; change < 1 + trial % 4; ++change) {
      // Mostly in the heads and in the graph, whose numbers are positions.
      const std::size_t at = trial % 2 == 0 ? place(random) : good.size() - 1 - place(random) % (good.size() / 2);
      wrong[at] = static_cast<char>(random());
    }
    // So that the digest of the last segment does not hide it.
    const std::size_t head = wrong.rfind("GPUXSEG1");
    if (head != std::string::npos && head + 56 <= wrong.size()) {
      const PointId digest = id_bytes(sha256_of(std::string_view(wrong).substr(head + 56)));
      std::memcpy(wrong.data() + head + 24, digest.data(), digest.size());
    }
    try {
      const VectorsFile file = read_vectors_file(bytes_of(wrong, room), "x");
      const PointsInFile points(file);
      const auto graph = file.graph.empty() ? nullptr : Graph::read(file.graph, file.indexed, "x");
      SearchRequest request{.vector = std::vector<float>(file.facts.dimension, 1.0F), .count = 5};
      for (const bool is_exact : {false, true}) {
        request.is_exact = is_exact;
        (void)search_file({file, points, graph.get(), 1, "x"}, request);
      }
      request.is_exact = false;
      request.filter = {parse_condition("third=true")};
      (void)search_file({file, points, graph.get(), 1, "x"}, request);
      ++searched;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_input) << error.message();
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(searched, 100);
}

// The condition is looked at within the index's own search.
TEST_F(VectorsFileTest, APayloadThatIsNoObjectIsRefusedBehindAFilter) {
  std::string wrong = file_with_graph(300);
  const std::size_t payload = wrong.find(R"({"number":7,)");
  ASSERT_NE(payload, std::string::npos);
  wrong[payload] = '[';
  std::vector<std::uint64_t> room;
  const VectorsFile file = read_vectors_file(bytes_of(wrong, room), "x");
  const PointsInFile points(file);
  const auto graph = Graph::read(file.graph, file.indexed, "x");
  const SearchRequest request{
      .vector = random_points(8)[7].vector, .count = 5, .filter = {parse_condition("third=true")}};
  try {
    (void)search_file({file, points, graph.get(), 1, "x"}, request);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("the payload of a point is no JSON object"));
  }
}

TEST_F(VectorsFileTest, AnyNumberOfResultsMayBeAskedFor) {
  const std::string text = file_with_graph(300);
  std::vector<std::uint64_t> room;
  const VectorsFile file = read_vectors_file(bytes_of(text, room), "x");
  const PointsInFile points(file);
  const auto graph = Graph::read(file.graph, file.indexed, "x");
  for (const std::size_t count : {std::size_t{300}, std::size_t{1} << 31, SIZE_MAX}) {
    SearchRequest request{.vector = random_points(1)[0].vector, .count = count};
    EXPECT_EQ(search_file({file, points, graph.get(), 1, "x"}, request).size(), 300U) << count;
    request.filter = {parse_condition("third=true")};
    EXPECT_EQ(search_file({file, points, graph.get(), 1, "x"}, request).size(), 100U) << count;
    request = {.sparse = {{3}, {1}}, .count = count};
    EXPECT_EQ(search_file({file, points, graph.get(), 1, "x"}, request).size(), 43U) << count;
  }
}

TEST_F(VectorsFileTest, AFalseNumberInItIsRefused) {
  const std::string good = file_with_graph(50);
  std::vector<std::uint64_t> room;
  const auto refusal = [&](auto change) {
    std::string wrong = good;
    change(wrong);
    try {
      const VectorsFile file = read_vectors_file(bytes_of(wrong, room), "x");
      (void)Graph::read(file.graph, file.indexed, "x");
    } catch (const Error& error) {
      return error.message();
    }
    return std::string("accepted");
  };
  const std::size_t points = good.find("GPUXSEG1"), graph = good.rfind("GPUXSEG1") + 56;
  const auto repaired = [&](std::string& file) {
    const PointId digest = id_bytes(sha256_of(std::string_view(file).substr(graph)));
    std::memcpy(file.data() + graph - 32, digest.data(), digest.size());
  };
  EXPECT_EQ(refusal([](std::string&) {}), "accepted");
  EXPECT_THAT(refusal([](std::string& f) { f[0] = 'X'; }), HasSubstr("does not begin as one"));
  EXPECT_THAT(refusal([](std::string& f) { f[60] ^= 1; }), HasSubstr("another digest"));
  EXPECT_THAT(refusal([&](std::string& f) { f[points] = 'X'; }), HasSubstr("does not begin as one"));
  EXPECT_THAT(refusal([&](std::string& f) { f[points + 8] = 3; }), HasSubstr("unknown kind"));
  EXPECT_THAT(refusal([&](std::string& f) { f[points + 12] = 127; }), HasSubstr("is cut"));
  EXPECT_THAT(refusal([&](std::string& f) { f[points + 56] = 1; }), HasSubstr("replaces points that are not there"));
  const auto graph_refusal = [&](std::size_t at, char value) {
    return refusal([&](std::string& f) {
      f[graph + at] = value;
      repaired(f);
    });
  };
  EXPECT_THAT(graph_refusal(0, 51), HasSubstr("its size is wrong"));
  EXPECT_THAT(graph_refusal(8, 99), HasSubstr("another number of neighbors"));
  EXPECT_THAT(graph_refusal(32, 50), HasSubstr("its entry is not there"));
  EXPECT_THAT(graph_refusal(41, 1), HasSubstr("a level is wrong"));
  const std::size_t first_node = 40 + 50 * 2;
  EXPECT_THAT(graph_refusal(first_node, 50), HasSubstr("a vector is not there"));
  EXPECT_THAT(graph_refusal(first_node + 10, 33), HasSubstr("too many neighbors"));
  EXPECT_THAT(graph_refusal(first_node + 14, 50), HasSubstr("a neighbor is not there"));
}

TEST(Distance, OrdersAsTheExactSearchDoes) {
  std::mt19937 random(3);
  for (const auto& [name, similarity] : similarity_names) {
    for (const std::size_t size : {1U, 7U, 8U, 31U, 64U}) {
      const std::vector<float> query = random_vector(random, size);
      std::vector<float> rows;
      for (int i = 0; i < 50; ++i) {
        const std::vector<float> row = random_vector(random, size);
        rows.insert(rows.end(), row.begin(), row.end());
      }
      float before = -std::numeric_limits<float>::max();
      for (const embedding::Match& match : embedding::top_k(rows, query, 50, 1, similarity)) {
        const float distance = distance_of(similarity)(query.data(), rows.data() + match.index * size, size);
        EXPECT_GE(distance, before - 1e-4F) << name << " " << size;
        before = distance;
      }
    }
  }
  // Among vectors of the length 1, the product has the order of the angle.
  std::vector<float> left = random_vector(random, 40), near = left, far = random_vector(random, 40);
  near[0] += 0.1F;
  for (std::vector<float>* vector : {&near, &far}) {
    float squares = 0;
    for (const float element : *vector) squares += element * element;
    for (float& element : *vector) element /= std::sqrt(squares);
  }
  const Distance of_unit_vectors = distance_of(Similarity::cosine, true);
  EXPECT_LT(of_unit_vectors(left.data(), near.data(), 40), of_unit_vectors(left.data(), far.data(), 40));
  const float nan = std::nanf("");
  EXPECT_FALSE(std::isnan(distance_of(Similarity::cosine)(&nan, &nan, 1)));
}

// Recall among vectors without any order is the hardest.
TEST(Graph, FindsAlmostAllOfTheNearest) {
  constexpr std::size_t count = 3000, wanted = 10, queries = 50;
  const std::vector<Point> points = random_points(count);
  const auto pointers = pointers_to(points);
  std::vector<std::uint32_t> indices(count);
  for (std::size_t i = 0; i < count; ++i) indices[i] = static_cast<std::uint32_t>(i);
  const auto graph = Graph::build(indices, table_of(points), distance_of(Similarity::cosine), dimension, 2);
  const std::string text =
      file_header(facts_of()) + point_segment(pointers, dimension, {}) + graph_segment(graph->bytes(), count);
  std::vector<std::uint64_t> room;
  const VectorsFile file = read_vectors_file(bytes_of(text, room), "x");
  const PointsInFile in_file(file);
  const auto read = Graph::read(file.graph, file.indexed, "x");
  std::mt19937 random(11);
  std::size_t found = 0;
  for (std::size_t i = 0; i < queries; ++i) {
    SearchRequest request{.vector = random_vector(random), .count = wanted};
    const auto near = search_file({file, in_file, read.get(), 1, "x"}, request);
    const auto nearest = search_file({file, in_file, nullptr, 1, "x"}, request);
    for (const embedding::Match& match : nearest) found += std::ranges::count(near, match);
  }
  EXPECT_GE(found, queries * wanted * 95 / 100);
}

TEST(Graph, FindsOnlyWhatIsWanted) {
  const std::vector<Point> points = random_points(500);
  std::vector<std::uint32_t> indices(points.size());
  for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<std::uint32_t>(i);
  const std::vector<const float*> vectors = table_of(points);
  const Distance distance = distance_of(Similarity::dot);
  const auto graph = Graph::build(indices, vectors, distance, dimension, 1);
  const auto found = graph->search(points[3].vector.data(), 3, 10, vectors, distance, dimension,
                                   [](std::uint32_t index) { return index == 77 || index == 78; });
  EXPECT_THAT(found, testing::UnorderedElementsAre(77U, 78U));
}

}  // namespace
}  // namespace gpux::vector_store

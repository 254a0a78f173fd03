#include "vector_store/local/graph.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <new>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <usearch/index.hpp>

#include "base/start_thread.h"
#include "gpux/error.h"

namespace gpux::vector_store {
namespace {

namespace us = unum::usearch;

/// Gives null where memory is short: the library looks for that, and its functions are noexcept.
template <typename Element>
struct NothrowAllocator {
  using value_type = Element;

  static Element* allocate(std::size_t count) noexcept {
    if (count > PTRDIFF_MAX / sizeof(Element)) return nullptr;
    return static_cast<Element*>(::operator new(count * sizeof(Element), alignment, std::nothrow));
  }

  static void deallocate(Element* elements, std::size_t /*count*/) noexcept { ::operator delete(elements, alignment); }

  static constexpr std::align_val_t alignment{alignof(Element)};
};

using Index = us::index_gt<float, std::uint64_t, std::uint32_t, NothrowAllocator<us::byte_t>>;

constexpr std::size_t base_connectivity = 2 * Graph::connectivity;
constexpr std::size_t max_level = 64;

/// What usearch compares: an entry of the graph, by its key, with another or with a query.
struct Metric {
  VectorTable vectors;
  Distance distance;
  std::size_t dimension;

  template <typename Entry>
  [[nodiscard]] const float* of(const Entry& entry) const {
    return vectors[static_cast<std::size_t>(get_key(entry))];
  }

  template <typename Entry>
  float operator()(const float* query, const Entry& entry) const {
    return distance(query, of(entry), dimension);
  }

  template <typename Left, typename Right>
    requires(!std::is_convertible_v<Left, const float*>)
  float operator()(const Left& left, const Right& right) const {
    return distance(of(left), of(right), dimension);
  }
};

/// Fetches the beginnings of vectors that are compared next: the processor fetches the rest as it reads on.
struct Prefetch {
  VectorTable vectors;
  std::size_t dimension;

  template <typename Entries>
  void operator()(Entries begin, Entries end) const noexcept {
    constexpr std::size_t line = 64 / sizeof(float), lines = 4;
    for (; begin != end; ++begin) {
      const float* const vector = vectors[static_cast<std::size_t>(get_key(begin))];
      for (std::size_t i = 0; i < std::min(dimension, lines * line); i += line) __builtin_prefetch(vector + i);
    }
  }
};

[[noreturn]] void refuse_graph(std::string_view shown, std::string_view what) {
  throw Error(ErrorCode::invalid_input, fmt::format("'{}': its index is not usable: {}", shown, what));
}

[[noreturn]] void fail_graph(const char* what) {
  throw Error(ErrorCode::resource_exhausted, fmt::format("the index of the vectors cannot be made: {}", what));
}

template <typename Number>
Number number_at(std::span<const std::byte> bytes, std::size_t at) {
  Number number{};
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

/// usearch's format: a header, the level of each node, and the nodes: key, level, and for each level up to its own the
/// number of neighbors and room for as many as there may be.
class GraphCheck {
 public:
  GraphCheck(std::span<const std::byte> bytes, std::size_t vectors, std::string_view shown)
      : bytes_(bytes), vectors_(vectors), shown_(shown) {}

  /// The bytes that belong to the graph.
  std::size_t check() {
    check_header();
    std::size_t at = sizeof(us::index_serialized_header_t) + size_ * sizeof(std::int16_t);
    for (std::size_t node = 0; node < size_; ++node) at = check_node(node, at);
    return at;
  }

 private:
  void require(bool condition, std::string_view what) const {
    if (!condition) refuse_graph(shown_, what);
  }

  [[nodiscard]] std::int16_t level_of(std::size_t node) const {
    return number_at<std::int16_t>(bytes_, sizeof(us::index_serialized_header_t) + node * sizeof(std::int16_t));
  }

  void check_header() {
    require(bytes_.size() >= sizeof(us::index_serialized_header_t), "it is cut");
    const auto header = number_at<us::index_serialized_header_t>(bytes_, 0);
    require(header.size != 0 && header.size <= vectors_, "its size is wrong");
    size_ = static_cast<std::size_t>(header.size);
    require(header.connectivity == Graph::connectivity && header.connectivity_base == base_connectivity,
            "it has another number of neighbors");
    require(bytes_.size() - sizeof header >= size_ * sizeof(std::int16_t), "it is cut");
    for (std::size_t node = 0; node < size_; ++node) {
      const std::int16_t level = level_of(node);
      require(level >= 0 && static_cast<std::size_t>(level) <= max_level, "a level is wrong");
    }
    require(header.entry_slot < size_, "its entry is not there");
    require(header.max_level == static_cast<std::uint64_t>(level_of(static_cast<std::size_t>(header.entry_slot))),
            "its entry is not at the top");
  }

  // Gives where the next node begins.
  std::size_t check_node(std::size_t node, std::size_t at) {
    const auto level = static_cast<std::size_t>(level_of(node));
    const std::size_t head = sizeof(std::uint64_t) + sizeof(std::int16_t);
    const std::size_t size = head + room(base_connectivity) + level * room(Graph::connectivity);
    require(bytes_.size() - at >= size, "it is cut");
    require(number_at<std::uint64_t>(bytes_, at) < vectors_, "a vector is not there");
    require(number_at<std::int16_t>(bytes_, at + sizeof(std::uint64_t)) == level_of(node), "a level is wrong");
    std::size_t list = at + head;
    for (std::size_t layer = 0; layer <= level; ++layer) {
      const std::size_t most = layer == 0 ? base_connectivity : Graph::connectivity;
      check_neighbors(list, most, layer);
      list += room(most);
    }
    return at + size;
  }

  static std::size_t room(std::size_t neighbors) { return (neighbors + 1) * sizeof(std::uint32_t); }

  // A neighbor of a layer has neighbors of its own in this layer.
  void check_neighbors(std::size_t at, std::size_t most, std::size_t layer) const {
    const auto count = number_at<std::uint32_t>(bytes_, at);
    require(count <= most, "a vector has too many neighbors");
    for (std::size_t i = 1; i <= count; ++i) {
      const auto neighbor = number_at<std::uint32_t>(bytes_, at + i * sizeof(std::uint32_t));
      require(neighbor < size_ && static_cast<std::size_t>(level_of(neighbor)) >= layer, "a neighbor is not there");
    }
  }

  std::span<const std::byte> bytes_;
  std::size_t vectors_, size_ = 0;
  std::string_view shown_;
};

}  // namespace

struct Graph::State {
  Index index{us::index_config_t(connectivity, base_connectivity)};
};

Graph::Graph(std::unique_ptr<State> state) : state_(std::move(state)) {}

Graph::~Graph() = default;

std::unique_ptr<Graph> Graph::build(std::span<const std::uint32_t> indices, VectorTable vectors, Distance distance,
                                    std::size_t dimension, unsigned threads) {
  auto state = std::make_unique<State>();
  const std::size_t workers = std::max(threads, 1U);
  if (!state->index.try_reserve(us::index_limits_t(indices.size(), workers))) fail_graph("out of memory");
  const Metric metric{.vectors = vectors, .distance = distance, .dimension = dimension};
  const Prefetch prefetch{.vectors = vectors, .dimension = dimension};
  std::atomic<std::size_t> next = 0, next_thread = 0;
  std::atomic<const char*> problem = nullptr;
  const auto work = [&] {
    us::index_update_config_t config;
    config.expansion = build_candidates;
    config.thread = next_thread.fetch_add(1);
    for (std::size_t at = 0; problem == nullptr && (at = next.fetch_add(1)) < indices.size();) {
      const float* const vector = vectors[indices[at]];
      auto added = state->index.add(indices[at], vector, metric, config, us::dummy_callback_t{}, prefetch);
      if (added) continue;
      problem = added.error.release();
    }
  };
  {
    const std::vector<std::jthread> others = start_more_threads(workers - 1, work);
    work();
  }
  if (problem != nullptr) fail_graph(problem);
  return std::unique_ptr<Graph>(new Graph(std::move(state)));
}

std::unique_ptr<Graph> Graph::read(std::span<const std::byte> bytes, std::size_t count, std::string_view shown) {
  bytes = bytes.first(GraphCheck(bytes, count, shown).check());
  auto state = std::make_unique<State>();
  const auto take = [&](void* to, std::size_t size) {
    // Null where memory is short.
    if (to == nullptr || size > bytes.size()) return false;
    std::memcpy(to, bytes.data(), size);
    bytes = bytes.subspan(size);
    return true;
  };
  auto loaded = state->index.load_from_stream(take);
  if (!loaded) refuse_graph(shown, loaded.error.release());
  return std::unique_ptr<Graph>(new Graph(std::move(state)));
}

std::string Graph::bytes() const {
  std::string out;
  out.reserve(state_->index.serialized_length());
  const auto put = [&](const void* from, std::size_t count) {
    out.append(static_cast<const char*>(from), count);
    return true;
  };
  auto saved = state_->index.save_to_stream(put);
  if (!saved) fail_graph(saved.error.release());
  return out;
}

std::vector<std::uint32_t> Graph::search(const float* query, std::size_t count, std::size_t candidates,
                                         VectorTable vectors, Distance distance, std::size_t dimension,
                                         const IsWanted& is_wanted) const {
  const Metric metric{.vectors = vectors, .distance = distance, .dimension = dimension};
  us::index_search_config_t config;
  config.expansion = std::max(candidates, count);
  // The library's function is noexcept.
  std::exception_ptr failure;
  const auto passes = [&](const auto& member) noexcept {
    if (failure) return false;
    try {
      return is_wanted(static_cast<std::uint32_t>(get_key(member)));
    } catch (...) {
      failure = std::current_exception();
      return false;
    }
  };
  const Prefetch prefetch{.vectors = vectors, .dimension = dimension};
  auto result = state_->index.search(query, count, metric, config, passes, prefetch);
  if (failure) std::rethrow_exception(failure);
  if (!result) fail_graph(result.error.release());
  std::vector<std::uint32_t> found;
  for (std::size_t i = 0; i < result.size(); ++i) {
    found.push_back(static_cast<std::uint32_t>(get_key(result[i].member)));
  }
  return found;
}

}  // namespace gpux::vector_store

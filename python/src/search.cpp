#include <gpux/error.h>
#include <gpux/search.h>

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "interrupt.h"
#include "values.h"

namespace gpux::python {

namespace {

namespace nb = nanobind;

/// A search needs no GIL, so that another thread may add a vector meanwhile: it waits.
class VectorIndex {
 public:
  VectorIndex() = default;

  explicit VectorIndex(SearchIndex&& index) : index_(std::move(index)) {}

  void add(std::span<const float> vector, std::string text, std::string id) {
    const std::unique_lock lock(mutex_);
    index_.add(vector, std::move(text), std::move(id));
  }

  [[nodiscard]] std::vector<SearchHit> search(std::span<const float> query, std::size_t count, unsigned threads,
                                              Similarity similarity) const {
    const std::shared_lock lock(mutex_);
    return index_.search(query, count, threads, similarity);
  }

  [[nodiscard]] std::size_t size() const {
    const std::shared_lock lock(mutex_);
    return index_.size();
  }

  [[nodiscard]] std::size_t dimension() const {
    const std::shared_lock lock(mutex_);
    return index_.dimension();
  }

 private:
  mutable std::shared_mutex mutex_;
  SearchIndex index_;
};

Similarity similarity_from(const std::string& name) {
  for (const auto& [known, similarity] : similarity_names) {
    if (known == name) return similarity;
  }
  throw Error(ErrorCode::usage, "similarity is '" + name + "'; accepted: cosine, dot, euclidean, manhattan");
}

}  // namespace

void bind_search(nb::module_& module) {
  nb::class_<SearchHit>(module, "SearchHit", "A vector that was found.")
      .def_ro("index", &SearchHit::index, "In the order in which the vectors were added.")
      .def_ro("score", &SearchHit::score, "By the similarity of the search; distances are negative.")
      .def_ro("id", &SearchHit::id, "Empty if unknown.")
      .def_ro("text", &SearchHit::text, "Empty if unknown.")
      .def("__repr__", [](const SearchHit& hit) {
        return std::to_string(hit.index) + ": " + std::to_string(hit.score) + " " + hit.text;
      });

  nb::class_<VectorIndex>(module, "VectorIndex", "Vectors that are searched.")
      .def(nb::init<>())
      .def_static(
          "open",
          [](const std::filesystem::path& place) {
            return without_gil([&](const Interruptible& /*unused*/) {
              return std::make_unique<VectorIndex>(SearchIndex::open(place));
            });
          },
          nb::arg("place"))
      .def(
          "add",
          [](VectorIndex& index, nb::handle vector, std::string text, std::string id) {
            index.add(float_elements(vector, 1, "vector"), std::move(text), std::move(id));
          },
          nb::arg("vector"), nb::arg("text"), nb::arg("id"),
          nb::sig("def add(self, vector: numpy.typing.NDArray[numpy.float32], text: str, id: str) -> None"))
      .def(
          "search",
          [](const VectorIndex& index, nb::handle query, std::size_t count, unsigned threads,
             const std::string& similarity) {
            const std::span<const float> elements = float_elements(query, 1, "the query");
            const Similarity chosen = similarity_from(similarity);
            return without_gil(
                [&](const Interruptible& /*unused*/) { return index.search(elements, count, threads, chosen); });
          },
          nb::arg("query"), nb::arg("count"), nb::arg("threads"), nb::arg("similarity"),
          nb::sig("def search(self, query: numpy.typing.NDArray[numpy.float32], count: int, threads: int, "
                  "similarity: str) -> list[SearchHit]"))
      .def_prop_ro("size", &VectorIndex::size)
      .def_prop_ro("dimension", &VectorIndex::dimension);
}

}  // namespace gpux::python

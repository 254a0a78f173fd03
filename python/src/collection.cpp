#include <gpux/collection.h>
#include <gpux/error.h>

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "interrupt.h"
#include "loaded_embedder.h"
#include "loaded_pipeline.h"
#include "similarity_name.h"
#include "values.h"

namespace gpux::python {
namespace {

namespace nb = nanobind;

using Pairs = std::vector<std::pair<std::string, std::string>>;

/// A collection for calls of several threads, one after the other. Ctrl-C ends those that wait for a server.
class OpenCollection {
 public:
  explicit OpenCollection(std::string url) : url_(std::move(url)) { open(); }

  /// Calls `work(collection, interruptible)`.
  template <typename Work>
  auto on(const Work& work) {
    return without_gil([&](const Interruptible& interruptible) {
      const std::scoped_lock lock(mutex_);
      if (!collection_) throw Error(ErrorCode::usage, "the collection is closed: open another one");
      // What was stopped waits for no server any more.
      if (stop_.stop_requested()) open();
      const std::stop_callback stopping(interruptible.token(), [this] { stop_.request_stop(); });
      return work(*collection_, interruptible);
    });
  }

  void close() {
    without_gil([&](const Interruptible& /*unused*/) {
      const std::scoped_lock lock(mutex_);
      collection_.reset();
    });
  }

 private:
  void open() {
    stop_ = std::stop_source();
    collection_ = std::make_unique<Collection>(url_, stop_.get_token());
  }

  std::string url_;
  std::mutex mutex_;
  std::stop_source stop_;
  std::unique_ptr<Collection> collection_;
};

std::uint64_t upsert(OpenCollection& collection, const LoadedEmbedder& given, const Pairs& texts,
                     const EmbeddingOptions& embedding, bool is_hybrid) {
  const std::shared_ptr<const Embedder> embedder = given.opened();
  const CollectionWriteOptions options{.embedding = embedding, .is_hybrid = is_hybrid, .updates_index = false};
  return collection.on([&](Collection& opened, const Interruptible& interruptible) {
    auto next = texts.begin();
    const auto source = [&](CollectionText& text) {
      interruptible.check();
      if (next == texts.end()) return false;
      text = {.text = next->first, .payload = next->second};
      ++next;
      return true;
    };
    return opened.upsert(*embedder, source, options);
  });
}

std::vector<CollectionHit> search(OpenCollection& collection, const LoadedEmbedder& given, const std::string& query,
                                  const CollectionSearchOptions& options, const LoadedPipeline* reranker) {
  const std::shared_ptr<const Embedder> embedder = given.opened();
  const std::shared_ptr<const Pipeline> ranker = reranker == nullptr ? nullptr : reranker->opened();
  CollectionSearchOptions with_ranker = options;
  with_ranker.reranker = ranker.get();
  return collection.on([&](Collection& opened, const Interruptible& /*unused*/) {
    return opened.search(*embedder, query, with_ranker);
  });
}

}  // namespace

void bind_collection(nb::module_& module) {
  nb::class_<CollectionFacts>(module, "CollectionFacts", "What all vectors of a collection have in common.")
      .def_ro("model", &CollectionFacts::model)
      .def_ro("digest", &CollectionFacts::digest)
      .def_ro("precision", &CollectionFacts::precision)
      .def_ro("dimension", &CollectionFacts::dimension)
      .def_prop_ro("distance", [](const CollectionFacts& facts) { return std::string(name_of(facts.distance)); })
      .def_ro("is_normalized", &CollectionFacts::is_normalized)
      .def_ro("prompt", &CollectionFacts::prompt)
      .def_ro("sparse_dimension", &CollectionFacts::sparse_dimension)
      .def("__repr__", [](const CollectionFacts& facts) {
        return facts.model + " (" + facts.digest + "), " + std::to_string(facts.dimension) + " dimensions";
      });

  nb::class_<CollectionHit>(module, "CollectionHit", "A stored text that was found.")
      .def_ro("id", &CollectionHit::id)
      .def_ro("score", &CollectionHit::score)
      .def_ro("text", &CollectionHit::text)
      .def_prop_ro(
          "payload",
          [](const CollectionHit& hit) -> nb::object {
            return nb::module_::import_("json").attr("loads")(nb::str(hit.payload.c_str(), hit.payload.size()));
          },
          nb::sig("def payload(self) -> dict[str, typing.Any]"))
      .def("__repr__", [](const CollectionHit& hit) { return std::to_string(hit.score) + ": " + hit.text; });

  nb::class_<CollectionSearchOptions>(module, "CollectionSearchOptions", "How a collection is searched.")
      .def(
          "__init__",
          [](CollectionSearchOptions* self, std::size_t count, std::vector<std::string> where, bool is_exact,
             bool is_hybrid, const std::optional<EmbeddingOptions>& embedding) {
            new (self) CollectionSearchOptions{.count = count,
                                               .where = std::move(where),
                                               .is_exact = is_exact,
                                               .is_hybrid = is_hybrid,
                                               .embedding = embedding.value_or(EmbeddingOptions())};
          },
          nb::arg("count"), nb::arg("where"), nb::arg("is_exact"), nb::arg("is_hybrid"), nb::arg("embedding").none());

  nb::class_<OpenCollection>(module, "OpenCollection", "Texts with their vectors in a database or a file.")
      .def(nb::init<std::string>(), nb::arg("url"))
      .def("close", &OpenCollection::close)
      .def("upsert", &upsert, nb::arg("embedder"), nb::arg("texts"), nb::arg("embedding"), nb::arg("is_hybrid"))
      .def("update_index",
           [](OpenCollection& collection) {
             collection.on([](Collection& opened, const Interruptible& /*unused*/) { opened.update_index(); });
           })
      .def("count",
           [](OpenCollection& collection) {
             return collection.on([](Collection& opened, const Interruptible& /*unused*/) { return opened.count(); });
           })
      .def("facts",
           [](OpenCollection& collection) {
             return collection.on([](Collection& opened, const Interruptible& /*unused*/) { return opened.facts(); });
           })
      .def("search", &search, nb::arg("embedder"), nb::arg("query"), nb::arg("options"), nb::arg("reranker").none())
      .def(
          "search_vector",
          [](OpenCollection& collection, nb::handle vector, const CollectionSearchOptions& options) {
            const std::span<const float> elements = float_elements(vector, 1, "the vector");
            return collection.on(
                [&](Collection& opened, const Interruptible& /*unused*/) { return opened.search(elements, options); });
          },
          nb::arg("vector"), nb::arg("options"),
          nb::sig("def search_vector(self, vector: numpy.typing.NDArray[numpy.float32], options: "
                  "CollectionSearchOptions) -> list[CollectionHit]"));
}

}  // namespace gpux::python

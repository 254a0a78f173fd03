#include <gpux/embedder.h>
#include <gpux/error.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "interrupt.h"
#include "loaded_embedder.h"
#include "model_options.h"
#include "similarity_name.h"
#include "values.h"

namespace gpux::python {

namespace nb = nanobind;

LoadedEmbedder::LoadedEmbedder(const std::string& model, nb::dict settings, const std::optional<std::string>& batching,
                               unsigned workers) {
  EmbedderOptions options;
  options.model = to_model_options(std::move(settings));
  options.workers = workers;
  if (batching == "throughput") {
    options.batching = TextBatching::throughput;
  } else if (batching == "exact") {
    options.batching = TextBatching::exact;
  } else if (batching) {
    throw Error(ErrorCode::usage, "batching is '" + *batching + "', and not exact or throughput");
  }
  embedder_ =
      without_gil([&](const Interruptible& /*unused*/) { return std::make_shared<const Embedder>(model, options); });
}

nb::object LoadedEmbedder::encode(const std::vector<std::string>& texts, const EmbeddingOptions& options,
                                  nb::object progress) const {
  const std::shared_ptr<const Embedder> embedder = opened();
  const std::size_t columns = options.dimensions == 0 ? embedder->dimension() : options.dimensions;
  // More than the model has are refused before memory is allocated for them.
  if (columns > embedder->dimension()) {
    (void)embedder->embed([](std::string& /*next*/) { return false; },
                          [](std::string_view /*text*/, std::span<const float> /*embedding*/) {}, options);
  }
  auto [array, row] = new_matrix(texts.size(), columns);
  auto text = texts.begin();
  std::uint64_t done = 0;
  auto told = std::chrono::steady_clock::now();
  without_gil([&](const Interruptible& interruptible) {
    const auto source = [&](std::string& next) {
      interruptible.check();
      if (text == texts.end()) return false;
      next = *text++;
      return true;
    };
    const auto sink = [&](std::string_view /*text*/, std::span<const float> embedding) {
      interruptible.check();
      row = std::ranges::copy(embedding, row).out;
      ++done;
      const auto now = std::chrono::steady_clock::now();
      if (progress.is_none() || (now - told < std::chrono::milliseconds(100) && done < texts.size())) return;
      told = now;
      const nb::gil_scoped_acquire acquired;
      progress(done);
    };
    return embedder->embed(source, sink, options);
  });
  return array;
}

nb::object LoadedEmbedder::encode_one(const std::string& text, const EmbeddingOptions& options) const {
  const std::shared_ptr<const Embedder> embedder = opened();
  return to_array(without_gil([&](const Interruptible& /*unused*/) { return embedder->embed(text, options); }));
}

std::string LoadedEmbedder::similarity() const {
  return std::string(name_of(opened()->similarity()));
}

std::shared_ptr<const Embedder> LoadedEmbedder::opened() const {
  if (!embedder_) throw Error(ErrorCode::usage, "the embedder is closed: make another one");
  return embedder_;
}

void bind_embedder(nb::module_& module) {
  nb::class_<EmbeddingOptions>(module, "EmbeddingOptions", "How texts become embeddings.")
      .def(
          "__init__",
          [](EmbeddingOptions* self, std::optional<std::string> prompt, std::string prompt_name, std::size_t max_tokens,
             std::size_t dimensions, std::optional<bool> normalize) {
            new (self) EmbeddingOptions{.prompt = std::move(prompt),
                                        .prompt_name = std::move(prompt_name),
                                        .max_tokens = max_tokens,
                                        .dimensions = dimensions,
                                        .normalize = normalize};
          },
          nb::arg("prompt").none(), nb::arg("prompt_name"), nb::arg("max_tokens"), nb::arg("dimensions"),
          nb::arg("normalize").none());

  nb::class_<LoadedEmbedder>(module, "LoadedEmbedder", "A model that makes embeddings of texts.")
      .def(nb::init<const std::string&, nb::dict, const std::optional<std::string>&, unsigned>(), nb::arg("model"),
           nb::arg("settings"), nb::arg("batching").none(), nb::arg("workers"))
      .def("close", &LoadedEmbedder::close)
      .def("encode", &LoadedEmbedder::encode, nb::arg("texts"), nb::arg("options"), nb::arg("progress").none(),
           nb::sig("def encode(self, texts: list[str], options: EmbeddingOptions, progress: "
                   "collections.abc.Callable[[int], object] | None) -> numpy.typing.NDArray[numpy.float32]"))
      .def("encode_one", &LoadedEmbedder::encode_one, nb::arg("text"), nb::arg("options"),
           nb::sig("def encode_one(self, text: str, options: EmbeddingOptions) -> "
                   "numpy.typing.NDArray[numpy.float32]"))
      .def_prop_ro("dimension", [](const LoadedEmbedder& embedder) { return embedder.opened()->dimension(); })
      .def_prop_ro("prompts", [](const LoadedEmbedder& embedder) { return embedder.opened()->prompts(); })
      .def_prop_ro("similarity", &LoadedEmbedder::similarity)
      .def_prop_ro("digest", [](const LoadedEmbedder& embedder) { return embedder.opened()->digest(); })
      .def_prop_ro("verdict", [](const LoadedEmbedder& embedder) { return embedder.opened()->verdict(); });
}

}  // namespace gpux::python

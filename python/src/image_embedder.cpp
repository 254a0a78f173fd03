#include <gpux/error.h>
#include <gpux/image_embedder.h>
#include <gpux/zero_shot_images.h>

#include <algorithm>
#include <memory>
#include <optional>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "interrupt.h"
#include "model_options.h"
#include "values.h"

namespace gpux::python {
namespace {

namespace nb = nanobind;

// A str is a path, bytes are a file, and an array has the pixels.
ImageData to_image(nb::handle object, std::string_view name) {
  if (nb::isinstance<nb::str>(object)) return std::filesystem::path(nb::cast<std::string>(object));
  if (nb::isinstance<nb::bytes>(object)) {
    const auto bytes = nb::cast<nb::bytes>(object);
    return std::string(static_cast<const char*>(bytes.data()), bytes.size());
  }
  const Value value = to_value(object, nullptr, name);
  if (value.tensor() == nullptr) throw Error(ErrorCode::invalid_input, std::string(name) + " is no image");
  return *value.tensor();
}

std::vector<ImageData> to_images(const std::vector<nb::object>& objects) {
  std::vector<ImageData> images;
  for (const nb::object& object : objects) {
    images.push_back(to_image(object, "image " + std::to_string(images.size())));
  }
  return images;
}

class LoadedImageEmbedder {
 public:
  LoadedImageEmbedder(const std::string& model, nb::dict settings, unsigned workers) {
    EmbedderOptions options;
    options.model = to_model_options(std::move(settings));
    options.workers = workers;
    embedder_ = without_gil(
        [&](const Interruptible& /*unused*/) { return std::make_shared<const ImageEmbedder>(model, options); });
  }

  void close() { embedder_.reset(); }

  [[nodiscard]] nb::object encode(const std::vector<nb::object>& objects, std::size_t dimensions,
                                  std::optional<bool> normalize) const {
    const std::shared_ptr<const ImageEmbedder> embedder = opened();
    const ImageEmbeddingOptions options{.dimensions = dimensions, .normalize = normalize};
    const std::size_t columns = dimensions == 0 ? embedder->dimension() : dimensions;
    // More than the model has are refused before memory is allocated for them.
    if (columns > embedder->dimension()) {
      (void)embedder->embed(std::span<const ImageData>(), options);
    }
    const std::vector<ImageData> images = to_images(objects);
    auto [array, row] = new_matrix(images.size(), columns);
    without_gil([&](const Interruptible& interruptible) {
      // Ctrl-C ends it between some of them.
      constexpr std::size_t images_at_a_time = 64;
      for (std::size_t first = 0; first < images.size(); first += images_at_a_time) {
        interruptible.check();
        const std::size_t count = std::min(images_at_a_time, images.size() - first);
        try {
          const Embeddings embeddings = embedder->embed(std::span(images).subspan(first, count), options);
          row = std::ranges::copy(embeddings.elements(), row).out;
        } catch (const Error& error) {
          if (first == 0) throw;
          throw error.within("of the images from " + std::to_string(first));
        }
      }
      return true;
    });
    return array;
  }

  [[nodiscard]] std::shared_ptr<const ImageEmbedder> opened() const {
    if (!embedder_) throw Error(ErrorCode::usage, "the embedder is closed: make another one");
    return embedder_;
  }

 private:
  std::shared_ptr<const ImageEmbedder> embedder_;
};

class LoadedImageClassifier {
 public:
  LoadedImageClassifier(const std::string& model, std::vector<std::string> labels, std::string label_template,
                        nb::dict settings, unsigned workers) {
    EmbedderOptions options;
    options.model = to_model_options(std::move(settings));
    options.workers = workers;
    const ZeroShotImageOptions chosen{.labels = std::move(labels), .label_template = std::move(label_template)};
    classifier_ = without_gil([&](const Interruptible& /*unused*/) {
      return std::make_shared<const ZeroShotImageClassifier>(model, chosen, options);
    });
  }

  void close() { classifier_.reset(); }

  [[nodiscard]] std::vector<std::vector<LabelScore>> classify(const std::vector<nb::object>& objects) const {
    const std::shared_ptr<const ZeroShotImageClassifier> classifier = opened();
    const std::vector<ImageData> images = to_images(objects);
    return without_gil([&](const Interruptible& /*unused*/) { return classifier->classify(images); });
  }

  [[nodiscard]] std::shared_ptr<const ZeroShotImageClassifier> opened() const {
    if (!classifier_) throw Error(ErrorCode::usage, "the classifier is closed: make another one");
    return classifier_;
  }

 private:
  std::shared_ptr<const ZeroShotImageClassifier> classifier_;
};

}  // namespace

void bind_image_embedder(nb::module_& module) {
  nb::class_<LoadedImageEmbedder>(module, "LoadedImageEmbedder", "A model that makes embeddings of images.")
      .def(nb::init<const std::string&, nb::dict, unsigned>(), nb::arg("model"), nb::arg("settings"),
           nb::arg("workers"))
      .def("close", &LoadedImageEmbedder::close)
      .def("encode", &LoadedImageEmbedder::encode, nb::arg("images"), nb::arg("dimensions"),
           nb::arg("normalize").none(),
           nb::sig("def encode(self, images: list[object], dimensions: int, normalize: bool | None) -> "
                   "numpy.typing.NDArray[numpy.float32]"))
      .def_prop_ro("dimension", [](const LoadedImageEmbedder& embedder) { return embedder.opened()->dimension(); })
      .def_prop_ro("digest", [](const LoadedImageEmbedder& embedder) { return embedder.opened()->digest(); })
      .def_prop_ro("verdict", [](const LoadedImageEmbedder& embedder) { return embedder.opened()->verdict(); });

  nb::class_<LoadedImageClassifier>(module, "LoadedImageClassifier", "A model that scores images by labels.")
      .def(nb::init<const std::string&, std::vector<std::string>, std::string, nb::dict, unsigned>(), nb::arg("model"),
           nb::arg("labels"), nb::arg("label_template"), nb::arg("settings"), nb::arg("workers"))
      .def("close", &LoadedImageClassifier::close)
      .def("classify", &LoadedImageClassifier::classify, nb::arg("images"),
           nb::sig("def classify(self, images: list[object]) -> list[list[LabelScore]]"))
      .def_prop_ro("verdict", [](const LoadedImageClassifier& classifier) { return classifier.opened()->verdict(); });
}

}  // namespace gpux::python

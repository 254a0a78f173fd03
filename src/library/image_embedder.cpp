#include "gpux/image_embedder.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/start_thread.h"
#include "gpux/error.h"
#include "image/prepare.h"
#include "image/read_image.h"
#include "model/open_image_encoder.h"

namespace gpux {
namespace {

constexpr image::Sources path_alone{.bytes = false, .base64 = false, .data_url = false, .path = true};
constexpr image::Sources bytes_alone{.bytes = true, .base64 = false, .data_url = false, .path = false};
constexpr std::int64_t rgb_channels = 3;

Tensor prepared_pixels(const Tensor& pixels, const image::Recipe& recipe) {
  if (recipe.color != image::Color::rgb) {
    throw Error(ErrorCode::usage, "pixels are red, green, blue, and the model takes other colors: give a file");
  }
  const Shape& shape = pixels.shape();
  const bool fits = pixels.type() == ElementType::uint8 && shape.size() == 3 && shape[2] == rgb_channels &&
                    std::all_of(shape.begin(), shape.begin() + 2,
                                [](std::int64_t side) { return side >= 1 && side <= image::limit_side; });
  if (!fits) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("pixels are {}{}; accepted: uint8[height, width, 3], with 1 to {} pixels per side",
                            to_string(pixels.type()), to_string(shape), image::limit_side));
  }
  if (static_cast<std::uint64_t>(shape[0] * shape[1]) > recipe.max_pixels) {
    throw Error(ErrorCode::invalid_input, fmt::format("the image has {} pixels; accepted: at most max_pixels, {}",
                                                      shape[0] * shape[1], recipe.max_pixels));
  }
  image::Image image(image::Size{shape[0], shape[1]}, rgb_channels);
  const auto levels = pixels.as<std::uint8_t>();
  for (std::int64_t y = 0; y < image.height(); ++y) {
    std::memcpy(image.row(y), levels.data() + static_cast<std::size_t>(y) * image.row_bytes(), image.row_bytes());
  }
  return image::prepare(image, recipe);
}

Tensor prepared(const ImageData& image, const image::Recipe& recipe) {
  if (const auto* path = std::get_if<std::filesystem::path>(&image)) {
    return image::read_image(path->string(), recipe, path_alone);
  }
  if (const auto* bytes = std::get_if<std::string>(&image)) return image::read_image(*bytes, recipe, bytes_alone);
  return prepared_pixels(std::get<Tensor>(image), recipe);
}

/// The error of the first image that failed.
class FirstFailure {
 public:
  void keep(std::size_t index, std::exception_ptr failure) {
    const std::scoped_lock lock(mutex_);
    if (failure_ && index_ < index) return;
    index_ = index;
    failure_ = std::move(failure);
    has_failed_ = true;
  }

  [[nodiscard]] bool has_failed() const noexcept { return has_failed_; }

  void rethrow() const {
    if (!failure_) return;
    try {
      std::rethrow_exception(failure_);
    } catch (const Error& error) {
      throw error.within(fmt::format("image {}", index_));
    }
  }

 private:
  std::mutex mutex_;
  std::size_t index_ = 0;
  std::exception_ptr failure_;
  std::atomic<bool> has_failed_ = false;
};

}  // namespace

struct ImageEmbedder::State {
  OpenImageEncoder encoder;
  unsigned workers;

  [[nodiscard]] embedding::ImageEmbedOptions accepted(const ImageEmbeddingOptions& given) const {
    embedding::ImageEmbedOptions options = encoder.options;
    options.dimensions = given.dimensions;
    options.normalize = given.normalize;
    encoder.embedder->encoder().check(options);
    return options;
  }

  [[nodiscard]] std::vector<float> embed(const ImageData& image, const embedding::ImageEmbedOptions& options) const {
    const embedding::ImageEncoder& images = encoder.embedder->encoder();
    const NamedValues results =
        encoder.embedder->runtime().infer({{images.input().name, prepared(image, images.input().recipe)}},
                                          {.timeout = options.timeout, .outputs = {images.output()}});
    return images.finish(results.front().second, options);
  }
};

ImageEmbedder::ImageEmbedder(const std::string& model, const EmbedderOptions& options) {
  EncoderFlags flags;
  flags.model = model;
  flags.load = request_of(options.model);
  state_ =
      std::make_unique<State>(open_image_encoder(flags, path_alone, [](std::string_view /*line*/) {}), options.workers);
  if (state_->workers == 0) state_->workers = state_->encoder.workers;
}

ImageEmbedder::~ImageEmbedder() = default;
ImageEmbedder::ImageEmbedder(ImageEmbedder&&) noexcept = default;
ImageEmbedder& ImageEmbedder::operator=(ImageEmbedder&&) noexcept = default;

std::size_t ImageEmbedder::dimension() const noexcept {
  return state_->encoder.embedder->encoder().dimension();
}

std::vector<float> ImageEmbedder::embed(const ImageData& image, const ImageEmbeddingOptions& options) const {
  return state_->embed(image, state_->accepted(options));
}

Embeddings ImageEmbedder::embed(std::span<const ImageData> images, const ImageEmbeddingOptions& options) const {
  const embedding::ImageEmbedOptions accepted = state_->accepted(options);
  const std::size_t dimension = options.dimensions == 0 ? this->dimension() : options.dimensions;
  std::vector<float> elements(images.size() * dimension);
  std::atomic<std::size_t> next = 0;
  FirstFailure failure;
  const auto work = [&] {
    // What was taken is done: of all images before the first that failed it is known that they did not.
    while (!failure.has_failed()) {
      const std::size_t i = next++;
      if (i >= images.size()) return;
      try {
        const std::vector<float> vector = state_->embed(images[i], accepted);
        std::copy(vector.begin(), vector.end(), elements.begin() + static_cast<std::ptrdiff_t>(i * dimension));
      } catch (...) {
        failure.keep(i, std::current_exception());
      }
    }
  };
  {
    const std::size_t threads = std::min<std::size_t>(state_->workers, images.size());
    const std::vector<std::jthread> others = start_more_threads(std::max<std::size_t>(threads, 1) - 1, work);
    work();
  }
  failure.rethrow();
  return {std::move(elements), dimension};
}

const std::string& ImageEmbedder::digest() const noexcept {
  return state_->encoder.digest;
}

const Verdict& ImageEmbedder::verdict() const noexcept {
  return state_->encoder.embedder->runtime().verdict();
}

}  // namespace gpux

#include "embedding/image_encoder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/spelling.h"
#include "base/start_thread.h"
#include "gpux/error.h"
#include "image/prepare.h"
#include "tensor/convert.h"

namespace gpux::embedding {
namespace {

// Their vector of an image is, by definition, the hidden state of the class token.
constexpr std::array<std::string_view, 4> class_token_models{"vit", "deit", "dinov2", "dinov2_with_registers"};

bool is_float(const ValueType& type) {
  return type.kind == ValueKind::tensor &&
         (type.element == ElementType::float32 || type.element == ElementType::float16 ||
          type.element == ElementType::bfloat16);
}

bool has_rank(const SignatureEntry& entry, std::size_t rank) {
  return is_float(entry.type) && (!entry.type.dimensions || entry.type.dimensions->size() == rank);
}

const SignatureEntry* named(const std::vector<SignatureEntry>& outputs, std::string_view name, std::size_t rank) {
  const auto found = std::ranges::find_if(
      outputs, [&](const SignatureEntry& entry) { return entry.name == name && has_rank(entry, rank); });
  return found == outputs.end() ? nullptr : &*found;
}

[[noreturn]] void refuse_outputs(const std::vector<SignatureEntry>& outputs, std::string_view model_type) {
  std::vector<std::string> met;
  for (const SignatureEntry& entry : outputs) met.push_back(fmt::format("{} {}", entry.name, to_string(entry.type)));
  const std::string_view accepted = model_type.starts_with("clip")
                                        ? "image_embeds of [batch, width], the vector in the space of the texts"
                                        : "image_embeds or pooler_output of [batch, width]";
  throw Error(ErrorCode::invalid_model,
              fmt::format("no output holds vectors of images; the model has {}; accepted: {}", join(met), accepted));
}

}  // namespace

ImageOutput choose_image_output(const std::vector<SignatureEntry>& outputs, std::string_view model_type) {
  if (const SignatureEntry* found = named(outputs, "image_embeds", 2)) return {found->name, false};
  if (!model_type.starts_with("clip")) {
    if (const SignatureEntry* found = named(outputs, "pooler_output", 2)) return {found->name, false};
  }
  if (std::ranges::find(class_token_models, model_type) != class_token_models.end()) {
    if (const SignatureEntry* found = named(outputs, "last_hidden_state", 3)) return {found->name, true};
  }
  if (model_type.empty()) {
    std::vector<const SignatureEntry*> others;
    for (const SignatureEntry& entry : outputs) {
      if (entry.type.dimensions && has_rank(entry, 2) && entry.name != "logits") others.push_back(&entry);
    }
    if (others.size() == 1) return {others.front()->name, false};
  }
  refuse_outputs(outputs, model_type);
}

ImageEncoder::ImageEncoder(ImageVectorFacts facts, ImageInput input, const Runtime& runtime)
    : facts_(std::move(facts)), input_(std::move(input)) {
  const Signature& signature = runtime.info().signature;
  output_ = choose_image_output(signature.outputs, facts_.model_type);
  const auto output = std::ranges::find(signature.outputs, output_.name, &SignatureEntry::name);
  const auto& dimensions = output->type.dimensions;
  const auto width = dimensions ? dimensions->back().size : std::nullopt;
  if (width) whole_dimension_ = static_cast<std::size_t>(*width);
  if (whole_dimension_ == 0) whole_dimension_ = found_dimension(runtime);
}

std::size_t ImageEncoder::found_dimension(const Runtime& runtime) const {
  const image::Image black(image::Size{64, 64}, channels_of(input_.recipe.color));
  const NamedValues outputs =
      runtime.infer({{input_.name, image::prepare(black, input_.recipe)}}, {.outputs = {output_.name}});
  return whole_vector(outputs.front().second).size();
}

void ImageEncoder::check(const ImageEmbedOptions& options) const {
  if (options.dimensions <= whole_dimension_) return;
  throw Error(ErrorCode::usage, fmt::format("{} requested; accepted: 1 to the model's {}",
                                            counted(options.dimensions, "dimension"), whole_dimension_));
}

NamedValues ImageEncoder::prepare(std::string_view image) const {
  return {{input_.name, image::read_image(image, input_.recipe, input_.sources)}};
}

std::vector<float> ImageEncoder::finish(const Value& output, const ImageEmbedOptions& options) const {
  std::vector<float> vector = whole_vector(output);
  finish_vector(vector, options.dimensions, options.normalize, facts_.vectors);
  return vector;
}

std::vector<float> ImageEncoder::whole_vector(const Value& output) const {
  const Tensor* tensor = output.tensor();
  const std::size_t rank = output_.is_first_token ? 3 : 2;
  if (tensor == nullptr || tensor->shape().size() != rank || tensor->shape()[0] != 1 || tensor->shape().back() < 1 ||
      tensor->shape()[1] < 1) {
    throw Error(ErrorCode::invalid_model, fmt::format("output '{}' of one image is {}; accepted: {}", output_.name,
                                                      tensor == nullptr ? "no tensor" : to_string(tensor->shape()),
                                                      output_.is_first_token ? "[1, tokens, width]" : "[1, width]"));
  }
  const Tensor floats = convert(*tensor, ElementType::float32);
  const auto elements = floats.as<float>().first(static_cast<std::size_t>(floats.shape().back()));
  std::vector<float> vector(elements.begin(), elements.end());
  if (!std::ranges::all_of(vector, [](float element) { return std::isfinite(element); })) {
    throw Error(ErrorCode::invalid_model, fmt::format("output '{}' has NaN or infinite numbers", output_.name));
  }
  return vector;
}

ImageEmbedder::ImageEmbedder(ImageVectorFacts facts, ImageInput input, Runtime runtime)
    : runtime_(std::move(runtime)), encoder_(std::move(facts), std::move(input), runtime_) {}

std::vector<float> ImageEmbedder::embed(std::string_view image, const ImageEmbedOptions& options) const {
  const NamedValues results =
      runtime_.infer(encoder_.prepare(image), {.timeout = options.timeout, .outputs = {encoder_.output()}});
  return encoder_.finish(results.front().second, options);
}

namespace {

/// Images taken and vectors given away in order.
class ImageLine {
 public:
  ImageLine(const ImageEmbedder& embedder, const ImageEmbedOptions& options, std::span<const std::string> images,
            std::size_t window, const ImageVectorSink& sink)
      : embedder_(embedder), options_(options), images_(images), window_(window), sink_(sink) {}

  void work() {
    while (const auto index = take()) {
      Result result;
      try {
        result.vector = embedder_.embed(images_[*index], options_);
      } catch (const Error& error) {
        // Others name the file themselves.
        const bool is_of_image = error.code() == ErrorCode::invalid_input;
        result.failure = std::make_exception_ptr(is_of_image ? error.within(images_[*index]) : error);
      } catch (...) {
        result.failure = std::current_exception();
      }
      give(*index, std::move(result));
    }
  }

  void finish() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  struct Result {
    std::vector<float> vector;
    std::exception_ptr failure;
  };

  std::optional<std::size_t> take() {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return failure_ || next_ == images_.size() || next_ - given_ < window_; });
    if (failure_ || next_ == images_.size()) return std::nullopt;
    return next_++;
  }

  void give(std::size_t index, Result result) {
    const std::scoped_lock lock(mutex_);
    waiting_.emplace(index, std::move(result));
    while (!failure_ && !waiting_.empty() && waiting_.begin()->first == given_) {
      const Result next = std::move(waiting_.extract(waiting_.begin()).mapped());
      failure_ = next.failure;
      if (failure_) break;
      try {
        sink_(images_[given_], next.vector);
        ++given_;
      } catch (...) {
        failure_ = std::current_exception();
      }
    }
    room_.notify_all();
  }

  const ImageEmbedder& embedder_;
  const ImageEmbedOptions& options_;
  std::span<const std::string> images_;
  const std::size_t window_;
  const ImageVectorSink& sink_;

  std::mutex mutex_;
  std::condition_variable room_;
  std::map<std::size_t, Result> waiting_;
  std::size_t next_ = 0, given_ = 0;
  std::exception_ptr failure_;
};

}  // namespace

void embed_images(const ImageEmbedder& embedder, const ImageEmbedOptions& options, std::span<const std::string> images,
                  unsigned threads, const ImageVectorSink& sink) {
  constexpr std::size_t images_per_thread = 16;
  embedder.encoder().check(options);
  ImageLine line(embedder, options, images, images_per_thread * std::max(threads, 1U), sink);
  {
    const std::vector<std::jthread> others = start_more_threads(std::max(threads, 1U) - 1, [&] { line.work(); });
    line.work();
  }
  line.finish();
}

}  // namespace gpux::embedding

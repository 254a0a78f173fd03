#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "embedding/pooling.h"
#include "gpux/runtime.h"
#include "project/image_input.h"

namespace gpux::embedding {

/// Settings of image vectors, read from the files next to the ONNX file.
struct ImageVectorFacts {
  std::string model_type;  ///< model_type in config.json ("clip"); may be empty
  VectorSettings vectors;  ///< those of the texts, where they share a space
};

/// The output that an image's vector is made of.
struct ImageOutput {
  std::string name;
  bool is_first_token = false;  ///< [batch, tokens, width], and the vector is the first token's; else [batch, width]
};

/// Chooses among the outputs of floating types:
/// 1. image_embeds of [batch, width]; of CLIP nothing else is in the space of its texts;
/// 2. pooler_output of [batch, width];
/// 3. the first token of last_hidden_state, where that is the model's vector by definition: ViT, DeiT, DINOv2;
/// 4. the only output of [batch, width] that is not called logits, of a folder that does not say the model's type.
/// Error invalid_model names what the model has and what is accepted. Pure.
[[nodiscard]] ImageOutput choose_image_output(const std::vector<SignatureEntry>& outputs, std::string_view model_type);

struct ImageEmbedOptions {
  std::size_t dimensions = 0;     ///< the vector's first so many; 0: as the model says, else all
  std::optional<bool> normalize;  ///< to length 1, after the cut; empty: what is cut, else as the model says
  std::optional<std::chrono::milliseconds> timeout;  ///< maximum time of a run; empty: no limit
};

/// Prepares the inputs of an image model, and makes the vector of an image from its outputs. Thread-safe.
class ImageEncoder {
 public:
  /// `runtime` holds the model: asked for its signature, and for a run where the file does not say how long its vectors
  /// are. Error invalid_model: its outputs, as choose_image_output() has it.
  ImageEncoder(ImageVectorFacts facts, ImageInput input, const Runtime& runtime);

  /// Elements of a vector unless the options say another number.
  [[nodiscard]] std::size_t dimension() const noexcept { return kept_dimensions(whole_dimension_, facts_.vectors); }

  [[nodiscard]] const ImageInput& input() const noexcept { return input_; }

  /// The only output that is needed.
  [[nodiscard]] const std::string& output() const noexcept { return output_.name; }

  /// Checks the options. Error usage if they request more dimensions than the model has.
  void check(const ImageEmbedOptions& options) const;

  /// The model's inputs, of an image in any form that input().sources allow. Errors as of image::read_image().
  [[nodiscard]] NamedValues prepare(std::string_view image) const;

  /// `output` is what output() came to, of one image. Error invalid_model where it is not [1, width], or [1, tokens,
  /// width], or has NaN or infinite numbers.
  [[nodiscard]] std::vector<float> finish(const Value& output, const ImageEmbedOptions& options) const;

 private:
  [[nodiscard]] std::vector<float> whole_vector(const Value& output) const;
  // Dimension of the vectors if the ONNX file leaves it open: determined by a run.
  [[nodiscard]] std::size_t found_dimension(const Runtime& runtime) const;

  ImageVectorFacts facts_;
  ImageInput input_;
  ImageOutput output_;
  std::size_t whole_dimension_ = 0;
};

/// Makes vectors of images, each in a run of its own: a vector does not depend on other images. Any thread may call.
class ImageEmbedder {
 public:
  /// Errors as of ImageEncoder.
  ImageEmbedder(ImageVectorFacts facts, ImageInput input, Runtime runtime);

  [[nodiscard]] const ImageEncoder& encoder() const noexcept { return encoder_; }

  [[nodiscard]] const Runtime& runtime() const noexcept { return runtime_; }

  /// Errors as of ImageEncoder and Runtime::infer().
  [[nodiscard]] std::vector<float> embed(std::string_view image, const ImageEmbedOptions& options = {}) const;

 private:
  Runtime runtime_;
  ImageEncoder encoder_;
};

/// Is given each image with its vector, in the order of the images, by one thread at a time.
using ImageVectorSink = std::function<void(std::string_view image, std::span<const float> vector)>;

/// Embeds the images, each a file or any other form that the encoder's sources allow, on `threads` threads (at least
/// 1). Images are read, and vectors held, only some for each thread ahead of the sink. The first image, in their order,
/// that fails ends it: the vectors before it have been given to the sink, and its error is thrown, within the image if
/// it is invalid_input.
void embed_images(const ImageEmbedder& embedder, const ImageEmbedOptions& options, std::span<const std::string> images,
                  unsigned threads, const ImageVectorSink& sink);

}  // namespace gpux::embedding

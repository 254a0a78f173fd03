#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "gpux/embedder.h"
#include "gpux/export.h"
#include "gpux/tensor.h"
#include "gpux/verdict.h"

namespace gpux {

/// An image: the path of a JPEG, PNG or WebP file; the bytes of such a file; or pixels, uint8 of [height, width, 3] in
/// the order red, green, blue.
using ImageData = std::variant<std::filesystem::path, std::string, Tensor>;

/// How images become embeddings.
struct ImageEmbeddingOptions {
  std::size_t dimensions = 0;          ///< the first of each embedding; 0: as the model says, else all
  std::optional<bool> normalize = {};  ///< to length 1; empty: where truncated to `dimensions`, else as the model says
};

/// Makes embeddings of images, bit-identical to those of `gpux embed`: each image has a run of its own. With a model of
/// texts and images (CLIP, SigLIP), Embedder makes those of texts, in the same space and with the same digest. Movable;
/// all const calls from any thread.
class GPUX_API ImageEmbedder {
 public:
  /// `model` is a folder or a name in the store, whose gpux.yml says how images become the input.
  /// `options.batching` does not apply. Errors not_found, invalid_model, invalid_config, usage (the model takes no
  /// images); of Runtime.
  explicit ImageEmbedder(const std::string& model, const EmbedderOptions& options = {});
  ~ImageEmbedder();
  ImageEmbedder(ImageEmbedder&&) noexcept;
  ImageEmbedder& operator=(ImageEmbedder&&) noexcept;

  /// Elements of an embedding unless ImageEmbeddingOptions::dimensions says another number.
  [[nodiscard]] std::size_t dimension() const noexcept;

  /// Errors invalid_input (no image, more pixels than gpux.yml's max_pixels, pixels of another shape or type),
  /// not_found, permission, storage (a path), usage (options that the model cannot meet; pixels for a model of other
  /// colors than rgb); of Runtime::infer().
  [[nodiscard]] std::vector<float> embed(const ImageData& image, const ImageEmbeddingOptions& options = {}) const;

  /// Embeds several images, on as many threads as the options say. The error of the first image that fails names
  /// it: "image 3".
  [[nodiscard]] Embeddings embed(std::span<const ImageData> images, const ImageEmbeddingOptions& options = {}) const;

  /// SHA-256 of the ONNX file that runs, or of the digests of both towers, in hexadecimal digits: embeddings of
  /// different models cannot be compared.
  [[nodiscard]] const std::string& digest() const noexcept;

  /// Where the model runs: provider, device, precision.
  [[nodiscard]] const Verdict& verdict() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpux

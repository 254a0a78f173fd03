#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>

#include "embedding/image_encoder.h"
#include "gpux/similarity.h"
#include "image/read_image.h"
#include "model/locate.h"
#include "model/open_encoder.h"

namespace gpux {

/// The part of a model that makes vectors of images: the image tower, or the model itself where it takes images.
struct ImageTower {
  std::filesystem::path onnx_file;
  embedding::ImageVectorFacts facts;
  Similarity similarity = Similarity::cosine;  ///< how its vectors are compared
};

/// Empty where the model takes no images: its gpux.yml has neither an image tower nor image preprocessing.
[[nodiscard]] std::optional<ImageTower> image_tower_of(const LocatedModel& located);

/// The input that takes images, and how they become its values. Errors invalid_config, invalid_model.
[[nodiscard]] ImageInput image_input_of(const LocatedModel& located, const ImageTower& tower,
                                        const image::Sources& sources);

/// Makes a session of the tower, with the settings of the model. Errors as of Runtime and require_precision().
[[nodiscard]] Runtime load_image_tower(const LocatedModel& located, const ImageTower& tower, LoadSettings settings);

/// SHA-256 of an ONNX file, in hexadecimal digits; of one with external data beside it, of the digests of all its
/// files. Errors storage, permission, not_found, invalid_model, interrupted (`stop`).
[[nodiscard]] std::string digest_of_weights(const std::filesystem::path& onnx_file, const std::stop_token& stop = {});

/// Digest that identifies the vectors of a model: digest_of_weights(); of a model with an image tower, of the digests
/// of both files, so that vectors of its texts and images have one.
[[nodiscard]] std::string digest_of_vectors(const LocatedModel& located, const std::string& digest_of_model);

struct OpenImageEncoder {
  std::unique_ptr<embedding::ImageEmbedder> embedder;
  embedding::ImageEmbedOptions options;  ///< accepted by the embedder
  Similarity similarity = Similarity::cosine;
  std::string name;           ///< the model's
  std::string digest;         ///< as digest_of_vectors()
  std::size_t dimension = 0;  ///< of the vectors, after the cut
  unsigned workers = 1;       ///< images at a time that keep the processors busy
};

/// Loads what makes vectors of images, and says what it runs on. Errors as of open_encoder(); usage where the model
/// takes no images, or a flag is about texts.
OpenImageEncoder open_image_encoder(const EncoderFlags& flags, const image::Sources& sources, const Teller& tell);

}  // namespace gpux

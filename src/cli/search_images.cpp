#include "cli/search_images.h"

#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/counted.h"
#include "cli/flag_names.h"
#include "cli/pull_flag.h"
#include "embedding/image_paths.h"
#include "gpux/error.h"

namespace gpux::cli {

OpenImageEncoder open_image_encoder(const EncoderFlags& given, const Context& context) {
  EncoderFlags flags = given;
  flags.name_of = flag_name;
  flags.model = pull_argument(flags.model, flags.pull, context);
  return gpux::open_image_encoder(flags, {.bytes = false, .base64 = false, .data_url = false, .path = true},
                                  [&](std::string_view line) { say(context, line); });
}

std::string image_of_query(const std::string& query) {
  std::string path = query.substr(1);
  std::error_code unreadable;
  if (!std::filesystem::is_directory(path, unreadable)) return path;
  throw Error(ErrorCode::usage,
              fmt::format("search: the query '{}' is a folder; accepted: a text, or @IMAGE; the images "
                          "of a folder are searched with --images",
                          query));
}

std::vector<std::string> images_to_search(std::span<const std::string> paths, const Context& context) {
  embedding::ImagePaths images = embedding::images_in(paths);
  if (images.skipped != 0) {
    say(context, fmt::format("skipped {} that are not .jpg, .jpeg, .png or .webp", counted(images.skipped, "file")));
  }
  return std::move(images.files);
}

embedding::StoredVectors embed_images_to_search(const OpenImageEncoder& encoder, std::span<const std::string> images,
                                                unsigned workers) {
  embedding::StoredVectors vectors;
  vectors.dimension = encoder.dimension;
  const auto elements = std::make_shared<std::vector<float>>();
  embedding::embed_images(*encoder.embedder, encoder.options, images, workers != 0 ? workers : encoder.workers,
                          [&](std::string_view image, std::span<const float> vector) {
                            vectors.images.emplace_back(image);
                            elements->insert(elements->end(), vector.begin(), vector.end());
                          });
  vectors.rows = vectors.images.size();
  vectors.elements = *elements;
  vectors.owner = elements;
  return vectors;
}

void name_images(embedding::StoredVectors& vectors, std::span<const std::string> images, const std::string& place) {
  if (images.size() != vectors.rows) {
    throw Error(ErrorCode::invalid_input, fmt::format("--images has {}, '{}' has {}", counted(images.size(), "image"),
                                                      place, counted(vectors.rows, "vector")));
  }
  vectors.images.assign(images.begin(), images.end());
}

}  // namespace gpux::cli

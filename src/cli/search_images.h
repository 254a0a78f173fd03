#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/command.h"
#include "embedding/stored_vectors.h"
#include "model/open_image_encoder.h"

/// Images that are searched, and images that are searched for.
namespace gpux::cli {

/// open_image_encoder() for paths, whose messages are shown.
OpenImageEncoder open_image_encoder(const EncoderFlags& flags, const Context& context);

/// The image of a query "@FILE". Error usage where it is a folder.
std::string image_of_query(const std::string& query);

/// The paths of --images; other files of folders are reported. Errors as of embedding::images_in().
std::vector<std::string> images_to_search(std::span<const std::string> paths, const Context& context);

/// The images' vectors, with their paths. `workers`: threads; 0: as many as keep the processors busy.
embedding::StoredVectors embed_images_to_search(const OpenImageEncoder& encoder, std::span<const std::string> images,
                                                unsigned workers);

/// Names the rows of `vectors`, which are stored in `place`. Error invalid_input where there are more or fewer images.
void name_images(embedding::StoredVectors& vectors, std::span<const std::string> images, const std::string& place);

}  // namespace gpux::cli

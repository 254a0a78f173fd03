#pragma once

#include <cstdint>
#include <string_view>

#include "gpux/tensor.h"
#include "image/recipe.h"

namespace gpux::image {

/// In which forms an image may come. Which one a value has is seen from the value: a data URL by "data:", a file's
/// bytes by their beginning, base64 by what it decodes to; the rest is taken for a path.
struct Sources {
  bool bytes = true;     ///< the file itself: JPEG, PNG or WebP
  bool base64 = true;    ///< RFC 4648 with padding; line breaks are allowed
  bool data_url = true;  ///< "data:image/png;base64,…"
  bool path = false;  ///< accept the path of a file on this machine: only for callers who may read it anyway, never for
                      ///< clients of a server
};

/// One image as a model's input; the shape is prepare()'s.
/// Errors: invalid_input where the value has none of the forms that are allowed, or is no image that decode() takes;
/// for a path also not_found, permission and storage; those of prepare().
[[nodiscard]] Tensor read_image(std::string_view value, const Recipe& recipe, const Sources& sources = {});

/// Memory that read_image() would hold at a time, as a measure of its work too: from the size of the value and the
/// pixels that the file's header claims. Reads no more of the value than the header; 0 for what is no image. A path
/// counts as its file does.
[[nodiscard]] std::uint64_t work_of_image(std::string_view value, const Recipe& recipe) noexcept;

}  // namespace gpux::image

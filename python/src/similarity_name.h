#pragma once

#include <gpux/similarity.h>

#include <algorithm>
#include <string_view>

namespace gpux::python {

/// "cosine".
inline std::string_view name_of(Similarity similarity) {
  return std::ranges::find(similarity_names, similarity, [](const auto& name) { return name.second; })->first;
}

}  // namespace gpux::python

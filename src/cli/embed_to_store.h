#pragma once

#include <string>

#include "cli/command.h"
#include "embedding/text_source.h"
#include "model/open_encoder.h"
#include "vector_store/store_url.h"

namespace gpux::cli {

/// Where vectors go, and how they are made.
struct StoreTarget {
  vector_store::StoreUrl url;
  bool is_hybrid = false;  ///< with sparse vectors beside the dense ones
  unsigned workers = 1;    ///< texts side by side
};

/// Puts the vectors of the texts into a collection, which is made where it does not exist. A point's name is the
/// SHA-256 of the text, or of the member `id` of its payload where there is one, neither null nor empty.
void embed_to_store(const StoreTarget& target, const OpenEncoder& encoder, const embedding::Texts& texts,
                    const Context& context);

/// The name of a text's point. Pure.
std::string point_id(std::string_view text, const nlohmann::json& payload);

}  // namespace gpux::cli

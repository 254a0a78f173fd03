#pragma once

#include <string>

#include "cli/command.h"
#include "embedding/text_source.h"
#include "model/open_encoder.h"
#include "vector_store/store_url.h"

namespace gpux::cli {

/// Puts the vectors of the texts into a collection, which is made where it does not exist. A point's name is the
/// SHA-256 of the text, or of the member `id` of its payload where there is one. `workers`: texts side by side.
void embed_to_store(const vector_store::StoreUrl& url, const OpenEncoder& encoder, const embedding::Texts& texts,
                    unsigned workers, const Context& context);

/// The name of a text's point. Pure.
std::string point_id(std::string_view text, const nlohmann::json& payload);

}  // namespace gpux::cli

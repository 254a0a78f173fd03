#pragma once

#include "server/protocols/call.h"

namespace gpux::server::own {

/// POST /predict: values in JSON, an item or a list of them; a text; or images. Also what clients of
/// text-embeddings-inference and huggingface_hub send to a classifier of texts or images.
void predict(const RouteCall& call);

}  // namespace gpux::server::own

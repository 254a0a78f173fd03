#pragma once

#include <memory>

#include "server/models/served_model.h"
#include "server/protocols/call.h"
#include "server/protocols/generation_request.h"

namespace gpux::server {

/// Plans the conversation, or turns the prompts into tokens, here or by the readers, and answers with the generated
/// texts or the error. Errors of require_chat().
void generate(const RouteCall& call, const std::shared_ptr<ServedModel>& model, GenerationRequest request);

}  // namespace gpux::server

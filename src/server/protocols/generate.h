#pragma once

#include <memory>

#include "server/models/served_model.h"
#include "server/protocols/call.h"
#include "server/protocols/generation_plan.h"

namespace gpux::server {

/// Turns the prompts into tokens, here or by the readers, and answers with the generated texts or the error.
void generate(const RouteCall& call, const std::shared_ptr<ServedModel>& model, GenerationPlan plan);

}  // namespace gpux::server

#pragma once

#include "generation/chat_plan.h"
#include "server/models/served_model.h"

namespace gpux::server {

/// Checks a chat request before it is planned. Errors invalid_input: the model has no chat template; tools and a form
/// of the answer at once; tools that nothing forces the model to call, and whose calls would not be read.
void require_chat(const ServedModel& model, const generation::ChatRequest& asked);

}  // namespace gpux::server

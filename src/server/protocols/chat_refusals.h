#pragma once

#include "generation/chat_plan.h"
#include "server/models/served_model.h"

namespace gpux::server {

/// Checks a chat request before it is planned. Errors invalid_input: the model has no chat template; tools whose calls
/// would not be read, since neither they nor the text have a form that is enforced.
void require_chat(const ServedModel& model, const generation::ChatRequest& asked);

}  // namespace gpux::server

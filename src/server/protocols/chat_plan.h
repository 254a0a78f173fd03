#pragma once

#include <cstdint>
#include <memory>

#include "server/models/served_model.h"
#include "server/protocols/conversation.h"
#include "server/protocols/generation_plan.h"

namespace gpux::server {

/// How the model answers the conversation: the prompt that its template makes, and how its answer is taken apart. What
/// the format of answers is written as is left to the protocol. `body_bytes`: of the request.
/// Errors invalid_input: the model has no chat template; tools and a form of the answer at once; tools for a model
/// that calls none.
GenerationPlan plan_chat(const std::shared_ptr<ServedModel>& model, Conversation conversation,
                         GenerationSettings settings, std::uint64_t body_bytes);

}  // namespace gpux::server

#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "server/models/served_model.h"
#include "server/protocols/call.h"
#include "server/protocols/generation_request.h"

namespace gpux::server {

/// Plans the conversation, or turns the prompts into tokens, here or by the readers, and answers with the generated
/// texts or the error. Errors of require_chat().
void generate(const RouteCall& call, const std::shared_ptr<ServedModel>& model, GenerationRequest request);

/// Plans the conversation as generate() does, generates nothing, and answers with the JSON that `render` makes of the
/// number of its tokens, or with the error. Errors of require_chat().
void count_tokens(const RouteCall& call, const std::shared_ptr<ServedModel>& model, GenerationRequest request,
                  std::function<std::string(std::size_t tokens)> render);

/// Plans the conversation as generate() does, generates nothing, and answers with the JSON that `render` makes of its
/// prompt, or with the error. Errors of require_chat().
void render_prompt(const RouteCall& call, const std::shared_ptr<ServedModel>& model, GenerationRequest request,
                   std::function<std::string(std::string_view prompt)> render);

}  // namespace gpux::server

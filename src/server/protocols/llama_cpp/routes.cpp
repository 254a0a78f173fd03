#include "server/protocols/llama_cpp/routes.h"

#include <array>

#include "server/protocols/llama_cpp/handlers.h"
#include "server/protocols/llama_cpp/operations.h"
#include "server/protocols/llama_cpp/requests.h"
#include "server/protocols/openai/chat_requests.h"

namespace gpux::server::llama_cpp {
namespace {

constexpr RouteContract properties_contract{
    .ability = TextAbility::generate, .answering = Answering::in_turn, .describe = describe_properties};
constexpr RouteContract slots_contract{
    .ability = TextAbility::generate, .answering = Answering::in_turn, .describe = describe_slots};
constexpr RouteContract template_contract{.ability = TextAbility::chat,
                                          .answering = Answering::in_turn,
                                          .fields = chat_fields,
                                          .describe = describe_applied_template};
constexpr RouteContract tokenize_contract{.body = BodyKind::json_or_text,
                                          .ability = TextAbility::tokenize,
                                          .answering = Answering::in_turn,
                                          .describe = describe_tokenize};
constexpr RouteContract detokenize_contract{.ability = TextAbility::tokenize,
                                            .answering = Answering::in_turn,
                                            .fields = detokenize_fields,
                                            .describe = describe_detokenize};

constexpr std::array<Route, 6> table{{
    {"POST", "/tokenize", "The tokens of texts", RouteKey::any, Protocol::texts, tokenize, tokenize_contract},
    {"POST", "/models/{name}/tokenize", "The tokens of texts", RouteKey::any, Protocol::texts, tokenize,
     tokenize_contract},
    {"POST", "/detokenize", "The text of tokens, as llama.cpp's and vLLM's clients ask for it", RouteKey::any,
     Protocol::openai, detokenize, detokenize_contract},
    {"POST", "/apply-template",
     "The prompt that a chat template makes of a conversation, as llama.cpp's clients ask "
     "for it",
     RouteKey::any, Protocol::openai, apply_template, template_contract},
    {"GET", "/props",
     "Context, slots, template and default settings of a model that generates text, as llama.cpp's "
     "clients ask for them",
     RouteKey::any, Protocol::openai, show_properties, properties_contract},
    {"GET", "/slots", "The slots of a model that generates text, as llama.cpp's clients ask for them", RouteKey::any,
     Protocol::openai, list_slots, slots_contract},
}};

}  // namespace

std::span<const Route> routes() noexcept {
  return table;
}

}  // namespace gpux::server::llama_cpp

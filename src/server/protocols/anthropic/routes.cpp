#include "server/protocols/anthropic/routes.h"

#include <array>
#include <utility>

#include <fmt/format.h>

#include "server/protocols/anthropic/answers.h"
#include "server/protocols/anthropic/operations.h"
#include "server/protocols/anthropic/requests.h"
#include "server/protocols/generate.h"
#include "server/protocols/model_choice.h"
#include "server/protocols/random_id.h"

namespace gpux::server::anthropic {
namespace {

GenerationRequest generation_of(MessageRequest& asked, const ServedModel& model) {
  AskedReasoning reasoning;
  if (model.chat() != nullptr) {
    const std::string& text = model.chat()->template_text(generation::offers_tools(asked.chat.options));
    reasoning = asked_reasoning(asked.thinking, asked.effort, text);
  }
  asked.chat.options.reasoning = reasoning.effort;
  GenerationRequest request{.asked = std::move(asked.chat),
                            .members = {.prompt = "messages",
                                        .form = std::move(asked.form_member),
                                        .reasoning = std::move(reasoning.member),
                                        .settings = setting_names()}};
  request.rendering.kept_as = AnswerParts::in_order;
  // Clients have to name max_tokens, and do not know the context.
  request.limits_tokens = true;
  return request;
}

// What the tables of `read` find in the body.
std::shared_ptr<MessageRequest> read_call(const RouteCall& call, RouteCall& named,
                                          MessageRequest (*read)(std::string_view body, const BodyReading& reading)) {
  const std::string_view body = call.request().body.text();
  const auto share = hold_for_reading(call.work, body, bytes_per_json_member);
  auto asked = std::make_shared<MessageRequest>(read(body, call.work));
  if (!asked->model.empty()) named.name = asked->model;
  return asked;
}

void create(const RouteCall& call) {
  RouteCall named = call;
  const auto asked = read_call(call, named, read_message_request);
  with_able(named, TextAbility::generate, [asked](const RouteCall& with, const std::shared_ptr<ServedModel>& model) {
    const MessageHead head{.id = random_id("msg_"),
                           .model = model->name(),
                           .max_tokens = asked->chat.settings.max_tokens,
                           .shows_thinking = asked->shows_thinking};
    const bool is_streamed = asked->is_streamed;
    GenerationRequest request = generation_of(*asked, *model);
    if (is_streamed) {
      request.rendering.events = [head](std::size_t prompt_tokens) { return message_events(head, prompt_tokens); };
    }
    request.rendering.whole = [head](const auto& parts, const AnswerUsage& usage) {
      return message_json(head, parts, usage);
    };
    generate(with, model, std::move(request));
  });
}

void count_message_tokens(const RouteCall& call) {
  RouteCall named = call;
  const auto asked = read_call(call, named, read_token_count_request);
  with_able(named, TextAbility::generate, [asked](const RouteCall& with, const std::shared_ptr<ServedModel>& model) {
    count_tokens(with, model, generation_of(*asked, *model),
                 [](std::size_t tokens) { return fmt::format(R"({{"input_tokens":{}}})", tokens); });
  });
}

constexpr RouteContract create_contract{.ability = TextAbility::chat,
                                        .answering = Answering::in_turn,
                                        .fields = message_fields,
                                        .describe = describe_message};
constexpr RouteContract count_contract{.ability = TextAbility::chat,
                                       .answering = Answering::in_turn,
                                       .fields = token_count_fields,
                                       .describe = describe_token_count};

constexpr std::array<Route, 2> table{{
    {"POST", "/v1/messages", "Answers to conversations, as Anthropic's clients ask for them", RouteKey::any,
     Protocol::anthropic, create, create_contract},
    {"POST", "/v1/messages/count_tokens", "The number of tokens of a conversation, as Anthropic's clients ask for it",
     RouteKey::any, Protocol::anthropic, count_message_tokens, count_contract},
}};

}  // namespace

std::span<const Route> routes() noexcept {
  return table;
}

}  // namespace gpux::server::anthropic

#include "server/protocols/responses/routes.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "base/utf8_prefix.h"
#include "server/protocols/generate.h"
#include "server/protocols/model_choice.h"
#include "server/protocols/random_id.h"
#include "server/protocols/responses/answers.h"
#include "server/protocols/responses/operations.h"
#include "server/protocols/responses/requests.h"
#include "tensor/json_writer.h"

namespace gpux::server::responses {
namespace {

const ResponseOwner& owner_of(const RouteCall& call) {
  return call.caller->key;
}

// All items that the request answers: those of the response that it continues, and its own.
ConversationItems items_of(const RouteCall& call, const ResponseRequest& asked) {
  const ResponseOwner owner = owner_of(call);
  ResponseStore& store = call.service.responses;
  ConversationItems items;
  if (!asked.previous_response_id.empty()) {
    const auto previous = store.find(owner, asked.previous_response_id);
    if (previous == nullptr) {
      refuse_member("previous_response_id",
                    fmt::format("is '{}', and no such response is kept", utf8_prefix(asked.previous_response_id, 80)));
    }
    items = previous->items;
  }
  for (const RequestedItem& requested : asked.input) {
    items.push_back(requested.item ? requested.item : store.find_item(owner, requested.reference));
    if (items.back() != nullptr) continue;
    refuse_member(requested.place + ".id",
                  fmt::format("is '{}', and no such item is kept", utf8_prefix(requested.reference, 80)));
  }
  return items;
}

// What it takes to have the conversation once more, as messages.
std::uint64_t bytes_of(const ConversationItems& items) {
  std::uint64_t bytes = 0;
  for (const auto& item : items) bytes += item->bytes();
  return bytes;
}

GenerationRequest generation_of(ResponseRequest& asked, const ConversationItems& items) {
  if (items.empty()) refuse_member("input", "has no item, and no response is continued");
  asked.chat.messages = conversation_of(asked.instructions, items);
  GenerationRequest request{.asked = std::move(asked.chat),
                            .members = {.prompt = "input",
                                        .form = std::move(asked.form_member),
                                        .reasoning = "reasoning.effort",
                                        .settings = setting_names()}};
  request.rendering.kept_as = AnswerParts::in_order;
  return request;
}

ResponseHead head_of(ResponseRequest& asked, const ServedModel& model) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {.id = random_id("resp_"),
          .created = std::chrono::duration_cast<std::chrono::seconds>(now).count(),
          .model = model.name(),
          .repeated = std::make_shared<const std::string>(std::move(asked.repeated)),
          .functions = std::move(asked.functions),
          .is_stored = asked.is_stored};
}

// It holds memory for what the answer repeats of the request: in its last event, and in two at its beginning.
KeepResponse keeper_of(const RouteCall& call, const ResponseHead& head, ConversationItems input) {
  constexpr std::uint64_t copies = 4;
  auto share = call.work.hold(copies * head.repeated->size(), "the answer");
  return [&store = call.service.responses, owner = owner_of(call), id = head.id, input = std::move(input),
          share = std::move(share)](const std::string& json, ConversationItems output) {
    StoredResponse response{.id = id, .json = json, .items = input, .input_items = input.size()};
    std::ranges::move(output, std::back_inserter(response.items));
    return store.keep(owner, std::move(response));
  };
}

struct AskedResponse {
  ResponseRequest request;
  ConversationItems items;
  std::shared_ptr<MemoryShare> share;  // of the conversation as messages
};

std::shared_ptr<AskedResponse> read_call(const RouteCall& call, std::span<const Field> fields) {
  const std::string_view body = call.request().body.text();
  const auto share = hold_for_reading(call.work, body, bytes_per_json_member);
  const auto asked = std::make_shared<AskedResponse>();
  asked->request = read_response_request(body, call.work, call.service.options.memory, fields);
  asked->items = items_of(call, asked->request);
  asked->share = call.work.hold(bytes_of(asked->items), "the conversation");
  return asked;
}

RouteCall named_call(const RouteCall& call, const std::string& model) {
  RouteCall named = call;
  if (!model.empty()) named.name = model;
  return named;
}

void create(const RouteCall& call) {
  const auto asked = read_call(call, response_fields());
  with_able(named_call(call, asked->request.model), TextAbility::generate,
            [asked](const RouteCall& with, const std::shared_ptr<ServedModel>& model) {
              const bool is_streamed = asked->request.is_streamed;
              const ResponseHead head = head_of(asked->request, *model);
              GenerationRequest request = generation_of(asked->request, asked->items);
              if (!head.is_stored) asked->items.clear();
              const KeepResponse keep = keeper_of(with, head, std::move(asked->items));
              const auto memory = with.service.options.memory;
              if (is_streamed) {
                request.rendering.events = [head, keep, memory](std::size_t /*prompt_tokens*/) {
                  return response_events(head, keep, memory);
                };
              }
              request.rendering.whole = [head, keep, memory](const auto& parts, const AnswerUsage& usage) {
                return response_json(head, parts, usage, keep, memory);
              };
              generate(with, model, std::move(request));
            });
}

void count_input_tokens(const RouteCall& call) {
  const auto asked = read_call(call, token_count_fields());
  with_able(named_call(call, asked->request.model), TextAbility::generate,
            [asked](const RouteCall& with, const std::shared_ptr<ServedModel>& model) {
              count_tokens(with, model, generation_of(asked->request, asked->items), [](std::size_t tokens) {
                return fmt::format(R"({{"object":"response.input_tokens","input_tokens":{}}})", tokens);
              });
            });
}

[[noreturn]] void refuse_unknown(const std::string& id) {
  throw RequestError(Error(ErrorCode::not_found, fmt::format("no response '{}' is kept", utf8_prefix(id, 80))),
                     "response_id", MemberProblem::invalid);
}

std::shared_ptr<const StoredResponse> stored_response(const RouteCall& call) {
  const std::string id = call.id.value_or("");
  auto response = call.service.responses.find(owner_of(call), id);
  if (response == nullptr) refuse_unknown(id);
  return response;
}

void show(const RouteCall& call) {
  if (call.request().query_parameter("stream").value_or("false") != "false") {
    refuse_member("stream", ": responses are streamed while they are generated; accepted: false");
  }
  call.exchange->respond(http::Response::json(200, stored_response(call)->json));
}

void erase(const RouteCall& call) {
  const std::string id = call.id.value_or("");
  if (!call.service.responses.erase(owner_of(call), id)) refuse_unknown(id);
  std::string text = R"({"id":)";
  append_json_string(text, id);
  call.exchange->respond(http::Response::json(200, text + R"(,"object":"response","deleted":true})"));
}

std::size_t limit_of(const http::Request& request) {
  constexpr std::size_t usual = 20;
  const auto given = request.query_parameter("limit");
  if (!given) return usual;
  std::size_t limit = 0;
  const auto [end, failure] = std::from_chars(given->data(), given->data() + given->size(), limit);
  if (failure != std::errc() || end != given->data() + given->size() || limit == 0 || limit > max_listed_items) {
    refuse_member("limit", fmt::format("is no whole number from 1 to {}", max_listed_items));
  }
  return limit;
}

void list_input_items(const RouteCall& call) {
  const http::Request& request = call.request();
  const auto response = stored_response(call);
  ConversationItems items(response->items.begin(),
                          response->items.begin() + static_cast<std::ptrdiff_t>(response->input_items));
  const std::string order = request.query_parameter("order").value_or("desc");
  if (order != "asc" && order != "desc") refuse_member("order", "is neither asc nor desc");
  if (order == "desc") std::ranges::reverse(items);
  if (const auto after = request.query_parameter("after")) {
    const auto found = std::ranges::find(items, *after, [](const auto& item) { return item->id; });
    if (found == items.end()) refuse_member("after", "is the id of no item of the response");
    items.erase(items.begin(), found + 1);
  }
  const std::size_t limit = limit_of(request);
  const bool has_more = items.size() > limit;
  if (has_more) items.resize(limit);
  std::string text = R"({"object":"list","data":[)";
  for (const auto& item : items) {
    if (item != items.front()) text += ',';
    text += item->json;
  }
  text += "]";
  for (const auto& [name, item] : {std::pair("first_id", items.empty() ? nullptr : items.front()),
                                   std::pair("last_id", items.empty() ? nullptr : items.back())}) {
    text += fmt::format(R"(,"{}":)", name);
    if (item == nullptr) {
      text += "null";
    } else {
      append_json_string(text, item->id);
    }
  }
  text += fmt::format(R"(,"has_more":{}}})", has_more);
  call.exchange->respond(http::Response::json(200, std::move(text)));
}

constexpr RouteContract create_contract{.ability = TextAbility::chat,
                                        .answering = Answering::in_turn,
                                        .fields = response_fields,
                                        .describe = describe_create};
constexpr RouteContract count_contract{.ability = TextAbility::chat,
                                       .answering = Answering::in_turn,
                                       .fields = token_count_fields,
                                       .describe = describe_token_count};
constexpr RouteContract show_contract{.ability = TextAbility::chat, .describe = describe_response};
constexpr RouteContract erase_contract{.ability = TextAbility::chat, .describe = describe_deletion};
constexpr RouteContract items_contract{.ability = TextAbility::chat, .describe = describe_items};

constexpr std::array<Route, 5> table{{
    {"POST", "/v1/responses", "A response to a conversation, as OpenAI's newer clients ask for it", RouteKey::any,
     Protocol::openai, create, create_contract},
    {"POST", "/v1/responses/input_tokens", "The number of tokens of a conversation, as OpenAI's clients ask for it",
     RouteKey::any, Protocol::openai, count_input_tokens, count_contract},
    {"GET", "/v1/responses/{id}", "A response that is kept", RouteKey::any, Protocol::openai, show, show_contract},
    {"DELETE", "/v1/responses/{id}", "Forget a response", RouteKey::any, Protocol::openai, erase, erase_contract},
    {"GET", "/v1/responses/{id}/input_items", "The items that a response answers", RouteKey::any, Protocol::openai,
     list_input_items, items_contract},
}};

}  // namespace

std::span<const Route> routes() noexcept {
  return table;
}

}  // namespace gpux::server::responses

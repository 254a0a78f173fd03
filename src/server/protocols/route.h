#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "server/models/text_ability.h"
#include "server/protocols/field.h"
#include "server/requests/browser_access.h"

namespace gpux::server {

struct RouteCall;
struct Operation;

/// Whose clients a route is for, which decides how its errors are written.
enum class Protocol : std::uint8_t {
  own,
  open_inference,
  openai,  ///< OpenAI's embeddings, completions, chats and responses
  anthropic,
  ollama,
  texts,  ///< Hugging Face's text-embeddings-inference
};

/// Who may send a request.
enum class RouteKey : std::uint8_t {
  none,    ///< anybody
  any,     ///< one with an API key, where the server has keys
  admin,   ///< as any, and an admin key where the server has such: it changes which models are served
  change,  ///< as admin, and only who may change the models that are stored: change_refusal()
};

/// When a request is answered: it decides which statuses the OpenAPI document lists.
enum class Answering : std::uint8_t {
  at_once,
  by_readiness,  ///< 503 where a model or the server is not ready
  in_turn,       ///< 503, 504, and 429 where the protocol has it: it waits for readers or for a model
};

/// Body, model ability, fields and answer of a route.
struct RouteContract {
  BodyKind body = BodyKind::json;
  std::optional<TextAbility> ability;  ///< what a model has to be able to; empty: nothing in particular
  Answering answering = Answering::at_once;
  std::span<const Field> (*fields)() = nullptr;  ///< of the JSON in a body; null: none, or what the model has
  /// The answers, and requests without a table of fields, for `models`, those that the route may be for; null: any
  /// object is answered.
  Operation (*describe)(const std::vector<const ServedModel*>& models) = nullptr;
  /// For the console, which asks again and again: pages of other origins may neither send such requests nor read their
  /// answers, and successes are no lines of the log.
  bool is_of_console = false;
  bool is_cacheable = false;  ///< its answer is decided by the model and the request: ResponseCache may keep it
};

/// A route of one protocol: dispatch, API keys, the OpenAPI document and the table of docs/serving.md all read this.
struct Route {
  std::string_view method;
  std::string_view path;  ///< "/v2/models/{name}/infer"
  std::string_view summary;
  RouteKey key;
  Protocol protocol;
  void (*handler)(const RouteCall& call);  ///< answers, now or later; an Error that it throws is the answer
  RouteContract contract = {};
};

}  // namespace gpux::server

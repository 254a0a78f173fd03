#include "server/protocols/llama_cpp/requests.h"

#include <array>
#include <utility>
#include <variant>
#include <vector>

#include "gpux/error.h"
#include "server/protocols/openapi/texts.h"
#include "tensor/json_envelope.h"

namespace gpux::server::llama_cpp {
namespace {

using enum FieldKind;
using enum FieldUse;

openapi::Json text_schema(const ServedList&) {
  return {{"type", "string"}};
}

constexpr auto content_table = std::to_array<Field>({
    {"content", text, required, text_schema},
    {"model", text, optional, openapi::model_names},
    {"add_special", flag},
    {"with_pieces", flag},
    refused_field("parse_special", "special tokens in a text are always read as such; accepted: true", "true"),
});

constexpr auto prompt_table = std::to_array<Field>({
    {"prompt", text, required, text_schema},
    {"model", text, optional, openapi::model_names},
    {"add_special_tokens", flag},
    {"return_token_strs", flag},
});

constexpr auto detokenize_table = std::to_array<Field>({
    {"tokens", other, required,
     [](const ServedList& models) -> openapi::Json {
       return {{"type", "array"}, {"items", openapi::token_schema(models)}};
     }},
    {"model", text, optional, openapi::model_names},
});

std::string required_text(Members& members, std::string_view name) {
  const RequestJson& value = members.must_find(name);
  if (!value.is_string()) refuse_member(std::string(name), "is no text");
  return value.get<std::string>();
}

}  // namespace

bool asks_for_ids(std::string_view body) {
  if (!is_object(body)) return false;
  try {
    return member_text(body, "inputs").empty() &&
           !(member_text(body, "content").empty() && member_text(body, "prompt").empty());
  } catch (const Error&) {
    return false;  // the reader of the body says what is wrong
  }
}

TokenizeText read_tokenize_text(std::string_view body, const BodyReading& reading) {
  const RequestJson json = parse_request(body, reading.cancellation);
  TokenizeText read;
  read.is_counted = json.is_object() && json.contains("prompt");
  Members members(json, "", read.is_counted ? std::span<const Field>(prompt_table) : content_table, reading.rules);
  read.text = required_text(members, read.is_counted ? "prompt" : "content");
  read.model = members.text("model");
  read.special_tokens = read.is_counted ? members.flag("add_special_tokens", true) : members.flag("add_special", false);
  read.shows_pieces = members.flag(read.is_counted ? "return_token_strs" : "with_pieces", false);
  members.finish();
  return read;
}

Detokenize read_detokenize(std::string_view body, const BodyReading& reading) {
  const RequestJson json = parse_request(body, reading.cancellation);
  Members members(json, "", detokenize_table, reading.rules);
  Detokenize read;
  const RequestJson& tokens = members.must_find("tokens");
  if (!tokens.is_array()) refuse_member("tokens", "is no list");
  if (!tokens.empty()) {
    std::vector<TextInput> inputs = read_text_inputs(tokens, "tokens");
    auto* ids = inputs.size() == 1 ? std::get_if<TokenIds>(&inputs.front()) : nullptr;
    if (ids == nullptr) refuse_member("tokens", "is no list of token ids");
    read.ids = std::move(*ids);
  }
  read.model = members.text("model");
  members.finish();
  return read;
}

std::span<const Field> content_fields() {
  return content_table;
}

std::span<const Field> prompt_fields() {
  return prompt_table;
}

std::span<const Field> detokenize_fields() {
  return detokenize_table;
}

}  // namespace gpux::server::llama_cpp

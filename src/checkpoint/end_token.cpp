#include "checkpoint/end_token.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/utf8_prefix.h"
#include "gpux/error.h"

namespace gpux::checkpoint {
namespace {

using Json = JsonSettings::Json;

// A text, or an object with it: tokenizer_config.json has both forms.
std::string end_token_of(const JsonSettings& config) {
  const Json* token = config.find("eos_token");
  if (token != nullptr && token->is_string()) return token->get<std::string>();
  if (token != nullptr && token->is_object() && token->contains("content") && (*token)["content"].is_string()) {
    return (*token)["content"].get<std::string>();
  }
  config.refuse("add_eos_token is true, and eos_token is not a token");
}

const Json* member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

bool ends_with_token(const Json& processor, const std::string& token) {
  if (const Json* parts = member(processor, "processors"); parts != nullptr && parts->is_array()) {
    return std::any_of(parts->begin(), parts->end(), [&](const Json& part) { return ends_with_token(part, token); });
  }
  const Json* single = member(processor, "single");
  if (single == nullptr || !single->is_array() || single->empty()) {
    // RobertaProcessing and BertProcessing
    const Json* separator = member(processor, "sep");
    return separator != nullptr && separator->is_array() && !separator->empty() && separator->front() == token;
  }
  const Json* last = member(single->back(), "SpecialToken");
  const Json* id = last == nullptr ? nullptr : member(*last, "id");
  return id != nullptr && *id == token;
}

std::int64_t id_of(const Json& tokenizer, const std::string& token, const JsonSettings& config) {
  if (const Json* added = member(tokenizer, "added_tokens"); added != nullptr && added->is_array()) {
    for (const Json& one : *added) {
      const Json* content = member(one, "content");
      const Json* id = member(one, "id");
      if (content != nullptr && *content == token && id != nullptr && id->is_number_integer()) {
        return id->get<std::int64_t>();
      }
    }
  }
  config.refuse(
      fmt::format("add_eos_token is true, and tokenizer.json has no added token '{}'", utf8_prefix(token, 80)));
}

// The template of transformers: each text, behind it the token. A template that is there keeps what it puts before.
void append(Json& templates, const std::string& token, std::int64_t id) {
  const auto piece = [&](int type) { return Json{{"SpecialToken", {{"id", token}, {"type_id", type}}}}; };
  templates["single"].push_back(piece(0));
  templates["pair"].push_back(piece(1));
  templates["special_tokens"][token] = {{"id", token}, {"ids", {id}}, {"tokens", {token}}};
}

Json* template_in(Json& processor) {
  if (processor.is_object() && processor.value("type", "") == "TemplateProcessing") return &processor;
  if (member(processor, "processors") == nullptr || !processor["processors"].is_array()) return nullptr;
  for (Json& part : processor["processors"]) {
    if (Json* found = template_in(part)) return found;
  }
  return nullptr;
}

}  // namespace

std::optional<std::string> with_end_token(std::string_view tokenizer_json, const JsonSettings& tokenizer_config) {
  if (!tokenizer_config.flag("add_eos_token", false)) return std::nullopt;
  const std::string token = end_token_of(tokenizer_config);
  Json tokenizer;
  try {
    tokenizer = parse_bounded_json(tokenizer_json);
  } catch (const Json::exception&) {
    tokenizer = nullptr;  // refused below
  } catch (const Error& error) {
    throw error.within("tokenizer.json").as(ErrorCode::invalid_model);
  }
  if (!tokenizer.is_object()) throw Error(ErrorCode::invalid_model, "tokenizer.json is no JSON object");
  Json& processor = tokenizer["post_processor"];
  if (ends_with_token(processor, token)) return std::nullopt;
  const std::int64_t id = id_of(tokenizer, token, tokenizer_config);
  if (Json* templates = template_in(processor)) {
    append(*templates, token, id);
    return tokenizer.dump();
  }
  const auto text = [](const char* name, int type) { return Json{{"Sequence", {{"id", name}, {"type_id", type}}}}; };
  Json made{{"type", "TemplateProcessing"},
            {"single", Json::array({text("A", 0)})},
            {"pair", Json::array({text("A", 0), text("B", 1)})},
            {"special_tokens", Json::object()}};
  append(made, token, id);
  if (processor.is_null()) {
    processor = std::move(made);
  } else {
    processor = Json{{"type", "Sequence"}, {"processors", Json::array({processor, made})}};
  }
  return tokenizer.dump();
}

}  // namespace gpux::checkpoint

#include "server/protocols/openapi/document.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <tuple>

#include <nlohmann/json.hpp>

#include "base/home.h"
#include "base/spelling.h"
#include "server/protocols/openapi/generation.h"
#include "server/protocols/openapi/schema.h"
#include "server/protocols/openapi/tensors.h"
#include "server/protocols/openapi/texts.h"
#include "server/text_ability.h"

namespace gpux::server {
namespace {

using openapi::Json;
using openapi::json_content;
using openapi::reference;

// Whose routes the path is among, which decides how errors are written.
enum class Family : std::uint8_t { own, open_inference, openai, ollama, texts };

Family family_of(std::string_view path) {
  if (path.starts_with("/v1/")) return Family::openai;
  if (path.starts_with("/v2")) return Family::open_inference;
  if (path.starts_with("/api/")) return Family::ollama;
  return openapi::ability_for(path) ? Family::texts : Family::own;
}

// What a model has to be able to for the route; empty where it is for all.
std::optional<TextAbility> ability_of(const RouteInfo& route) {
  if (route.method != "POST") return std::nullopt;
  const auto generates = openapi::generation_ability_for(route.path);
  return generates ? generates : openapi::ability_for(route.path);
}

bool serves(const RouteInfo& route, const ServedModel& model) {
  if (route.path == "/v1/embeddings" && is_able(model, TextAbility::embed_images)) return true;
  if (route.path == "/v1/chat/completions" || route.path == "/api/chat") return model.chat() != nullptr;
  return is_able(model, ability_of(route).value_or(TextAbility::any));
}

Json components(bool keys_are_set) {
  Json schemas;
  schemas["Detail"] = {{"type", "object"},
                       {"properties", {{"detail", {{"type", "string"}}}, {"error", {{"type", "string"}}}}}};
  schemas["Error"] = {{"type", "object"}, {"properties", {{"error", {{"type", "string"}}}}}};
  const Json text{{"type", "string"}}, text_or_null{{"type", Json::array({"string", "null"})}};
  const Json error{{"type", "object"},
                   {"properties", {{"message", text}, {"type", text}, {"param", text_or_null}, {"code", text_or_null}}},
                   {"required", Json::array({"message", "type", "param", "code"})}};
  schemas["OpenAIError"] = {
      {"type", "object"}, {"properties", {{"error", error}}}, {"required", Json::array({"error"})}};
  schemas["Tensor"] = openapi::tensor_schema();
  schemas["InferResponse"] = {{"type", "object"},
                              {"properties",
                               {{"model_name", {{"type", "string"}}},
                                {"model_version", {{"type", "string"}}},
                                {"id", {{"type", "string"}}},
                                {"outputs", {{"type", "array"}, {"items", reference("Tensor")}}}}},
                              {"required", Json::array({"model_name", "outputs"})}};
  Json components{{"schemas", std::move(schemas)}};
  if (keys_are_set) {
    components["securitySchemes"] = {{"bearer", {{"type", "http"}, {"scheme", "bearer"}}},
                                     {"key", {{"type", "apiKey"}, {"in", "header"}, {"name", "X-API-Key"}}}};
  }
  return components;
}

Json failure(std::string_view path, const std::string& description) {
  const Family family = family_of(path);
  const char* schema = family == Family::openai ? "OpenAIError" : family == Family::own ? "Detail" : "Error";
  return {{"description", description}, {"content", json_content(reference(schema))}};
}

// `models`: those that the route may be for.
Json operation(const RouteInfo& route, const std::vector<const ServedModel*>& models, bool keys_are_set) {
  const std::string_view path = route.path;
  Json found{{"summary", route.summary}};
  Json answer{{"type", "object"}};
  Json request;
  bool runs = false;
  if (path.ends_with("/predict") && !models.empty()) {
    runs = true;
    request = openapi::predict_request_schema(models);
    answer = openapi::predict_answer_schema(models);
  } else if (path.ends_with("/infer") && !models.empty()) {
    runs = true;
    request = openapi::infer_request_schema(models.front()->signature());
    answer = reference("InferResponse");
  } else if (const auto generation = openapi::generation_schemas(path, models)) {
    runs = true;
    std::tie(request, answer) = *generation;
  } else if (ability_of(route)) {
    runs = true;
    std::tie(request, answer) = openapi::text_schemas(path, models);
  } else if (path.ends_with("/index")) {
    request = {{"type", "object"}, {"properties", {{"ready", {{"type", "boolean"}}}}}, {"additionalProperties", false}};
    answer = {{"type", "array"}, {"items", {{"type", "object"}}}};
  } else if (path.ends_with("load")) {
    request = {{"type", "object"},
               {"properties", {{"parameters", {{"type", "object"}, {"maxProperties", 0}}}}},
               {"additionalProperties", false}};
  }
  if (!request.is_null()) {
    found["requestBody"] = {{"required", runs}, {"content", json_content(std::move(request))}};
    const bool takes_images =
        std::ranges::any_of(models, [](const auto* model) { return model->image_input() != nullptr; });
    const bool takes_texts =
        std::ranges::any_of(models, [](const auto* model) { return model->pipeline() != nullptr; });
    const bool ranks = path == "/" && is_able(*models.front(), TextAbility::rank);
    const bool takes_one_text = (takes_texts && path.ends_with("/predict")) ||
                                (path.ends_with("/embed") && family_of(path) == Family::texts) ||
                                path.ends_with("/embed_all") || path.ends_with("/embed_sparse") ||
                                path.ends_with("/tokenize") || (path == "/" && !ranks);
    if (takes_one_text) {
      found["requestBody"]["content"]["text/plain"] = {
          {"schema", {{"type", "string"}, {"pattern", R"(^[^\u0000]*$)"}}}};
    }
    if (takes_images && path.ends_with("/predict")) {
      found["requestBody"]["description"] =
          "Images: base64 or data URLs in place of numbers; or the body is a JPEG, PNG or WebP file (image/*), or a "
          "form with such files (multipart/form-data).";
    }
  }
  Json success{{"description", "done"}};
  if (path == "/docs") {
    success["content"] = {{"text/html", {{"schema", {{"type", "string"}}}}}};
  } else if (path == "/" && route.method == "GET") {
    success["content"] = {{"text/plain", {{"schema", {{"type", "string"}}}}}};
  } else if (path == "/metrics") {
    success["content"] = {{"text/plain", {{"schema", {{"type", "string"}}}}},
                          {"application/json", {{"schema", {{"type", "object"}}}}}};
  } else {
    success["content"] = json_content(std::move(answer));
    if (openapi::generation_ability_for(path) == TextAbility::generate) {
      const char* streamed = family_of(path) == Family::openai ? "text/event-stream" : "application/x-ndjson";
      success["content"][streamed] = {{"schema", {{"type", "string"}}}};
    }
    // Where binary tensors are asked for.
    if (path.ends_with("/infer")) success["content"]["application/octet-stream"] = Json::object();
  }
  Json answers{{"200", std::move(success)}};
  answers["400"] = failure(path, "the request does not fit; the message names the place");
  const bool classifies = path.ends_with("/predict") &&
                          std::any_of(models.begin(), models.end(),
                                      [](const auto* model) { return is_able(*model, TextAbility::classify); });
  if (classifies)
    answers["422"] = {{"description", "the texts do not fit"}, {"content", json_content(reference("Error"))}};
  if (family_of(path) == Family::texts) {
    answers["422"] = answers["400"];
    answers["424"] = failure(path, "the model fails");
  }
  if (route.needs_key && keys_are_set) {
    answers["401"] = failure(path, "a key is needed");
    found["security"] = Json::array({{{"bearer", Json::array()}}, {{"key", Json::array()}}});
  }
  for (const auto& [status, text] :
       {std::pair{"404", "no such model"}, {"413", "the body is too large"}, {"415", "an unknown coding"}}) {
    answers[status] = failure(path, text);
  }
  if (runs) {
    if (!path.starts_with("/v2")) answers["429"] = failure(path, "the queue is full");
    answers["504"] = failure(path, "the deadline passed");
  }
  if (runs || path.find("health") != std::string_view::npos || path.ends_with("/ready") || path.ends_with("load")) {
    answers["503"] = failure(path, "not ready");
  }
  found["responses"] = std::move(answers);
  return found;
}

std::string with(std::string path, std::string_view capture, std::string_view value) {
  const std::size_t place = path.find(capture);
  return place == std::string::npos ? path : path.replace(place, capture.size(), value);
}

// A path's segment: what is neither letter nor digit nor one of -._~ as %XX.
std::string escaped(std::string_view text) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~").find(c) != std::string_view::npos;
    if (plain) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += digits[byte >> 4U];
      out += digits[byte & 15U];
    }
  }
  return out;
}

Json document(std::span<const std::shared_ptr<ServedModel>> models, const std::string& default_model,
              std::span<const RouteInfo> routes, bool keys_are_set) {
  std::vector<const ServedModel*> without_a_name;
  for (const auto& model : models) {
    if (default_model.empty() || model->name() == default_model) without_a_name.push_back(model.get());
  }
  Json paths = Json::object();
  for (const RouteInfo& route : routes) {
    const std::string method = lower(route.method);
    const bool asks_for_texts = ability_of(route).has_value();
    if (asks_for_texts && route.path.find("{name}") == std::string_view::npos) {
      std::vector<const ServedModel*> with_texts;
      for (const ServedModel* model : without_a_name) {
        if (serves(route, *model)) with_texts.push_back(model);
      }
      if (!with_texts.empty()) paths[std::string(route.path)][method] = operation(route, with_texts, keys_are_set);
      continue;
    }
    if (route.path.find("{name}") == std::string_view::npos) {
      paths[std::string(route.path)][method] = operation(route, without_a_name, keys_are_set);
      continue;
    }
    // Each model has its own shapes, so each has its own paths.
    for (const auto& model : models) {
      if (asks_for_texts && !serves(route, *model)) continue;
      std::string path = with(std::string(route.path), "{name}", escaped(model->name()));
      path = with(path, "{version}", escaped(model->version()));
      paths[path][method] = operation(route, {model.get()}, keys_are_set);
    }
  }
  return {{"openapi", "3.1.0"},
          {"info", {{"title", "gpux"}, {"version", gpux::version()}}},
          {"paths", std::move(paths)},
          {"components", components(keys_are_set)}};
}

void append_escaped(std::string& out, std::string_view text) {
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
}

}  // namespace

std::string openapi_json(std::span<const std::shared_ptr<ServedModel>> models, const std::string& default_model,
                         std::span<const RouteInfo> routes, bool keys_are_set) {
  return document(models, default_model, routes, keys_are_set).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string openapi_page(std::span<const std::shared_ptr<ServedModel>> models, const std::string& default_model,
                         std::span<const RouteInfo> routes, bool keys_are_set) {
  std::string page =
      "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>gpux</title><style>"
      "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
      "code,pre{font:14px/1.4 ui-monospace,monospace}pre{background:#8882;padding:.6rem;overflow:auto}"
      "summary{cursor:pointer}b{display:inline-block;min-width:3.5rem}</style></head><body><h1>gpux</h1>"
      "<p>The same for programs: <a href=\"openapi.json\">openapi.json</a></p>";
  for (const auto& model : models) {
    page += "<h2>";
    append_escaped(page, model->name() + " " + model->version());
    page += "</h2><p>";
    append_escaped(page, to_line(model->runtime().verdict()));
    page += "</p><ul>";
    const auto values = [&](std::string_view kind, const std::vector<SignatureEntry>& entries) {
      for (const SignatureEntry& entry : entries) {
        page += "<li>";
        page += kind;
        page += " <code>";
        append_escaped(page, entry.name + ": " + to_string(entry.type));
        page += "</code> ";
        append_escaped(page, entry.description);
        page += "</li>";
      }
    };
    values("input", model->signature().inputs);
    values("output", model->signature().outputs);
    page += "</ul>";
  }
  page += "<h2>Routes</h2>";
  const Json all = document(models, default_model, routes, keys_are_set);
  for (const auto& [path, methods] : all["paths"].items()) {
    for (const auto& [method, what] : methods.items()) {
      page += "<details><summary><b>";
      page += upper(method);
      page += "</b> <code>";
      append_escaped(page, path);
      page += "</code> ";
      append_escaped(page, what["summary"].get<std::string>());
      if (what.contains("security")) page += " (key)";
      page += "</summary><pre>";
      append_escaped(page, what.dump(2, ' ', false, Json::error_handler_t::replace));
      page += "</pre></details>";
    }
  }
  return page + "</body></html>";
}

}  // namespace gpux::server

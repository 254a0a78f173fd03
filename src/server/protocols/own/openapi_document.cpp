#include "server/protocols/own/openapi_document.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include <nlohmann/json.hpp>

#include "base/home.h"
#include "base/spelling.h"
#include "server/protocols/open_inference/operations.h"
#include "server/protocols/openapi/fields.h"
#include "server/protocols/openapi/operation.h"

namespace gpux::server {
namespace {

using openapi::Json;
using openapi::json_content;
using openapi::reference;

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
  const Json anthropic_error{{"type", "object"},
                             {"properties", {{"type", text}, {"message", text}}},
                             {"required", Json::array({"type", "message"})}};
  schemas["AnthropicError"] = {{"type", "object"},
                               {"properties", {{"type", {{"const", "error"}}}, {"error", anthropic_error}}},
                               {"required", Json::array({"type", "error"})}};
  schemas["Tensor"] = open_inference_v2::tensor_schema();
  schemas["InferResponse"] = open_inference_v2::answer_schema();
  Json components{{"schemas", std::move(schemas)}};
  if (keys_are_set) {
    components["securitySchemes"] = {{"bearer", {{"type", "http"}, {"scheme", "bearer"}}},
                                     {"key", {{"type", "apiKey"}, {"in", "header"}, {"name", "X-API-Key"}}}};
  }
  return components;
}

const char* error_schema(Protocol protocol) {
  switch (protocol) {
    case Protocol::own:
      return "Detail";
    case Protocol::openai:
      return "OpenAIError";
    case Protocol::anthropic:
      return "AnthropicError";
    case Protocol::open_inference:
    case Protocol::ollama:
    case Protocol::texts:
      break;
  }
  return "Error";
}

Json failure(Protocol protocol, const std::string& description) {
  const char* schema = error_schema(protocol);
  return {{"description", description}, {"content", json_content(reference(schema))}};
}

Json request_body(const Operation& described, bool is_required) {
  Json body{{"required", is_required}, {"content", json_content(described.request)}};
  if (described.takes_text) {
    body["content"]["text/plain"] = {{"schema", {{"type", "string"}, {"pattern", R"(^[^\u0000]*$)"}}}};
  }
  if (!described.request_description.empty()) body["description"] = described.request_description;
  return body;
}

// All answers but the success.
void add_failures(Json& answers, const Route& route, const Operation& described, bool waits, bool keys_are_set) {
  const auto add = [&](const char* status, const char* description) {
    answers[status] = failure(route.protocol, description);
  };
  add("400", "the request does not fit; the message names the place");
  for (const auto& [status, answer] : described.failures.items()) answers[status] = answer;
  if (route.protocol == Protocol::texts) {
    answers["422"] = answers["400"];
    add("424", "the model fails");
  }
  if (route.key != RouteKey::none && keys_are_set) add("401", "a key is needed");
  if (route.key == RouteKey::admin || route.key == RouteKey::change) {
    add("403", "the server accepts no such change from this client");
  }
  add("404", "no such model");
  add("413", "the body is too large");
  add("415", "an unknown coding");
  if (waits) {
    const bool waits_elsewhere = route.protocol == Protocol::open_inference;
    add("429",
        waits_elsewhere ? "a limit of the key is reached" : "the queue is full, or a limit of the key is reached");
    add("504", "the deadline passed");
  }
  if (waits || route.contract.answering == Answering::by_readiness) add("503", "not ready");
}

// `models`: those that the route may be for.
Json operation(const Route& route, const ServedList& models, bool keys_are_set) {
  Operation described = route.contract.describe == nullptr ? Operation{} : route.contract.describe(models);
  if (described.request.is_null() && route.contract.fields != nullptr) {
    described.request = openapi::object_schema(route.contract.fields(), models);
  }
  if (described.content.is_null()) described.content = json_content({{"type", "object"}});
  const bool waits = route.contract.answering == Answering::in_turn && !described.request.is_null();
  Json found{{"summary", route.summary}};
  if (!described.parameters.is_null()) found["parameters"] = described.parameters;
  const bool is_named = std::ranges::any_of(described.parameters, [](const Json& one) { return one["in"] == "path"; });
  if (!is_named && route.path.find("{id}") != std::string_view::npos) {
    found["parameters"].push_back(
        {{"name", "id"}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}});
  }
  if (!described.request.is_null()) found["requestBody"] = request_body(described, waits);
  Json answers{{"200", {{"description", "done"}, {"content", described.content}}}};
  add_failures(answers, route, described, waits, keys_are_set);
  if (route.key != RouteKey::none && keys_are_set) {
    found["security"] = Json::array({{{"bearer", Json::array()}}, {{"key", Json::array()}}});
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
              std::span<const Route> routes, bool keys_are_set) {
  ServedList without_a_name;
  for (const auto& model : models) {
    if (default_model.empty() || model->name() == default_model) without_a_name.push_back(model.get());
  }
  Json paths = Json::object();
  for (const Route& route : routes) {
    const std::string method = lower(route.method);
    const std::optional<TextAbility> ability = route.contract.ability;
    const auto serves = [&](const ServedModel* model) { return !ability || is_able(*model, *ability); };
    if (route.path.find("{name}") == std::string_view::npos) {
      ServedList able;
      std::ranges::copy_if(without_a_name, std::back_inserter(able), serves);
      // A path has all of its methods, as its Allow has.
      if (ability && able.empty() && !paths.contains(route.path)) continue;
      paths[std::string(route.path)][method] = operation(route, able, keys_are_set);
      continue;
    }
    // Each model has its own shapes, so each has its own paths.
    for (const auto& model : models) {
      if (!serves(model.get())) continue;
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
                         std::span<const Route> routes, bool keys_are_set) {
  return document(models, default_model, routes, keys_are_set).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string openapi_page(std::span<const std::shared_ptr<ServedModel>> models, const std::string& default_model,
                         std::span<const Route> routes, bool keys_are_set) {
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

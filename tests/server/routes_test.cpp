#include "server/routes.h"

#include <cstdlib>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "server/protocols/openapi/fields.h"

namespace gpux::server {
namespace {

const std::string page_path = GPUX_SOURCE_DIR "/docs/serving.md";

// "/v2/models/{name}" as the pages write it: "/v2/models/NAME".
std::string written(std::string_view path) {
  std::string text(path);
  for (const auto& [capture, word] :
       {std::pair("{name}", "NAME"), std::pair("{version}", "V"), std::pair("{id}", "ID")}) {
    const std::string name = capture;
    if (const auto place = text.find(name); place != std::string::npos) text.replace(place, name.size(), word);
  }
  return text;
}

std::string_view protocol_name(Protocol protocol) {
  switch (protocol) {
    case Protocol::own:
      return "gpux";
    case Protocol::open_inference:
      return "Open Inference Protocol";
    case Protocol::openai:
      return "OpenAI";
    case Protocol::anthropic:
      return "Anthropic";
    case Protocol::ollama:
      return "Ollama";
    case Protocol::texts:
      return "text-embeddings-inference";
  }
  return "";
}

std::string_view name_of(RouteKey key) {
  switch (key) {
    case RouteKey::none:
      return "no";
    case RouteKey::any:
      return "yes";
    case RouteKey::admin:
    case RouteKey::change:
      return "admin";
  }
  return "";
}

// A line for each route, and one for neighbours that do the same.
std::string table_of(std::span<const Route> routes) {
  std::string table = "| route | clients | key | |\n|---|---|---|---|\n";
  for (std::size_t i = 0; i < routes.size();) {
    const Route& first = routes[i];
    std::string line = "| `" + std::string(first.method) + " " + written(first.path) + "`";
    const auto is_same = [&](const Route& other) {
      return other.handler == first.handler && other.method == first.method && other.summary == first.summary &&
             other.key == first.key;
    };
    for (++i; i < routes.size() && is_same(routes[i]); ++i) line += ", `" + written(routes[i].path) + "`";
    table += line + " | " + std::string(protocol_name(first.protocol)) + fmt::format(" | {} | ", name_of(first.key)) +
             std::string(first.summary) + " |\n";
  }
  return table;
}

// The fields of each request: those that must be there in bold.
std::string fields_of(std::span<const Route> routes) {
  std::string table = "| route | fields |\n|---|---|\n";
  std::set<std::span<const Field> (*)()> seen;
  for (const Route& route : routes) {
    if (route.contract.fields == nullptr || !seen.insert(route.contract.fields).second) continue;
    std::string names;
    for (const Field& field : route.contract.fields()) {
      std::string name = "`" + std::string(field.name) + "`";
      if (field.kind == FieldKind::refused) name += " (refused)";
      if (field.kind == FieldKind::ignored) name += " (no effect)";
      names += (names.empty() ? "" : ", ") + (field.use == FieldUse::required ? "**" + name + "**" : name);
    }
    table += "| `" + written(route.path) + "` | " + names + " |\n";
  }
  return table;
}

// What stands between the two marks. With GPUX_WRITE_PAGES set the page is written instead.
void expect_on_page(const std::string& mark, const std::string& expected) {
  const std::string page = read_file(page_path);
  const std::string begin =
                        "<!-- " + mark + ": written from the tables of routes, see tests/server/routes_test.cpp -->\n",
                    end = "<!-- end of " + mark + " -->\n";
  const std::size_t from = page.find(begin), to = page.find(end);
  ASSERT_NE(from, std::string::npos) << begin;
  ASSERT_NE(to, std::string::npos) << end;
  const std::size_t start = from + begin.size();
  if (std::getenv("GPUX_WRITE_PAGES") != nullptr) {
    write_file_atomically(page_path, page.substr(0, start) + expected + page.substr(to));
    return;
  }
  EXPECT_EQ(page.substr(start, to - start), expected) << "GPUX_WRITE_PAGES=1 writes it";
}

TEST(Routes, AreTheTableOfThePage) {
  expect_on_page("routes", table_of(all_routes()));
}

TEST(Routes, HaveTheFieldsOfThePage) {
  expect_on_page("fields", fields_of(all_routes()));
}

TEST(Routes, AreEachThereOnce) {
  std::set<std::pair<std::string_view, std::string_view>> seen;
  for (const Route& route : all_routes()) {
    EXPECT_TRUE(seen.emplace(route.method, route.path).second) << route.method << " " << route.path;
    EXPECT_FALSE(route.summary.empty()) << route.path;
    if (route.contract.fields == nullptr) continue;
    EXPECT_TRUE(route.method == "POST" || route.method == "DELETE") << route.path;
    std::set<std::string_view> names;
    for (const Field& field : route.contract.fields()) {
      EXPECT_TRUE(names.insert(field.name).second) << route.path << ": " << field.name;
      EXPECT_EQ(field.kind == FieldKind::refused, !field.refusal.empty()) << field.name;
      if (field.kind == FieldKind::choice) EXPECT_FALSE(field.choices.empty()) << field.name;
    }
  }
}

openapi::Json documented(const Field& field) {
  const openapi::Json properties = openapi::object_schema({&field, 1}, {}).at("properties");
  return properties.value(std::string(field.name), openapi::Json());
}

// Fields that have a schema of their own may depend on the served models.
TEST(Routes, DocumentTheirFields) {
  for (const Route& route : all_routes()) {
    if (route.contract.fields == nullptr) continue;
    for (const Field& field : route.contract.fields()) {
      if (field.schema == nullptr) EXPECT_FALSE(documented(field).is_null()) << route.path << ": " << field.name;
      if (field.kind != FieldKind::refused) continue;
      const openapi::Json accepted = documented(field).value("enum", openapi::Json());
      EXPECT_TRUE(accepted.is_array() && accepted.front().is_null()) << route.path << ": " << field.name;
      EXPECT_EQ(accepted.size(), field.neutral.empty() ? 4U : 5U) << route.path << ": " << field.name;
    }
  }
}

TEST(Routes, DocumentWhatIsAcceptedWithOneValue) {
  const auto text_of = [](std::string_view path, std::string_view name) {
    std::string text;
    for (const Route& route : all_routes()) {
      if (route.path != path || route.contract.fields == nullptr) continue;
      for (const Field& field : route.contract.fields()) {
        if (field.name == name) text = documented(field).dump();
      }
    }
    return text;
  };
  for (const char* field : {"echo", "add_special_tokens"}) {
    EXPECT_THAT(text_of("/v1/chat/completions", field), testing::HasSubstr("\"const\":false")) << field;
  }
  EXPECT_THAT(text_of("/v1/chat/completions", "modalities"), testing::HasSubstr("\"const\":\"text\""));
  EXPECT_THAT(text_of("/v1/completions", "best_of"), testing::HasSubstr("\"null\""));
  EXPECT_THAT(text_of("/api/generate", "context"), testing::HasSubstr("\"null\""));
}

RouteMatch match(const char* method, const char* target) {
  http::Request request;
  request.method = method;
  request.target = target;
  return match_route(request);
}

TEST(Routes, AreFoundByTheirPaths) {
  struct Line {
    const char *method, *target, *path;
    std::string name, version;
  };

  for (const Line& line : std::vector<Line>{
           {"POST", "/predict", "/predict", "", ""},
           {"POST", "/predict?a=b", "/predict", "", ""},
           {"POST", "/predict/", "/predict", "", ""},
           {"GET", "/", "/", "", ""},
           {"GET", "/v2/models/stats", "/v2/models/stats", "", ""},
           {"GET", "/v2/models/a%3Ab", "/v2/models/{name}", "a:b", ""},
           {"GET", "/v2/models/a%2Fb/ready", "/v2/models/{name}/ready", "a/b", ""},
           {"POST", "/v2/models/m/versions/3/infer", "/v2/models/{name}/versions/{version}/infer", "m", "3"},
           {"POST", "/models/m/embed", "/models/{name}/embed", "m", ""},
           {"POST", "/v1/models/m:predict", "/v1/models/{name}:predict", "m", ""},
           {"POST", "/v1/models/m:latest:predict", "/v1/models/{name}:predict", "m:latest", ""},
           {"POST", "/v1/messages?beta=true", "/v1/messages", "", ""},
           {"POST", "/v1/responses/input_tokens", "/v1/responses/input_tokens", "", ""},
       }) {
    SCOPED_TRACE(line.target);
    const RouteMatch found = match(line.method, line.target);
    ASSERT_NE(found.route, nullptr);
    EXPECT_EQ(found.route->path, line.path);
    EXPECT_EQ(found.name.value_or(""), line.name);
    EXPECT_EQ(found.version.value_or(""), line.version);
    EXPECT_EQ(found.protocol, found.route->protocol);
  }
}

TEST(Routes, HaveTheIdsOfTheirPaths) {
  for (const char* method : {"GET", "DELETE"}) {
    const RouteMatch found = match(method, "/v1/responses/resp_1%2F2?stream=false");
    ASSERT_NE(found.route, nullptr);
    EXPECT_EQ(found.id, "resp_1/2");
    EXPECT_EQ(found.name, std::nullopt);
  }
  EXPECT_EQ(match("GET", "/v1/responses/resp_1/input_items").id, "resp_1");
}

TEST(Routes, AreRefusedInTheProtocolOfTheirPath) {
  struct Line {
    const char *method, *target;
    Protocol protocol;
    std::vector<std::string> allowed;
  };

  for (const Line& line : std::vector<Line>{
           {"GET", "/predict", Protocol::own, {"POST"}},
           {"PUT", "/", Protocol::own, {"GET", "POST"}},
           {"PUT", "/v2/models/stats", Protocol::open_inference, {"GET"}},
           {"GET", "/v1/chat", Protocol::openai, {}},
           {"PUT", "/v1/responses/resp_1", Protocol::openai, {"GET", "DELETE"}},
           {"PUT", "/v1/responses/input_tokens", Protocol::openai, {"POST"}},
           {"POST", "/v1/models/m", Protocol::openai, {"GET"}},
           {"PUT", "/v1/models/m:predict", Protocol::openai, {"POST"}},
           {"GET", "/v1/models/m:predict", Protocol::openai, {"POST"}},
           {"POST", "/v1/models/:predict", Protocol::openai, {"GET"}},
           {"GET", "/v1/messages", Protocol::anthropic, {"POST"}},
           {"GET", "/v1/messages/batches", Protocol::anthropic, {}},
           {"GET", "/v2/none", Protocol::open_inference, {}},
           {"GET", "/api/none", Protocol::ollama, {}},
           {"GET", "/a/b/c/d/e/f/g/h/i", Protocol::own, {}},
       }) {
    SCOPED_TRACE(line.target);
    const RouteMatch found = match(line.method, line.target);
    EXPECT_EQ(found.route, nullptr);
    EXPECT_EQ(found.protocol, line.protocol);
    EXPECT_EQ(found.allowed, line.allowed);
  }
}

}  // namespace
}  // namespace gpux::server

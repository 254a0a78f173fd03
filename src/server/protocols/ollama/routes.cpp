#include "server/protocols/ollama/routes.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/home.h"
#include "server/protocols/embed_texts.h"
#include "server/protocols/generate.h"
#include "server/protocols/model_choice.h"
#include "server/protocols/ollama/answers.h"
#include "server/protocols/ollama/operations.h"
#include "server/protocols/ollama/requests.h"
#include "server/protocols/ollama/store_requests.h"
#include "server/protocols/ollama/store_routes.h"

namespace gpux::server::ollama {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr std::string_view default_tag = ":latest";

http::Response json_response(const Json& json) {
  return http::Response::json(200, json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

// A name without a tag means the tag latest. A registry's name may have a port.
std::string tagged(const std::string& name) {
  const std::size_t slash = name.rfind('/');
  const bool has_tag = name.find(':', slash == std::string::npos ? 0 : slash) != std::string::npos;
  return has_tag ? name : name + std::string(default_tag);
}

// The served name that a request means: the one it has, or that without its tag. Others may be aliases.
std::string served_name(const ModelRepository& repository, const std::string& requested) {
  const std::vector<std::string> names = repository.names();
  if (std::ranges::find(names, requested) != names.end() || !requested.ends_with(default_tag)) return requested;
  std::string bare = requested.substr(0, requested.size() - default_tag.size());
  return std::ranges::find(names, bare) == names.end() ? requested : bare;
}

// Ollama, too, takes a larger context for the largest that the model has.
void bound_context(const OllamaSettings& asked, const ServedModel& model, GenerationRequest& request) {
  request.context_length = std::min(asked.context_length, model.engine()->context_length());
  request.limits_tokens = true;
}

void set_rendering(const OllamaHead& head, bool is_streamed, GenerationRequest& request) {
  if (is_streamed) {
    request.rendering.events = [head](std::size_t /*prompt_tokens*/) { return ollama_answer_events(head); };
  }
  request.rendering.whole = [head](const std::vector<AnswerDelta>& choices, const AnswerUsage& usage) {
    return ollama_answer_json(head, choices.front(), usage);
  };
}

OllamaHead head_of(OllamaRoute route, const OllamaSettings& asked, const ServedModel& model) {
  return {.route = route, .model = asked.model.empty() ? tagged(model.name()) : asked.model};
}

// Without a chat template a prompt is continued as it is.
Continuation continuation_of(OllamaGenerate& asked, const ServedModel& model) {
  if (!asked.system.empty()) {
    throw Error(ErrorCode::invalid_input,
                fmt::format("system: '{}' takes no messages: {}", model.name(), model.chat_problem()));
  }
  Continuation continuation;
  continuation.prompts.emplace_back(std::move(asked.prompt));
  continuation.suffix = std::move(asked.suffix);
  continuation.settings = std::move(asked.settings);
  return continuation;
}

generation::ChatRequest conversation_of(OllamaGenerate& asked) {
  generation::ChatRequest chat;
  if (!asked.system.empty()) chat.messages.push_back({.role = "system", .content = std::move(asked.system)});
  chat.messages.push_back({.role = "user", .content = std::move(asked.prompt)});
  chat.options.reasoning = asked.general.reasoning;
  chat.settings = std::move(asked.settings);
  return chat;
}

std::string size_name(std::uint64_t count) {
  constexpr double billion = 1e9, million = 1e6;
  const auto number = static_cast<double>(count);
  if (number >= billion) return fmt::format("{:.1f}B", number / billion);
  return number >= million ? fmt::format("{:.0f}M", number / million) : std::to_string(count);
}

// Of most of its parameters: "float32".
std::string precision_of(const ModelInfo& info) {
  const auto most = std::ranges::max_element(info.parameter_types, {}, [](const auto& type) { return type.second; });
  return most == info.parameter_types.end() ? "" : most->first;
}

Json details_of(const ModelDescription& model) {
  return {{"parent_model", ""},
          {"format", model.info.format},
          {"family", model.family},
          {"families", Json::array({model.family})},
          {"parameter_size", size_name(model.info.parameter_count)},
          {"quantization_level", precision_of(model.info)}};
}

Json listed(const ModelDescription& model, std::chrono::system_clock::time_point since) {
  const std::string name = tagged(model.name);
  return {{"name", name},
          {"model", name},
          {"modified_at", ollama_time(since)},
          {"size", model.info.total_bytes()},
          {"digest", model.digest},
          {"details", details_of(model)}};
}

Json capabilities_of(const ModelDescription& described, const ServedModel* model) {
  Json able = Json::array();
  if (described.is_able(TextAbility::generate)) able.push_back("completion");
  if (described.is_able(TextAbility::embed)) able.push_back("embedding");
  if (model == nullptr || model->chat() == nullptr) return able;
  const generation::AnswerFormat format = generation::answer_format_of(model->chat()->template_text(true));
  const bool calls_tools = model->chat()->shows_tools() && format.tool_calls != generation::ToolCallStyle::none;
  if (calls_tools) able.push_back("tools");
  if (!format.reasoning_end.empty()) able.push_back("thinking");
  return able;
}

void keep_loaded(const RouteCall& call, const ServedModel& model, const std::optional<KeepAlive>& keep_alive) {
  if (keep_alive) call.service.repository.set_idle_limit(model.name(), model.version(), *keep_alive);
}

bool asks_to_unload(const OllamaSettings& asked) {
  return asked.keep_alive == KeepAlive(0);
}

// A request without a prompt, and keep_alive 0, is one to unload the model, as `ollama stop` sends it.
void unload(const RouteCall& call, OllamaRoute route, const OllamaSettings& asked) {
  ModelRepository& repository = call.service.repository;
  if (!repository.unloads_idle_models()) {
    refuse_member("keep_alive",
                  "is 0: models stay loaded here; accepted with gpux serve --idle-unload, and as "
                  "POST /v2/repository/models/NAME/unload");
  }
  const std::string name = name_for(call);
  repository.set_idle_limit(name, "", KeepAlive(0));
  const OllamaHead head{.route = route, .model = asked.model.empty() ? tagged(name) : asked.model};
  call.exchange->respond(http::Response::json(200, ollama_loaded_json(head, "unload")));
}

void chat(const RouteCall& call) {
  const auto share = hold_for_reading(call.work, call.request().body.text(), bytes_per_json_member);
  const auto asked = std::make_shared<OllamaChat>(read_ollama_chat(call.request().body.text(), call.work));
  RouteCall named = call;
  if (!asked->general.model.empty()) named.name = served_name(call.service.repository, asked->general.model);
  if (asked->chat.messages.empty() && asks_to_unload(asked->general)) {
    unload(named, OllamaRoute::chat, asked->general);
    return;
  }
  with_able(named, TextAbility::generate, [asked](const RouteCall& with, const std::shared_ptr<ServedModel>& model) {
    keep_loaded(with, *model, asked->general.keep_alive);
    const OllamaHead head = head_of(OllamaRoute::chat, asked->general, *model);
    if (asked->chat.messages.empty()) {
      with.exchange->respond(http::Response::json(200, ollama_loaded_json(head, "load")));
      return;
    }
    asked->chat.options.reasoning = asked->general.reasoning;
    GenerationRequest request{.asked = std::move(asked->chat), .members = {.reasoning = "think"}};
    bound_context(asked->general, *model, request);
    set_rendering(head, asked->general.is_streamed, request);
    generate(with, model, std::move(request));
  });
}

void answer_prompt(const RouteCall& call) {
  const auto share = hold_for_reading(call.work, call.request().body.text(), bytes_per_json_member);
  const auto asked = std::make_shared<OllamaGenerate>(read_ollama_generate(call.request().body.text(), call.work));
  RouteCall named = call;
  if (!asked->general.model.empty()) named.name = served_name(call.service.repository, asked->general.model);
  if (asked->prompt.empty() && asks_to_unload(asked->general)) {
    unload(named, OllamaRoute::generate, asked->general);
    return;
  }
  with_able(named, TextAbility::generate, [asked](const RouteCall& with, const std::shared_ptr<ServedModel>& model) {
    keep_loaded(with, *model, asked->general.keep_alive);
    const OllamaHead head = head_of(OllamaRoute::generate, asked->general, *model);
    if (asked->prompt.empty()) {
      with.exchange->respond(http::Response::json(200, ollama_loaded_json(head, "load")));
      return;
    }
    GenerationRequest request{.members = {.reasoning = "think"}};
    if (asked->is_raw || !asked->suffix.empty() || model->chat() == nullptr) {
      request.asked = continuation_of(*asked, *model);
    } else {
      request.asked = conversation_of(*asked);
    }
    request.earlier = std::move(asked->context);
    request.gives_tokens = !asked->is_raw;
    bound_context(asked->general, *model, request);
    set_rendering(head, asked->general.is_streamed, request);
    generate(with, model, std::move(request));
  });
}

void answer_with_vectors(const RouteCall& call, bool is_older) {
  const auto share = hold_for_reading(call.work, call.request().body.text(), bytes_per_json_string);
  const auto read = is_older ? read_ollama_embeddings : read_ollama_embed;
  const auto asked = std::make_shared<OllamaEmbed>(read(call.request().body.text(), call.work));
  RouteCall named = call;
  if (!asked->model.empty()) named.name = served_name(call.service.repository, asked->model);
  with_able(
      named, TextAbility::embed, [asked, is_older](const RouteCall& with, const std::shared_ptr<ServedModel>& model) {
        EmbedJobOptions options;
        options.embed.dimensions = asked->dimensions;
        options.embed.normalize = !is_older;
        options.embed.truncate = asked->truncate;
        // As for generated texts, a larger context means the largest that the model has.
        const std::size_t most = model->encoder()->model().max_tokens;
        const bool is_larger = most != 0 && asked->context_length > most;
        options.embed.max_tokens = is_larger ? most : asked->context_length;
        std::vector<TextInput> texts;
        for (std::string& text : asked->texts) texts.emplace_back(std::move(text));
        const std::string name = asked->model.empty() ? tagged(model->name()) : asked->model;
        embed_texts(with.exchange, with.protocol, with.work, model, std::move(texts), std::move(options),
                    [name, is_older, arrived = with.request().arrived](const EmbedJobResult& result) {
                      if (is_older) return ollama_vector_json(result.vectors.front());
                      return ollama_vectors_json(name, result.vectors, result.figures.tokens, Clock::now() - arrived);
                    });
      });
}

void embed(const RouteCall& call) {
  answer_with_vectors(call, false);
}

// Of one text.
void embed_older(const RouteCall& call) {
  answer_with_vectors(call, true);
}

void list_models(const RouteCall& call) {
  Json models = Json::array();
  for (const auto& model : call.service.repository.descriptions())
    models.push_back(listed(*model, call.service.started_at));
  for (const ModelSource& source : call.service.repository.on_demand()) {
    const std::string name = tagged(source.name);
    models.push_back({{"name", name},
                      {"model", name},
                      {"modified_at", ollama_time(call.service.started_at)},
                      {"size", source.size_bytes},
                      {"digest", source.aliases.digest},
                      {"details", Json::object()}});
  }
  call.exchange->respond(json_response({{"models", std::move(models)}}));
}

void list_loaded(const RouteCall& call) {
  Json models = Json::array();
  for (const auto& model : call.service.repository.models()) {
    Json loaded = listed(*describe(*model), call.service.started_at);
    loaded["size"] = model->size_bytes();
    std::uint64_t device_bytes = 0;
    for (const DeviceUse& use : model->device_uses()) device_bytes += use.bytes;
    loaded["size_vram"] = device_bytes;
    const auto left = call.service.repository.idle_time_left(model->name(), model->version());
    loaded["expires_at"] = left ? ollama_time(std::chrono::system_clock::now() + *left) : "9999-12-31T23:59:59Z";
    if (model->engine() != nullptr) loaded["context_length"] = model->engine()->context_length();
    models.push_back(std::move(loaded));
  }
  call.exchange->respond(json_response({{"models", std::move(models)}}));
}

// `model`: null where it is not loaded.
Json shown(const ModelDescription& described, const ServedModel* model, std::chrono::system_clock::time_point since) {
  const std::string& family = described.family;
  Json info{{"general.architecture", family}, {"general.parameter_count", described.info.parameter_count}};
  std::string chat_template;
  if (model != nullptr && model->engine() != nullptr) {
    info[family + ".context_length"] = model->engine()->context_length();
    if (model->chat() != nullptr) chat_template = model->chat()->template_text(false);
  }
  return {{"modelfile", ""},
          {"parameters", ""},
          {"template", chat_template},
          {"details", details_of(described)},
          {"model_info", std::move(info)},
          {"capabilities", capabilities_of(described, model)},
          {"modified_at", ollama_time(since)}};
}

void show_model(const RouteCall& call) {
  const std::string name = read_ollama_show(call.request().body.text(), call.work);
  RouteCall named = call;
  if (!name.empty()) named.name = served_name(call.service.repository, name);
  const std::string served = name_for(named);
  ModelRepository& repository = call.service.repository;
  std::shared_ptr<const ModelDescription> described;
  try {
    described = repository.description(served, "");
  } catch (const Error& error) {
    // What its template can do shows when it is loaded.
    if (error.code() != ErrorCode::not_found || !repository.loads_by_name()) throw;
    with_model(
        named,
        [](const RouteCall& with, const std::shared_ptr<ServedModel>& model) {
          with.exchange->respond(json_response(shown(*describe(*model), model.get(), with.service.started_at)));
        },
        MayPull::no);
    return;
  }
  const std::shared_ptr<ServedModel> model = repository.find_available(served, "");
  call.exchange->respond(json_response(shown(*described, model.get(), call.service.started_at)));
}

// What Ollama's program and others look for before they ask for anything.
void tell_alive(const RouteCall& call) {
  http::Response response;
  response.text = "Ollama is running";
  response.headers.add("Content-Type", "text/plain; charset=utf-8");
  call.exchange->respond(std::move(response));
}

// What these routes do is what Ollama does from this version on; editors refuse those before 0.6.4.
constexpr const char* emulated_version = "0.12.0";

void tell_version(const RouteCall& call) {
  call.exchange->respond(json_response({{"version", emulated_version}, {"gpux", gpux::version()}}));
}

constexpr RouteContract chat_contract{
    .ability = TextAbility::chat, .answering = Answering::in_turn, .fields = chat_fields, .describe = describe_chat};
constexpr RouteContract answer_prompt_contract{.ability = TextAbility::generate,
                                               .answering = Answering::in_turn,
                                               .fields = generate_fields,
                                               .describe = describe_generate};
constexpr RouteContract embed_contract{
    .ability = TextAbility::embed, .answering = Answering::in_turn, .fields = embed_fields, .describe = describe_embed};
constexpr RouteContract older_embed_contract{.ability = TextAbility::embed,
                                             .answering = Answering::in_turn,
                                             .fields = older_embed_fields,
                                             .describe = describe_embeddings};
constexpr RouteContract show_model_contract{.answering = Answering::in_turn, .fields = show_fields};
constexpr RouteContract tell_alive_contract{.describe = describe_alive};

constexpr RouteContract transfer_contract{
    .answering = Answering::in_turn, .fields = transfer_fields, .describe = describe_change};
constexpr RouteContract create_contract{
    .answering = Answering::in_turn, .fields = create_fields, .describe = describe_change};
constexpr RouteContract copy_contract{
    .answering = Answering::in_turn, .fields = copy_fields, .describe = describe_done};
constexpr RouteContract delete_contract{
    .answering = Answering::in_turn, .fields = delete_fields, .describe = describe_done};
constexpr RouteContract find_blob_contract{.describe = describe_found};
constexpr RouteContract keep_blob_contract{
    .body = BodyKind::any, .answering = Answering::in_turn, .describe = describe_kept};

constexpr std::array<Route, 16> table{{
    {"POST", "/api/chat", "Answers to conversations, as Ollama's clients ask for them", RouteKey::any, Protocol::ollama,
     chat, chat_contract},
    {"POST", "/api/generate", "Answers to prompts, as Ollama's clients ask for them", RouteKey::any, Protocol::ollama,
     answer_prompt, answer_prompt_contract},
    {"POST", "/api/embed", "Vectors of texts, as Ollama's clients ask for them", RouteKey::any, Protocol::ollama, embed,
     embed_contract},
    {"POST", "/api/embeddings", "The vector of a text, as Ollama's older clients ask for it", RouteKey::any,
     Protocol::ollama, embed_older, older_embed_contract},
    {"GET", "/api/tags", "The models served, as Ollama's clients ask for them", RouteKey::any, Protocol::ollama,
     list_models},
    {"GET", "/api/ps", "The models that are loaded, as Ollama's clients ask for them", RouteKey::any, Protocol::ollama,
     list_loaded},
    {"POST", "/api/show", "A model, as Ollama's clients ask for it", RouteKey::any, Protocol::ollama, show_model,
     show_model_contract},
    {"POST", "/api/pull", "Bring a model into the store, as Ollama's clients ask for it", RouteKey::change,
     Protocol::ollama, pull_model, transfer_contract},
    {"POST", "/api/push", "Upload a stored model to a registry, as Ollama's clients ask for it", RouteKey::change,
     Protocol::ollama, push_model, transfer_contract},
    {"POST", "/api/create", "Make a model of a stored one or of sent files, as Ollama's clients ask for it",
     RouteKey::change, Protocol::ollama, create_model, create_contract},
    {"POST", "/api/copy", "Give a stored model another name, as Ollama's clients ask for it", RouteKey::change,
     Protocol::ollama, copy_model, copy_contract},
    {"DELETE", "/api/delete", "Remove a stored model, as Ollama's clients ask for it", RouteKey::change,
     Protocol::ollama, delete_model, delete_contract},
    {"GET", "/api/blobs/{id}", "Whether a file was sent, as Ollama's clients ask for it with HEAD", RouteKey::change,
     Protocol::ollama, find_blob, find_blob_contract},
    {"POST", "/api/blobs/{id}", "Send a file for /api/create, as Ollama's clients do", RouteKey::change,
     Protocol::ollama, keep_blob, keep_blob_contract},
    {"GET", "/api/version", "The version of the server, as Ollama's clients ask for it", RouteKey::any,
     Protocol::ollama, tell_version},
    {"GET", "/", "Whether the server answers, as Ollama's clients ask for it", RouteKey::none, Protocol::ollama,
     tell_alive, tell_alive_contract},
}};

}  // namespace

std::span<const Route> routes() noexcept {
  return table;
}

}  // namespace gpux::server::ollama

#include "server/protocols/openai/routes.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "server/protocols/embed_texts.h"
#include "server/protocols/embed_texts_and_images.h"
#include "server/protocols/generate.h"
#include "server/protocols/model_choice.h"
#include "server/protocols/openai/answers.h"
#include "server/protocols/openai/chat_requests.h"
#include "server/protocols/openai/completion_requests.h"
#include "server/protocols/openai/embedding_requests.h"
#include "server/protocols/openai/operations.h"
#include "server/requests/request_trace.h"
#include "tensor/json_writer.h"

namespace gpux::server::openai {
namespace {

AnswerHead head_of(std::string_view prefix, const ServedModel& model) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {.id = fmt::format("{}-{}", prefix, name_request({}, {}).id),
          .created = std::chrono::duration_cast<std::chrono::seconds>(now).count(),
          .model = model.name(),
          .fingerprint = model.ran_on().fingerprint};
}

// `context_length`, as vLLM has it; 0: the model generates no text, or is not known.
void append_openai_model(std::string& out, const std::string& name, std::size_t context_length,
                         std::chrono::system_clock::time_point since) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since.time_since_epoch()).count();
  out += R"({"id":)";
  append_json_string(out, name);
  out += fmt::format(R"(,"object":"model","created":{},"owned_by":"gpux")", seconds);
  if (context_length != 0) out += fmt::format(R"(,"max_model_len":{})", context_length);
  out += '}';
}

http::Response vectors_json(const std::vector<std::vector<float>>& vectors, std::size_t tokens,
                            const std::string& model, bool base64) {
  std::string text = R"({"object":"list","data":[)";
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    text += fmt::format(R"({}{{"object":"embedding","index":{},"embedding":)", i == 0 ? "" : ",", i);
    append_vector(text, vectors[i], base64);
    text += '}';
  }
  text += R"(],"model":)";
  append_json_string(text, model);
  text += fmt::format(R"(,"usage":{{"prompt_tokens":{0},"total_tokens":{0}}}}})", tokens);
  return http::Response::json(200, std::move(text));
}

// Where there are images among the inputs.
void embed_images(const std::shared_ptr<http::Exchange>& exchange, const RequestWork& work,
                  const std::shared_ptr<ServedModel>& model, OpenAiEmbeddings asked) {
  const auto all = std::make_shared<TextsAndImages>();
  all->exchange = exchange;
  all->protocol = Protocol::openai;
  all->work = work;
  all->model = model;
  all->dimensions = asked.dimensions;
  std::vector<bool> is_image;
  for (auto& input : asked.inputs) {
    is_image.push_back(std::holds_alternative<EncodedImage>(input));
    if (is_image.back()) {
      all->images.push_back(std::get<EncodedImage>(std::move(input)).value);
    } else {
      all->texts.push_back(std::get<TextInput>(std::move(input)));
    }
  }
  all->answer = [is_image, name = model->name(), base64 = asked.base64](TextsAndImages& made) {
    std::vector<std::vector<float>> vectors;
    auto text = made.text_vectors.begin();
    auto image = made.image_vectors.begin();
    for (const bool from_image : is_image) vectors.push_back(std::move(from_image ? *image++ : *text++));
    return vectors_json(vectors, made.figures.tokens, name, base64);
  };
  embed_texts_and_images(all);
}

void embeddings(const RouteCall& call) {
  const auto share = hold_for_reading(call.work, call.request().body.text(), bytes_per_json_string);
  const auto asked = std::make_shared<OpenAiEmbeddings>(read_openai_embeddings(call.request().body.text(), call.work));
  RouteCall named = call;
  if (!asked->model.empty()) named.name = asked->model;
  const auto is_text = [](const auto& input) { return std::holds_alternative<TextInput>(input); };
  const bool has_images = !std::ranges::all_of(asked->inputs, is_text);
  const bool has_texts = std::ranges::any_of(asked->inputs, is_text);
  const TextAbility ability = has_images ? TextAbility::embed_images : TextAbility::embed;
  with_able(
      named, ability, [asked, has_images, has_texts](const RouteCall& with, const std::shared_ptr<ServedModel>& model) {
        if (has_images) {
          if (has_texts && !is_able(*model, TextAbility::embed)) {
            throw Error(ErrorCode::usage,
                        fmt::format("'{}' {}; it makes vectors of images", model->name(), lack_of(TextAbility::embed)));
          }
          embed_images(with.exchange, with.work, model, std::move(*asked));
          return;
        }
        EmbedJobOptions options;
        options.embed.dimensions = asked->dimensions;
        options.embed.normalize = true;
        std::vector<TextInput> texts;
        for (auto& input : asked->inputs) texts.push_back(std::get<TextInput>(std::move(input)));
        embed_texts(with.exchange, with.protocol, with.work, model, std::move(texts), std::move(options),
                    [name = model->name(), base64 = asked->base64](const EmbedJobResult& result) {
                      return vectors_json(result.vectors, result.figures.tokens, name, base64);
                    });
      });
}

void list_models(const RouteCall& call) {
  const std::vector<std::string> names = call.service.repository.names();
  std::map<std::string, std::size_t> context_lengths;
  for (const auto& model : call.service.repository.descriptions()) context_lengths[model->name] = model->context_length;
  std::string text = R"({"object":"list","data":[)";
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i != 0) text += ',';
    append_openai_model(text, names[i], context_lengths[names[i]], call.service.started_at);
  }
  for (const std::string& name : on_demand_names(call.service.repository)) {
    if (text.back() == '}') text += ',';
    append_openai_model(text, name, 0, call.service.started_at);
  }
  call.exchange->respond(http::Response::json(200, text + "]}"));
}

bool is_model_ready(const ServiceState& service, std::string_view name) {
  return service.is_ready && std::ranges::any_of(service.repository.index(), [&](const ModelStatus& status) {
           return status.name == name && is_serving(status.state);
         });
}

void show_model(const RouteCall& call) {
  std::string text;
  const auto model = call.service.repository.description(call.name.value_or(""), "");
  append_openai_model(text, model->name, model->context_length, call.service.started_at);
  // What clients of KServe's first protocol look for, which has the same path.
  text.pop_back();
  text += R"(,"name":)";
  append_json_string(text, model->name);
  text += fmt::format(R"(,"ready":{}}})", is_model_ready(call.service, model->name));
  call.exchange->respond(http::Response::json(200, std::move(text)));
}

void complete(const RouteCall& call) {
  const auto share = hold_for_reading(call.work, call.request().body.text(), bytes_per_json_member);
  const auto asked = std::make_shared<CompletionRequest>(read_completion(call.request().body.text(), call.work));
  RouteCall named = call;
  if (!asked->model.empty()) named.name = asked->model;
  with_able(named, TextAbility::generate, [asked](const RouteCall& with, const std::shared_ptr<ServedModel>& model) {
    GenerationRequest request{.asked = std::move(asked->continuation),
                              .answers = asked->answers,
                              .members = {.prompt = "prompt", .form = std::move(asked->form_member)}};
    const AnswerHead head = head_of("cmpl", *model);
    if (asked->stream.is_streamed) {
      request.rendering.events = [head, parts = asked->parts,
                                  has_usage = asked->stream.has_usage](std::size_t /*prompt_tokens*/) {
        return completion_answer_events(head, parts, has_usage);
      };
    }
    request.rendering.whole = [head, parts = asked->parts](const auto& choices, const AnswerUsage& usage) {
      return completion_answer_json(head, parts, choices, usage);
    };
    generate(with, model, std::move(request));
  });
}

void chat(const RouteCall& call) {
  const auto share = hold_for_reading(call.work, call.request().body.text(), bytes_per_json_member);
  const auto asked = std::make_shared<OpenAiChat>(read_chat(call.request().body.text(), call.work));
  RouteCall named = call;
  if (!asked->model.empty()) named.name = asked->model;
  with_able(named, TextAbility::generate, [asked](const RouteCall& with, const std::shared_ptr<ServedModel>& model) {
    GenerationRequest request{.asked = std::move(asked->chat),
                              .answers = asked->answers,
                              .members = {.prompt = "messages",
                                          .form = std::move(asked->form_member),
                                          .reasoning = std::move(asked->reasoning_member)}};
    const AnswerHead head = head_of("chatcmpl", *model);
    if (asked->stream.is_streamed) {
      request.rendering.events = [head, has_usage = asked->stream.has_usage](std::size_t /*prompt_tokens*/) {
        return chat_answer_events(head, has_usage);
      };
    }
    request.rendering.whole = [head](const auto& choices, const AnswerUsage& usage) {
      return chat_answer_json(head, choices, usage);
    };
    generate(with, model, std::move(request));
  });
}

constexpr RouteContract embeddings_contract{.ability = TextAbility::embed_any,
                                            .answering = Answering::in_turn,
                                            .fields = embedding_fields,
                                            .describe = describe_embeddings,
                                            .is_cacheable = true};
constexpr RouteContract complete_contract{.ability = TextAbility::generate,
                                          .answering = Answering::in_turn,
                                          .fields = completion_fields,
                                          .describe = describe_generation};
constexpr RouteContract chat_contract{.ability = TextAbility::chat,
                                      .answering = Answering::in_turn,
                                      .fields = chat_fields,
                                      .describe = describe_generation};

constexpr std::array<Route, 6> table{{
    {"POST", "/v1/embeddings", "Vectors of texts and images, as OpenAI's clients ask for them", RouteKey::any,
     Protocol::openai, embeddings, embeddings_contract},
    {"POST", "/embeddings", "The same, as text-embeddings-inference has it", RouteKey::any, Protocol::openai,
     embeddings, embeddings_contract},
    {"POST", "/v1/completions", "Texts that continue prompts, as OpenAI's clients ask for them", RouteKey::any,
     Protocol::openai, complete, complete_contract},
    {"POST", "/v1/chat/completions", "Answers to conversations, as OpenAI's clients ask for them", RouteKey::any,
     Protocol::openai, chat, chat_contract},
    {"GET", "/v1/models", "The models served, as OpenAI's clients ask for them", RouteKey::any, Protocol::openai,
     list_models},
    {"GET", "/v1/models/{name}", "A model, as OpenAI's clients ask for it", RouteKey::any, Protocol::openai,
     show_model},
}};

}  // namespace

std::span<const Route> routes() noexcept {
  return table;
}

}  // namespace gpux::server::openai

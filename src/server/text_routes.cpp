#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/spelling.h"
#include "server/embed_job.h"
#include "server/service_call.h"
#include "server/text_requests.h"
#include "tensor/json_writer.h"

/// The routes of models that make vectors of texts.
namespace gpux::server {
namespace {

using Clock = std::chrono::steady_clock;
using embedding::SentenceEncoder;

std::string prompt_named(const ServedModel& model, const std::string& name) {
  std::vector<std::string> names;
  static const std::vector<std::pair<std::string, std::string>> none;
  for (const auto& [known, text] : model.encoder() ? model.encoder()->model().prompts : none) {
    if (known == name) return text;
    names.push_back(known);
  }
  throw Error(ErrorCode::invalid_input,
              fmt::format("prompt_name is '{}'; {}", name.substr(0, 60),
                          names.empty() ? "the model has no prompts" : "accepted: " + join(names)));
}

void apply(const TextTreatment& treatment, const ServedModel& model, EmbedJobOptions& options) {
  options.truncate = treatment.truncate;
  if (treatment.truncate_left) options.embed.truncate_left = true;
  if (!treatment.prompt_name.empty()) options.embed.prompt = prompt_named(model, treatment.prompt_name);
}

std::vector<std::string> texts_of(const std::vector<TextInput>& inputs, const SentenceEncoder& encoder) {
  std::vector<std::string> texts;
  texts.reserve(inputs.size());
  for (const TextInput& input : inputs) {
    try {
      texts.push_back(text_of(input, encoder.tokenizer()));
    } catch (const Error& error) {
      throw inputs.size() == 1 ? error : error.within(fmt::format("text {}", texts.size()));
    }
  }
  return texts;
}

/// What the answer to a request is made of.
using Body = std::function<std::string(const EmbedJobResult& result)>;

void embed_texts(const std::shared_ptr<http::Exchange>& exchange, Protocol protocol,
                 const std::shared_ptr<ServedModel>& model, std::vector<std::string> texts, EmbedJobOptions options,
                 Body body) {
  const http::Request& request = exchange->request();
  options.deadline = deadline_of(request);
  options.arrived = request.arrived;
  try {
    model->encoder()->check(options.embed);
  } catch (const Error& error) {
    model->statistics().count(error, request.arrived);
    throw;
  }
  const std::size_t bytes = std::accumulate(texts.begin(), texts.end(), std::size_t{0},
                                            [](std::size_t sum, const std::string& t) { return sum + t.size(); });
  const auto job = make_embed_job(model, std::move(texts), std::move(options),
                                  [exchange, protocol, bytes, body = std::move(body), arrived = request.arrived](
                                      const std::optional<Error>& error, const EmbedJobResult& result) {
                                    if (error) {
                                      exchange->respond(error_response(*error, protocol));
                                      return;
                                    }
                                    http::Response response = http::Response::json(200, body(result));
                                    add_times(response, result.slowest, arrived);
                                    const auto tokenizing =
                                        std::chrono::duration<double, std::milli>(result.tokenizing).count();
                                    response.headers.add("X-Tokenization-Time", fmt::format("{:.3f}", tokenizing));
                                    response.headers.add("X-Compute-Tokens", std::to_string(result.tokens));
                                    response.headers.add("X-Compute-Bytes", std::to_string(bytes));
                                    exchange->respond(std::move(response));
                                  });
  job->start();
  exchange->on_gone([job] { job->cancel(); });
}

std::string vectors_json(const EmbedJobResult& result) {
  std::string text = "[";
  for (std::size_t i = 0; i < result.vectors.size(); ++i) {
    if (i != 0) text += ',';
    append_vector(text, result.vectors[i], false);
  }
  return text + "]";
}

// A list for each text of the vectors of its tokens.
std::string token_vectors_json(const EmbedJobResult& result) {
  std::string text = "[";
  for (const Tensor& tokens : result.token_vectors) {
    if (&tokens != &result.token_vectors.front()) text += ',';
    append_json(text, tokens);
  }
  return text + "]";
}

// Of vectors of length 1.
std::string similarities_json(const EmbedJobResult& result) {
  const std::vector<float>& source = result.vectors.front();
  std::vector<float> scores;
  for (std::size_t i = 1; i < result.vectors.size(); ++i) {
    scores.push_back(std::inner_product(source.begin(), source.end(), result.vectors[i].begin(), 0.0F));
  }
  std::string text;
  append_vector(text, scores, false);
  return text;
}

std::string openai_json(const EmbedJobResult& result, const std::string& model, bool base64) {
  std::string text = R"({"object":"list","data":[)";
  for (std::size_t i = 0; i < result.vectors.size(); ++i) {
    text += fmt::format(R"({}{{"object":"embedding","index":{},"embedding":)", i == 0 ? "" : ",", i);
    append_vector(text, result.vectors[i], base64);
    text += '}';
  }
  text += R"(],"model":)";
  append_json_string(text, model);
  text += fmt::format(R"(,"usage":{{"prompt_tokens":{0},"total_tokens":{0}}}}})", result.tokens);
  return text;
}

void append_openai_model(std::string& out, const std::string& name, std::chrono::system_clock::time_point since) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since.time_since_epoch()).count();
  out += R"({"id":)";
  append_json_string(out, name);
  out += fmt::format(R"(,"object":"model","created":{},"owned_by":"gpux"}})", seconds);
}

}  // namespace

void Service::with_able(const Call& call, TextAbility ability, ModelHandler handler) {
  Call named = call;
  std::vector<std::string> able;
  for (const auto& model : repository_.descriptions()) {
    if (model->is_able(ability) && (able.empty() || able.back() != model->name)) able.push_back(model->name);
  }
  if (!named.name && options_.default_model.empty() && able.size() == 1) named.name = able.front();
  with_model(named, [handler = std::move(handler), ability, able](const Call& with,
                                                                  const std::shared_ptr<ServedModel>& model) {
    if (!is_able(*model, ability)) {
      throw Error(ErrorCode::usage, fmt::format("'{}' {}; {}", model->name(), lack_of(ability),
                                                able.empty() ? "no model that is served does" : join(able) + " does"));
    }
    handler(with, model);
  });
}

void Service::openai_embeddings(const Call& call) {
  const auto asked = std::make_shared<OpenAiEmbeddings>(read_openai_embeddings(call.request().body.text()));
  Call named = call;
  if (!asked->model.empty()) named.name = asked->model;
  with_able(named, TextAbility::embed, [asked](const Call& with, const std::shared_ptr<ServedModel>& model) {
    EmbedJobOptions options;
    options.embed.dimensions = asked->dimensions;
    options.embed.normalize = true;
    embed_texts(with.exchange, with.protocol, model, texts_of(asked->inputs, *model->encoder()), std::move(options),
                [name = model->name(), base64 = asked->base64](const EmbedJobResult& result) {
                  return openai_json(result, name, base64);
                });
  });
}

void Service::openai_models(const Call& call) {
  const std::vector<std::string> names = repository_.names();
  std::string text = R"({"object":"list","data":[)";
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i != 0) text += ',';
    append_openai_model(text, names[i], born_);
  }
  call.exchange->respond(http::Response::json(200, text + "]}"));
}

void Service::openai_model(const Call& call) {
  std::string text;
  append_openai_model(text, repository_.description(call.name.value_or(""), "")->name, born_);
  call.exchange->respond(http::Response::json(200, std::move(text)));
}

void Service::embed(const Call& call) {
  const auto asked = std::make_shared<EmbedTexts>(read_embed(call.request().body.text()));
  with_able(call, TextAbility::embed, [asked](const Call& with, const std::shared_ptr<ServedModel>& model) {
    EmbedJobOptions options;
    options.embed.dimensions = asked->dimensions;
    options.embed.normalize = asked->normalize;
    apply(asked->treatment, *model, options);
    embed_texts(with.exchange, with.protocol, model, texts_of(asked->inputs, *model->encoder()), std::move(options),
                vectors_json);
  });
}

void Service::embed_all(const Call& call) {
  const auto asked = std::make_shared<EmbedTexts>(read_embed_all(call.request().body.text()));
  with_able(call, TextAbility::embed_tokens, [asked](const Call& with, const std::shared_ptr<ServedModel>& model) {
    EmbedJobOptions options;
    options.of_tokens = true;
    apply(asked->treatment, *model, options);
    embed_texts(with.exchange, with.protocol, model, texts_of(asked->inputs, *model->encoder()), std::move(options),
                token_vectors_json);
  });
}

void Service::similarity(const Call& call) {
  const auto asked = std::make_shared<Similarity>(read_similarity(call.request().body.text()));
  with_able(call, TextAbility::embed, [asked](const Call& with, const std::shared_ptr<ServedModel>& model) {
    EmbedJobOptions options;
    options.embed.normalize = true;
    apply(asked->treatment, *model, options);
    std::vector<std::string> texts{asked->source};
    texts.insert(texts.end(), asked->sentences.begin(), asked->sentences.end());
    embed_texts(with.exchange, with.protocol, model, std::move(texts), std::move(options), similarities_json);
  });
}

void Service::tokenize(const Call& call) {
  const auto asked = std::make_shared<Tokenize>(read_tokenize(call.request().body.text()));
  with_able(call, TextAbility::tokenize, [asked](const Call& with, const std::shared_ptr<ServedModel>& model) {
    const text::Tokenizer& tokenizer = *tokenizer_of(*model);
    const std::string prompt = asked->prompt_name.empty() ? "" : prompt_named(*model, asked->prompt_name);
    std::string text = "[";
    for (const std::string& given : asked->texts) {
      if (text.size() > 1) text += ',';
      const std::string whole = prompt + given;
      append_tokens(text, whole,
                    tokenizer.encode(whole, {.special_tokens = asked->special_tokens, .offsets = text::Offsets::bytes}),
                    tokenizer);
    }
    with.exchange->respond(http::Response::json(200, text + "]"));
  });
}

void Service::decode(const Call& call) {
  const auto asked = std::make_shared<Decode>(read_decode(call.request().body.text()));
  with_able(call, TextAbility::tokenize, [asked](const Call& with, const std::shared_ptr<ServedModel>& model) {
    std::string text = "[";
    for (const TokenIds& ids : asked->ids) {
      if (text.size() > 1) text += ',';
      append_json_string(text, tokenizer_of(*model)->decode(ids, asked->skip_special_tokens));
    }
    with.exchange->respond(http::Response::json(200, text + "]"));
  });
}

}  // namespace gpux::server

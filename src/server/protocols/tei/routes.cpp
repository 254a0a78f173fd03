#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/spelling.h"
#include "base/utf8_prefix.h"
#include "embedding/max_sim.h"
#include "server/embed_job.h"
#include "server/protocols/openai/embedding_requests.h"
#include "server/protocols/plain_text.h"
#include "server/protocols/tei/requests.h"
#include "server/service_call.h"
#include "tensor/json_writer.h"

/// The routes of models that make vectors of texts.
namespace gpux::server {
namespace {

void choose_prompt(const ServedModel& model, const std::string& name, embedding::EmbedOptions& options) {
  std::vector<std::string> names;
  if (model.encoder()) {
    if (embedding::choose_prompt(model.encoder()->model(), name, options)) return;
    names = embedding::prompt_names(model.encoder()->model());
  }
  throw Error(ErrorCode::invalid_input,
              fmt::format("prompt_name is '{}'; {}", utf8_prefix(name, 60),
                          names.empty() ? "the model has no prompts" : "accepted: " + join(names)));
}

std::string prompt_named(const ServedModel& model, const std::string& name) {
  embedding::EmbedOptions options;
  choose_prompt(model, name, options);
  return options.prompt.value_or("");
}

void apply(const TextTreatment& treatment, const ServedModel& model, EmbedJobOptions& options) {
  options.embed.truncate = treatment.truncate;
  if (treatment.truncate_left) options.embed.truncate_left = true;
  if (!treatment.prompt_name.empty()) choose_prompt(model, treatment.prompt_name, options.embed);
}

http::Response vectors_json(const EmbedJobResult& result) {
  std::string text = "[";
  for (std::size_t i = 0; i < result.vectors.size(); ++i) {
    if (i != 0) text += ',';
    append_vector(text, result.vectors[i], false);
  }
  text += ']';
  return http::Response::json(200, std::move(text));
}

// A list of what there is of each text. Not put together: the parts are long.
http::Response parts_json(EmbedJobResult& result) {
  http::Response response = http::Response::json(200, "[");
  for (std::string& part : result.json) {
    if (&part != &result.json.front()) response.pieces.push_back(http::Piece::lasting(","));
    response.pieces.push_back(http::Piece::of(std::move(part)));
  }
  response.pieces.push_back(http::Piece::lasting("]"));
  return response;
}

// Of vectors of length 1.
http::Response similarities_json(const EmbedJobResult& result) {
  const std::vector<float>& source = result.vectors.front();
  std::vector<float> scores;
  for (std::size_t i = 1; i < result.vectors.size(); ++i) {
    // Rounding can exceed a cosine's range.
    const float product = std::inner_product(source.begin(), source.end(), result.vectors[i].begin(), 0.0F);
    scores.push_back(std::clamp(product, -1.0F, 1.0F));
  }
  std::string text;
  append_vector(text, scores, false);
  return http::Response::json(200, std::move(text));
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

}  // namespace

void embed_texts(const std::shared_ptr<http::Exchange>& exchange, Protocol protocol, const RequestWork& work,
                 const std::shared_ptr<ServedModel>& model, std::vector<TextInput> texts, EmbedJobOptions options,
                 VectorsAnswer body) {
  const http::Request& request = exchange->request();
  options.request = work;
  options.arrived = request.arrived;
  std::shared_ptr<RunJob> job;
  try {
    model->encoder()->check(options.embed);
    job = make_embed_job(model, std::move(texts), std::move(options),
                         [exchange, protocol, body = std::move(body), cancellation = work.cancellation(),
                          compute_type = compute_type_of(model->runtime().verdict()),
                          arrived = request.arrived](const std::optional<Error>& error, EmbedJobResult& result) {
                           try {
                             if (error) throw Error(*error);
                             cancellation.check();
                             http::Response response = body(result);
                             add_text_headers(response, result.figures, compute_type, arrived);
                             result.memory->release();
                             exchange->respond(std::move(response));
                           } catch (...) {
                             exchange->respond(error_response(current_error(), protocol));
                           }
                         });
  } catch (const Error& error) {
    model->statistics().count(error, request.arrived);
    throw;
  }
  cancel_when_gone(*exchange, work, [job] { job->cancel(); });
  job->start();
}

http::Response openai_vectors_json(const std::vector<std::vector<float>>& vectors, std::size_t tokens,
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
  const auto share = hold_for_reading(call.work, call.request().body.text(), bytes_a_json_text);
  const auto asked =
      std::make_shared<OpenAiEmbeddings>(read_openai_embeddings(call.request().body.text(), call.work.cancellation()));
  Call named = call;
  if (!asked->model.empty()) named.name = asked->model;
  const auto is_text = [](const auto& input) { return std::holds_alternative<TextInput>(input); };
  const bool has_images = !std::ranges::all_of(asked->inputs, is_text);
  const bool has_texts = std::ranges::any_of(asked->inputs, is_text);
  const TextAbility ability = has_images ? TextAbility::embed_images : TextAbility::embed;
  with_able(
      named, ability, [asked, has_images, has_texts](const Call& with, const std::shared_ptr<ServedModel>& model) {
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
                      return openai_vectors_json(result.vectors, result.figures.tokens, name, base64);
                    });
      });
}

void Service::openai_models(const Call& call) {
  const std::vector<std::string> names = repository_.names();
  std::map<std::string, std::size_t> context_lengths;
  for (const auto& model : repository_.descriptions()) context_lengths[model->name] = model->context_length;
  std::string text = R"({"object":"list","data":[)";
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i != 0) text += ',';
    append_openai_model(text, names[i], context_lengths[names[i]], born_);
  }
  call.exchange->respond(http::Response::json(200, text + "]}"));
}

void Service::openai_model(const Call& call) {
  std::string text;
  const auto model = repository_.description(call.name.value_or(""), "");
  append_openai_model(text, model->name, model->context_length, born_);
  call.exchange->respond(http::Response::json(200, std::move(text)));
}

namespace {

// As `read` reads JSON, or of a text as it is.
template <typename Texts, typename Read>
std::shared_ptr<Texts> read_texts(const http::Request& request, const RequestWork& work, const Read& read) {
  if (is_plain_text(request)) return std::make_shared<Texts>(Texts{.inputs = {std::string(read_plain_text(request))}});
  return std::make_shared<Texts>(read(request.body.text(), work.cancellation()));
}

}  // namespace

void Service::embed(const Call& call) {
  const auto share = hold_for_reading(call.work, call.request().body.text(), bytes_a_json_text);
  const auto asked = read_texts<EmbedTexts>(call.request(), call.work, read_embed);
  with_able(call, TextAbility::embed, [asked](const Call& with, const std::shared_ptr<ServedModel>& model) {
    EmbedJobOptions options;
    options.embed.dimensions = asked->dimensions;
    options.embed.normalize = asked->normalize;
    apply(asked->treatment, *model, options);
    embed_texts(with.exchange, with.protocol, with.work, model, std::move(asked->inputs), std::move(options),
                vectors_json);
  });
}

void Service::embed_all(const Call& call) {
  const auto share = hold_for_reading(call.work, call.request().body.text(), bytes_a_json_text);
  const auto asked = read_texts<EmbedTexts>(call.request(), call.work, read_embed_all);
  with_able(call, TextAbility::embed_tokens, [asked](const Call& with, const std::shared_ptr<ServedModel>& model) {
    EmbedJobOptions options;
    options.answer = EmbedJobOptions::Answer::token_vectors;
    apply(asked->treatment, *model, options);
    embed_texts(with.exchange, with.protocol, with.work, model, std::move(asked->inputs), std::move(options),
                parts_json);
  });
}

void Service::embed_sparse(const Call& call) {
  const auto share = hold_for_reading(call.work, call.request().body.text(), bytes_a_json_text);
  const auto asked = read_texts<EmbedTexts>(call.request(), call.work, read_embed_sparse);
  with_able(call, TextAbility::embed_sparse, [asked](const Call& with, const std::shared_ptr<ServedModel>& model) {
    EmbedJobOptions options;
    options.answer = EmbedJobOptions::Answer::sparse_vectors;
    options.embed.representation = embedding::Representation::sparse;
    options.token_names = asked->return_tokens;
    apply(asked->treatment, *model, options);
    embed_texts(with.exchange, with.protocol, with.work, model, std::move(asked->inputs), std::move(options),
                parts_json);
  });
}

void rank_by_tokens(const std::shared_ptr<http::Exchange>& exchange, const RequestWork& work,
                    const std::shared_ptr<ServedModel>& model, const importer::LateInteraction& late, Rerank asked) {
  EmbedJobOptions options;
  options.answer = EmbedJobOptions::Answer::representations;
  options.embed.representation = embedding::Representation::multi_vector;
  options.queries = 1;
  apply(asked.treatment, *model, options);
  std::vector<TextInput> texts;
  texts.emplace_back(std::move(asked.query));
  for (const std::string& text : asked.texts) texts.emplace_back(text);
  const bool is_mean = !asked.raw_scores || late.is_mean;
  embed_texts(
      exchange, Protocol::texts, work, model, std::move(texts), std::move(options),
      [is_mean, texts = std::move(asked.texts), return_text = asked.return_text](const EmbedJobResult& result) {
        std::vector<float> scores;
        for (std::size_t i = 1; i < result.representations.size(); ++i) {
          scores.push_back(embedding::max_sim(result.representations.front(), result.representations[i], is_mean));
        }
        return http::Response::json(200, ranking_json(scores, texts, return_text));
      });
}

void Service::similarity(const Call& call) {
  const auto share = hold_for_reading(call.work, call.request().body.text(), bytes_a_json_text);
  const auto asked =
      std::make_shared<Similarity>(read_similarity(call.request().body.text(), call.work.cancellation()));
  with_able(call, TextAbility::embed, [asked](const Call& with, const std::shared_ptr<ServedModel>& model) {
    EmbedJobOptions options;
    options.embed.normalize = true;
    apply(asked->treatment, *model, options);
    std::vector<TextInput> texts;
    texts.emplace_back(std::move(asked->source));
    for (std::string& sentence : asked->sentences) texts.emplace_back(std::move(sentence));
    embed_texts(with.exchange, with.protocol, with.work, model, std::move(texts), std::move(options),
                similarities_json);
  });
}

namespace {

// The longest text decides when others take their turn.
std::uint64_t cost_to_tokenize(const std::vector<std::string>& texts) {
  std::size_t longest = 0;
  std::size_t all = 0;
  for (const std::string& text : texts) {
    longest = std::max(longest, std::min(text.size(), max_text_bytes));
    all += text.size();
  }
  // Many short ones are long together.
  constexpr std::size_t short_bytes = 64 << 10;
  return std::max(longest, std::min(all, short_bytes)) * bytes_to_tokenize_a_byte;
}

/// A list that is written an element at a time, and what has to be held for it.
class ListAnswer {
 public:
  explicit ListAnswer(std::shared_ptr<MemoryBudget> memory) : memory_(std::move(memory)), share_(memory_) {}

  /// Adds what `append` writes. Error as of grow_share().
  void add(const std::function<void(std::string&)>& append) {
    if (text_.size() > 1) text_ += ',';
    append(text_);
    if (text_.capacity() > share_.bytes()) {
      grow_share(share_, memory_, text_.capacity() - share_.bytes(), "the answer");
    }
  }

  /// About what is to come, before it is written.
  void expect(std::uint64_t bytes) {
    const std::uint64_t needed = text_.size() + bytes;
    if (needed > share_.bytes()) grow_share(share_, memory_, needed - share_.bytes(), "the answer");
  }

  [[nodiscard]] std::string end() { return std::move(text_ += ']'); }

 private:
  std::shared_ptr<MemoryBudget> memory_;
  MemoryShare share_;
  std::string text_ = "[";
};

}  // namespace

void Service::tokenize(const Call& call) {
  const auto share = hold_for_reading(call.work, call.request().body.text(), bytes_a_json_text);
  const auto asked = read_texts<Tokenize>(call.request(), call.work, read_tokenize);
  with_able(call, TextAbility::tokenize, [this, asked](const Call& with, const std::shared_ptr<ServedModel>& model) {
    const std::string prompt = asked->prompt_name.empty() ? "" : prompt_named(*model, asked->prompt_name);
    const auto answer = std::make_shared<ListAnswer>(with.work.memory);
    do_units(with, cost_to_tokenize(asked->inputs),
             [with, model, asked, answer, prompt, memory = with.work.memory, index = std::size_t{0}]() mutable {
               // Short texts are a unit together.
               constexpr std::size_t unit_bytes = 64 << 10;
               const text::Tokenizer& tokenizer = *tokenizer_of(*model);
               for (std::size_t bytes = 0; index < asked->inputs.size() && bytes < unit_bytes; ++index) {
                 const std::string whole = prompt + std::exchange(asked->inputs[index], {});
                 bytes += whole.size() + 1;
                 MemoryShare scratch(memory);
                 const std::size_t tokenized = std::min(whole.size(), max_text_bytes);
                 if (tokenized > 4096) {
                   grow_share(scratch, memory, tokenized * bytes_to_tokenize_a_byte, "tokenizing the text");
                 }
                 try {
                   const text::Encoding encoding = tokenizer.encode(whole, {.special_tokens = asked->special_tokens,
                                                                            .offsets = text::Offsets::bytes,
                                                                            .max_bytes = max_text_bytes});
                   constexpr std::uint64_t bytes_a_token = 75;
                   answer->expect(whole.size() + encoding.size() * bytes_a_token);
                   answer->add([&](std::string& text) { append_tokens(text, whole, encoding, tokenizer); });
                 } catch (const Error& error) {
                   throw asked->inputs.size() == 1 ? error : error.within(fmt::format("text {}", index));
                 }
               }
               if (index < asked->inputs.size()) return true;
               with.exchange->respond(http::Response::json(200, answer->end()));
               return false;
             });
  });
}

void Service::decode(const Call& call) {
  const auto share = hold_for_reading(call.work, call.request().body.text(), bytes_a_json_text);
  const auto asked = std::make_shared<Decode>(read_decode(call.request().body.text(), call.work.cancellation()));
  with_able(call, TextAbility::tokenize, [this, asked](const Call& with, const std::shared_ptr<ServedModel>& model) {
    constexpr std::uint64_t bytes_to_decode_a_token = 100;
    std::size_t all = 0;
    for (const TokenIds& ids : asked->ids) all += ids.size();
    const auto answer = std::make_shared<ListAnswer>(with.work.memory);
    do_units(with, all * bytes_to_decode_a_token,
             [with, model, asked, answer, memory = with.work.memory, index = std::size_t{0}]() mutable {
               constexpr std::size_t unit_tokens = 16 << 10;
               for (std::size_t tokens = 0; index < asked->ids.size() && tokens < unit_tokens; ++index) {
                 const TokenIds ids = std::exchange(asked->ids[index], {});
                 tokens += ids.size() + 1;
                 MemoryShare scratch(memory);
                 grow_share(scratch, memory, ids.size() * bytes_to_decode_a_token, "decoding the tokens");
                 answer->add([&](std::string& text) {
                   append_json_string(text, tokenizer_of(*model)->decode(ids, asked->skip_special_tokens));
                 });
               }
               if (index < asked->ids.size()) return true;
               with.exchange->respond(http::Response::json(200, answer->end()));
               return false;
             });
  });
}

}  // namespace gpux::server

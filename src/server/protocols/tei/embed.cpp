#include <algorithm>
#include <numeric>
#include <utility>

#include "server/protocols/embed_texts.h"
#include "server/protocols/model_choice.h"
#include "server/protocols/tei/handlers.h"
#include "server/protocols/tei/requests.h"
#include "server/protocols/tei/text_body.h"
#include "server/protocols/tei/treatment.h"

namespace gpux::server::tei {
namespace {

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

}  // namespace

void embed(const RouteCall& call) {
  const auto share = hold_for_reading(call.work, call.request().body.text(), bytes_per_json_string);
  const auto asked = read_texts<EmbedTexts>(call.request(), call.work, read_embed);
  with_able(call, TextAbility::embed, [asked](const RouteCall& with, const std::shared_ptr<ServedModel>& model) {
    EmbedJobOptions options;
    options.embed.dimensions = asked->dimensions;
    options.embed.normalize = asked->normalize;
    apply(asked->treatment, *model, options);
    embed_texts(with.exchange, with.protocol, with.work, model, std::move(asked->inputs), std::move(options),
                vectors_json);
  });
}

void embed_all(const RouteCall& call) {
  const auto share = hold_for_reading(call.work, call.request().body.text(), bytes_per_json_string);
  const auto asked = read_texts<EmbedTexts>(call.request(), call.work, read_embed_all);
  with_able(call, TextAbility::embed_tokens, [asked](const RouteCall& with, const std::shared_ptr<ServedModel>& model) {
    EmbedJobOptions options;
    options.answer = EmbedJobOptions::Answer::token_vectors;
    apply(asked->treatment, *model, options);
    embed_texts(with.exchange, with.protocol, with.work, model, std::move(asked->inputs), std::move(options),
                parts_json);
  });
}

void embed_sparse(const RouteCall& call) {
  const auto share = hold_for_reading(call.work, call.request().body.text(), bytes_per_json_string);
  const auto asked = read_texts<EmbedTexts>(call.request(), call.work, read_embed_sparse);
  with_able(call, TextAbility::embed_sparse, [asked](const RouteCall& with, const std::shared_ptr<ServedModel>& model) {
    EmbedJobOptions options;
    options.answer = EmbedJobOptions::Answer::sparse_vectors;
    options.embed.representation = embedding::Representation::sparse;
    options.token_names = asked->return_tokens;
    apply(asked->treatment, *model, options);
    embed_texts(with.exchange, with.protocol, with.work, model, std::move(asked->inputs), std::move(options),
                parts_json);
  });
}

void similarity(const RouteCall& call) {
  const auto share = hold_for_reading(call.work, call.request().body.text(), bytes_per_json_string);
  const auto asked = std::make_shared<Similarity>(read_similarity(call.request().body.text(), call.work));
  with_able(call, TextAbility::embed, [asked](const RouteCall& with, const std::shared_ptr<ServedModel>& model) {
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

}  // namespace gpux::server::tei

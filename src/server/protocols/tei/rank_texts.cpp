#include "server/protocols/tei/rank_texts.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "embedding/max_sim.h"
#include "server/protocols/embed_texts.h"
#include "server/protocols/tei/run_texts.h"
#include "server/protocols/tei/treatment.h"
#include "tensor/convert.h"

namespace gpux::server::tei {
namespace {

void rank_by_tokens(const RouteCall& with, const std::shared_ptr<ServedModel>& model,
                    const checkpoint::LateInteraction& late, const Rerank& asked, BodyOfScores body) {
  EmbedJobOptions options;
  options.answer = EmbedJobOptions::Answer::representations;
  options.embed.representation = embedding::Representation::multi_vector;
  options.queries = 1;
  apply(asked.treatment, *model, options);
  std::vector<TextInput> texts;
  texts.emplace_back(asked.query);
  for (const std::string& text : asked.texts) texts.emplace_back(text);
  const bool is_mean = !asked.raw_scores || late.is_mean;
  embed_texts(
      with.exchange, with.protocol, with.work, model, std::move(texts), std::move(options),
      [is_mean, body = std::move(body)](const EmbedJobResult& result) {
        std::vector<float> scores;
        for (std::size_t i = 1; i < result.representations.size(); ++i) {
          scores.push_back(embedding::max_sim(result.representations.front(), result.representations[i], is_mean));
        }
        return http::Response::json(200, body(scores));
      });
}

}  // namespace

std::vector<std::size_t> highest_first(const std::vector<float>& scores) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (std::isnan(scores[a]) || std::isnan(scores[b])) return !std::isnan(scores[a]) && std::isnan(scores[b]);
    return scores[a] > scores[b];
  });
  return order;
}

void rank_texts(const RouteCall& with, const std::shared_ptr<ServedModel>& model,
                const std::shared_ptr<const Rerank>& asked, BodyOfScores body) {
  if (const checkpoint::LateInteraction* late = late_interaction_of(*model)) {
    rank_by_tokens(with, model, *late, *asked, std::move(body));
    return;
  }
  run_texts(with.exchange, with.work, model,
            {{"query", strings_of({asked->query})}, {"text", strings_of(asked->texts)}}, {model->pipeline()->logits()},
            prepared_as(asked->treatment),
            [raw_scores = asked->raw_scores, body = std::move(body)](const NamedValues& outputs) {
              const Tensor logits = convert(*outputs.front().second.tensor(), ElementType::float32);
              const std::span<const float> floats = logits.as<float>();
              std::vector<float> scores(floats.begin(), floats.end());
              // As text-embeddings-inference has it, whatever the model's own activation is.
              for (float& score : scores) score = raw_scores ? score : 1 / (1 + std::exp(-score));
              return body(scores);
            });
}

}  // namespace gpux::server::tei

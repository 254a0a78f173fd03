#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "embedding/max_sim.h"
#include "server/protocols/embed_texts.h"
#include "server/protocols/model_choice.h"
#include "server/protocols/tei/handlers.h"
#include "server/protocols/tei/requests.h"
#include "server/protocols/tei/run_texts.h"
#include "server/protocols/tei/treatment.h"
#include "tensor/convert.h"
#include "tensor/json_writer.h"

namespace gpux::server::tei {
namespace {

// Texts by their scores, the highest first.
std::string ranking_json(const std::vector<float>& scores, const std::vector<std::string>& texts, bool return_text) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // NaN is no score to sort by: it goes last.
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (std::isnan(scores[a]) || std::isnan(scores[b])) return !std::isnan(scores[a]) && std::isnan(scores[b]);
    return scores[a] > scores[b];
  });
  std::string out = "[";
  for (const std::size_t index : order) {
    if (out.size() > 1) out += ',';
    out += fmt::format(R"({{"index":{},)", index);
    if (return_text) {
      out += R"("text":)";
      append_json_string(out, texts[index]);
      out += ',';
    }
    out += R"("score":)";
    append_json(out, Tensor::of<float>({}, std::span(&scores[index], 1)));
    out += '}';
  }
  return out + "]";
}

// A late-interaction model: texts by MaxSim; with raw_scores as it is, else by the number of the query's tokens.
void rank_by_tokens(const std::shared_ptr<http::Exchange>& exchange, const RequestWork& work,
                    const std::shared_ptr<ServedModel>& model, const checkpoint::LateInteraction& late, Rerank asked) {
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

}  // namespace

void rerank(const RouteCall& call) {
  const auto share = hold_for_reading(call.work, call.request().body.text(), bytes_per_json_string);
  const auto asked = std::make_shared<Rerank>(read_rerank(call.request().body.text(), call.work));
  with_able(call, TextAbility::rank, [asked](const RouteCall& with, const std::shared_ptr<ServedModel>& model) {
    if (const checkpoint::LateInteraction* late = late_interaction_of(*model)) {
      rank_by_tokens(with.exchange, with.work, model, *late, std::move(*asked));
      return;
    }
    run_texts(with.exchange, with.work, model,
              {{"query", strings_of({asked->query})}, {"text", strings_of(asked->texts)}},
              {model->pipeline()->logits()}, prepared_as(asked->treatment), [asked](const NamedValues& outputs) {
                const Tensor scores = convert(*outputs.front().second.tensor(), ElementType::float32);
                const std::span<const float> floats = scores.as<float>();
                std::vector<float> answer(floats.begin(), floats.end());
                // As text-embeddings-inference has it, whatever the model's own activation is.
                for (float& score : answer) score = asked->raw_scores ? score : 1 / (1 + std::exp(-score));
                return ranking_json(answer, asked->texts, asked->return_text);
              });
  });
}

}  // namespace gpux::server::tei

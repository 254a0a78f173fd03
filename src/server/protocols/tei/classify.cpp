#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "pipeline/zero_shot.h"
#include "runtime/labels.h"
#include "server/protocols/plain_text.h"
#include "server/protocols/tei/requests.h"
#include "server/service_call.h"
#include "server/text_job.h"
#include "tensor/convert.h"
#include "tensor/json_envelope.h"
#include "tensor/json_writer.h"

/// The routes of models that judge texts.
namespace gpux::server {
namespace {

/// What the answer to a request is made of.
using Body = std::function<std::string(const NamedValues& outputs)>;

pipeline::PrepareOptions prepared_as(const TextTreatment& treatment) {
  pipeline::PrepareOptions options;
  options.truncate = treatment.truncate;
  if (treatment.truncate_left) options.truncate_left = true;
  return options;
}

void run_texts(const std::shared_ptr<http::Exchange>& exchange, const RequestWork& work,
               const std::shared_ptr<ServedModel>& model, NamedValues inputs, std::vector<std::string> outputs,
               const pipeline::PrepareOptions& options, Body body) {
  const http::Request& request = exchange->request();
  const auto figures = std::make_shared<TextFigures>();
  const Pending pending = submit(
      model, {.inputs = std::move(inputs), .outputs = std::move(outputs), .priority = 0, .arrived = request.arrived},
      work,
      [exchange, body = std::move(body), figures, compute_type = compute_type_of(model->runtime().verdict()),
       arrived = request.arrived](runtime::InferAnswer&& answer) {
        try {
          if (answer.error) throw Error(*answer.error);
          http::Response response = http::Response::json(200, body(answer.outputs));
          add_text_headers(response, *figures, compute_type, arrived);
          exchange->respond(std::move(response));
        } catch (...) {
          exchange->respond(error_response(current_error(), Protocol::texts));
        }
      },
      runtime::Here::allowed, {.prepare = options, .figures = figures});
  if (pending) cancel_when_gone(*exchange, work, [pending] { pending.cancel(); });
}

Tensor strings_of(std::vector<std::string> texts) {
  const auto count = static_cast<std::int64_t>(texts.size());
  return Tensor::of_strings({count}, std::move(texts));
}

std::string scores_json(const std::vector<runtime::LabelledScore>& scores) {
  std::string text = "[";
  for (const runtime::LabelledScore& one : scores) {
    if (&one != &scores.front()) text += ',';
    text += R"({"score":)";
    append_json(text, Tensor::of<float>({}, std::vector<float>{static_cast<float>(one.score)}));
    text += R"(,"label":)";
    append_json_string(text, one.label);
    text += '}';
  }
  return text + "]";
}

void classify_by_labels(const std::shared_ptr<http::Exchange>& exchange, const RequestWork& work,
                        const std::shared_ptr<ServedModel>& model, const ClassifyTexts& asked,
                        const pipeline::ZeroShotOptions& options) {
  const pipeline::Pipeline& pipeline = *model->pipeline();
  const std::size_t entailment = pipeline::entailment_index(pipeline.settings().labels, model->name());
  run_texts(exchange, work, model, pipeline::zero_shot_pairs(asked.texts, options), {pipeline.logits()},
            prepared_as(asked.treatment),
            [entailment, options, is_list = asked.is_list, top_k = asked.top_k](const NamedValues& outputs) {
              auto rows = pipeline::zero_shot_scores(*outputs.front().second.tensor(), entailment, options);
              for (auto& row : rows) {
                if (top_k != 0 && top_k < row.size()) row.resize(top_k);
              }
              return rows_json(rows, is_list);
            });
}

void classify_texts(const std::shared_ptr<http::Exchange>& exchange, const RequestWork& work,
                    const std::shared_ptr<ServedModel>& model, ClassifyTexts asked) {
  const pipeline::Pipeline& pipeline = *model->pipeline();
  if (asked.zero_shot) {
    classify_by_labels(exchange, work, model, asked, *asked.zero_shot);
    return;
  }
  DeclaredValue declared;
  for (const DeclaredValue& output : model->declared_outputs()) {
    if (output.name == pipeline.logits()) declared = output;
  }
  if (asked.activation) declared.activation = *asked.activation;
  if (asked.raw_scores) declared.activation = Activation::none;
  declared.top_k = asked.top_k == 0 ? std::nullopt : std::optional(static_cast<std::int64_t>(asked.top_k));
  NamedValues inputs{{"text", strings_of(std::move(asked.texts))}};
  if (!asked.pairs.empty()) inputs.emplace_back("text_pair", strings_of(std::move(asked.pairs)));
  pipeline::PrepareOptions options = prepared_as(asked.treatment);
  options.has_second = std::move(asked.has_pair);
  run_texts(exchange, work, model, std::move(inputs), {pipeline.logits()}, options,
            [declared, is_list = asked.is_list](const NamedValues& outputs) {
              return rows_json(runtime::label_scores(declared, *outputs.front().second.tensor()), is_list);
            });
}

}  // namespace

std::string rows_json(const std::vector<std::vector<runtime::LabelledScore>>& rows, bool is_list) {
  if (!is_list) return scores_json(rows.front());
  std::string text = "[";
  for (const auto& row : rows) {
    if (&row != &rows.front()) text += ',';
    text += scores_json(row);
  }
  return text + "]";
}

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

bool is_for_classifier(const ServedModel& model, std::string_view body) {
  if (!is_able(model, TextAbility::classify) || !is_object(body)) return false;
  const auto& inputs = model.signature().inputs;
  if (std::any_of(inputs.begin(), inputs.end(), [](const auto& entry) { return entry.name == "inputs"; })) return false;
  try {
    const auto members = split_object(body);
    return std::any_of(members.begin(), members.end(), [](const JsonInput& member) { return member.name == "inputs"; });
  } catch (const Error&) {
    return false;  // whoever reads it next says what is wrong
  }
}

void classify(const std::shared_ptr<http::Exchange>& exchange, const RequestWork& work,
              const std::shared_ptr<ServedModel>& model) {
  try {
    ClassifyTexts asked;
    try {
      if (is_plain_text(exchange->request())) {
        asked.texts.emplace_back(read_plain_text(exchange->request()));
      } else {
        const std::string_view body = exchange->request().body.text();
        const auto share = hold_for_reading(work, body, bytes_a_json_text);
        asked = read_classify(body, work.cancellation());
      }
    } catch (const Error& error) {
      model->statistics().count(error, exchange->request().arrived);
      throw;
    }
    classify_texts(exchange, work, model, std::move(asked));
  } catch (const Error& error) {
    exchange->respond(error_response(error, Protocol::texts));
  }
}

void Service::rerank(const Call& call) {
  const auto share = hold_for_reading(call.work, call.request().body.text(), bytes_a_json_text);
  const auto asked = std::make_shared<Rerank>(read_rerank(call.request().body.text(), call.work.cancellation()));
  with_able(call, TextAbility::rank, [asked](const Call& with, const std::shared_ptr<ServedModel>& model) {
    if (const importer::LateInteraction* late = late_interaction_of(*model)) {
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

void Service::texts_by_ability(const Call& call) {
  if (!is_plain_text(call.request()) && is_similarity(call.request().body.text())) {
    similarity(call);
    return;
  }
  with_able(call, TextAbility::any, [this](const Call& with, const std::shared_ptr<ServedModel>& model) {
    Call named = with;
    named.name = model->name();
    if (is_able(*model, TextAbility::embed)) {
      embed(named);
    } else if (is_able(*model, TextAbility::embed_sparse)) {
      embed_sparse(named);
    } else if (is_able(*model, TextAbility::rank)) {
      rerank(named);
    } else {
      classify(with.exchange, with.work, model);
    }
  });
}

}  // namespace gpux::server

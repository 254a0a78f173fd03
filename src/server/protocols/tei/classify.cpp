#include "server/protocols/tei/classify.h"

#include <utility>

#include "pipeline/labels.h"
#include "pipeline/zero_shot.h"
#include "server/protocols/error_answers.h"
#include "server/protocols/plain_text.h"
#include "server/protocols/tei/inputs_member.h"
#include "server/protocols/tei/run_texts.h"
#include "tensor/json_writer.h"

namespace gpux::server::tei {
namespace {

std::string scores_json(const std::vector<LabelScore>& scores) {
  std::string text = "[";
  for (const LabelScore& one : scores) {
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
                        const ZeroShotOptions& options) {
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
              return rows_json(pipeline::label_scores(declared, *outputs.front().second.tensor()), is_list);
            });
}

}  // namespace

std::string rows_json(const std::vector<std::vector<LabelScore>>& rows, bool is_list) {
  if (!is_list) return scores_json(rows.front());
  std::string text = "[";
  for (const auto& row : rows) {
    if (&row != &rows.front()) text += ',';
    text += scores_json(row);
  }
  return text + "]";
}

bool is_for_classifier(const ServedModel& model, std::string_view body) {
  return is_able(model, TextAbility::classify) && has_inputs_member(model, body);
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
        const auto share = hold_for_reading(work, body, bytes_per_json_string);
        asked = read_classify(body, work);
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

}  // namespace gpux::server::tei

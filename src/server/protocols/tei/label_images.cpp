#include "server/protocols/tei/label_images.h"

#include <utility>

#include "pipeline/zero_shot_images.h"
#include "server/protocols/embed_texts_and_images.h"
#include "server/protocols/error_answers.h"
#include "server/protocols/tei/classify.h"
#include "server/protocols/tei/image_labels.h"

namespace gpux::server::tei {

bool is_for_image_labels(const ServedModel& model, std::string_view body) {
  return model.has_image_tower() && model.encoder() != nullptr && is_image_label_request(body);
}

void label_images(const std::shared_ptr<http::Exchange>& exchange, const RequestWork& work,
                  const std::shared_ptr<ServedModel>& model) {
  try {
    const std::string_view body = exchange->request().body.text();
    const auto share = hold_for_reading(work, body, bytes_per_json_string);
    ImageLabels asked = read_image_labels(body, work);
    const ProjectFile* project = model->project();
    if (project == nullptr || !project->zero_shot) {
      throw Error(ErrorCode::usage,
                  "the model's gpux.yml has no 'zero_shot' with its logit_scale: labels of images have no scores");
    }
    ZeroShotSettings settings = *project->zero_shot;
    if (!asked.label_template.empty()) settings.label_template = asked.label_template;
    pipeline::check_image_labels(asked.labels, settings.label_template);
    const auto all = std::make_shared<TextsAndImages>();
    all->exchange = exchange;
    all->protocol = Protocol::texts;
    all->work = work;
    all->model = model;
    for (std::string& text : pipeline::image_label_texts(asked.labels, settings.label_template)) {
      all->texts.emplace_back(std::move(text));
    }
    all->images = std::move(asked.images);
    all->answer = [settings, labels = std::move(asked.labels), is_list = asked.is_list,
                   top_k = asked.top_k](const TextsAndImages& made) {
      std::vector<std::vector<LabelScore>> rows;
      for (const std::vector<float>& image : made.image_vectors) {
        rows.push_back(pipeline::zero_shot_image_scores(image, made.text_vectors, labels, settings));
        if (top_k != 0 && top_k < rows.back().size()) rows.back().resize(top_k);
      }
      return http::Response::json(200, rows_json(rows, is_list));
    };
    embed_texts_and_images(all);
  } catch (const Error& error) {
    exchange->respond(error_response(error, Protocol::texts));
  }
}

}  // namespace gpux::server::tei

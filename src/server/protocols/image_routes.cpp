#include <algorithm>
#include <utility>
#include <variant>

#include "pipeline/zero_shot_images.h"
#include "server/embed_job.h"
#include "server/image_embed_job.h"
#include "server/protocols/openai/embedding_requests.h"
#include "server/protocols/tei/image_labels.h"
#include "server/service_call.h"

/// The routes of models that make vectors of images.
namespace gpux::server {
namespace {

/// Texts and images of one request, and their vectors. Texts come first, then images: each is a job.
struct TextsAndImages {
  std::shared_ptr<http::Exchange> exchange;
  Protocol protocol = Protocol::own;
  RequestWork work;
  std::shared_ptr<ServedModel> model;
  std::size_t dimensions = 0;  ///< 0: all
  std::vector<TextInput> texts;
  std::vector<std::string> images;
  std::vector<std::vector<float>> text_vectors, image_vectors;
  TextFigures figures;
  std::function<http::Response(TextsAndImages&)> answer;

  [[nodiscard]] std::chrono::steady_clock::time_point arrived() const { return exchange->request().arrived; }
};

using Shared = std::shared_ptr<TextsAndImages>;

void fail(const TextsAndImages& asked) {
  asked.exchange->respond(error_response(current_error(), asked.protocol));
}

void start(const TextsAndImages& asked, const std::shared_ptr<RunJob>& job) {
  cancel_when_gone(*asked.exchange, asked.work, [job] { job->cancel(); });
  job->start();
}

void start_images(const Shared& asked) {
  ImageEmbedJobOptions options{.embed = {.dimensions = asked->dimensions, .normalize = true},
                               .request = asked->work,
                               .arrived = asked->arrived()};
  asked->model->image_encoder()->check(options.embed);
  const auto done = [asked](const std::optional<Error>& error, ImageEmbedJobResult& result) {
    try {
      if (error) throw Error(*error);
      asked->work.cancellation().check();
      asked->image_vectors = std::move(result.vectors);
      asked->figures.queue += result.times.queue;
      asked->figures.inference += result.times.compute;
      http::Response response = asked->answer(*asked);
      add_text_headers(response, asked->figures, compute_type_of(asked->model->runtime().verdict()), asked->arrived());
      result.memory->release();
      asked->exchange->respond(std::move(response));
    } catch (...) {
      fail(*asked);
    }
  };
  start(*asked, make_image_embed_job(asked->model, std::move(asked->images), std::move(options), done));
}

void start_texts(const Shared& asked) {
  EmbedJobOptions options;
  options.embed.dimensions = asked->dimensions;
  options.embed.normalize = true;
  options.request = asked->work;
  options.arrived = asked->arrived();
  asked->model->encoder()->check(options.embed);
  const auto done = [asked](const std::optional<Error>& error, EmbedJobResult& result) {
    try {
      if (error) throw Error(*error);
      asked->text_vectors = std::move(result.vectors);
      asked->figures = result.figures;
      start_images(asked);
    } catch (...) {
      fail(*asked);
    }
  };
  start(*asked, make_embed_job(asked->model, std::move(asked->texts), std::move(options), done));
}

void start_all(const Shared& asked) {
  try {
    if (asked->texts.empty()) {
      start_images(asked);
    } else {
      start_texts(asked);
    }
  } catch (const Error& error) {
    asked->model->statistics().count(error, asked->arrived());
    throw;
  }
}

}  // namespace

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
    is_image.push_back(std::holds_alternative<ImageInput>(input));
    if (is_image.back()) {
      all->images.push_back(std::get<ImageInput>(std::move(input)).value);
    } else {
      all->texts.push_back(std::get<TextInput>(std::move(input)));
    }
  }
  all->answer = [is_image, name = model->name(), base64 = asked.base64](TextsAndImages& made) {
    std::vector<std::vector<float>> vectors;
    auto text = made.text_vectors.begin();
    auto image = made.image_vectors.begin();
    for (const bool from_image : is_image) vectors.push_back(std::move(from_image ? *image++ : *text++));
    return openai_vectors_json(vectors, made.figures.tokens, name, base64);
  };
  start_all(all);
}

bool is_for_image_labels(const ServedModel& model, std::string_view body) {
  return model.image_tower() != nullptr && model.encoder() != nullptr && asks_for_image_labels(body);
}

void label_images(const std::shared_ptr<http::Exchange>& exchange, const RequestWork& work,
                  const std::shared_ptr<ServedModel>& model) {
  try {
    const std::string_view body = exchange->request().body.text();
    const auto share = hold_for_reading(work, body, bytes_a_json_text);
    ImageLabels asked = read_image_labels(body, work.cancellation());
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
      std::vector<std::vector<runtime::LabelledScore>> rows;
      for (const std::vector<float>& image : made.image_vectors) {
        rows.push_back(pipeline::zero_shot_image_scores(image, made.text_vectors, labels, settings));
        if (top_k != 0 && top_k < rows.back().size()) rows.back().resize(top_k);
      }
      return http::Response::json(200, rows_json(rows, is_list));
    };
    start_all(all);
  } catch (const Error& error) {
    exchange->respond(error_response(error, Protocol::texts));
  }
}

}  // namespace gpux::server

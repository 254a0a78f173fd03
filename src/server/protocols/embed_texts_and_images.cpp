#include "server/protocols/embed_texts_and_images.h"

#include <utility>

#include "server/jobs/embed_job.h"
#include "server/jobs/image_embed_job.h"
#include "server/protocols/error_answers.h"

namespace gpux::server {
namespace {

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

}  // namespace

void embed_texts_and_images(const Shared& asked) {
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

}  // namespace gpux::server

#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/jobs/text_figures.h"
#include "server/protocols/call.h"
#include "server/protocols/text_inputs.h"

namespace gpux::server {

/// Texts and images of one request, and their vectors. Texts come first, then images: each is a job.
struct TextsAndImages {
  std::shared_ptr<http::Exchange> exchange;
  Protocol protocol = Protocol::own;
  RequestWork work;
  std::shared_ptr<ServedModel> model;
  std::size_t dimensions = 0;  ///< 0: all
  std::vector<TextInput> texts;
  std::vector<std::string> images;  ///< base64 or data URLs
  std::vector<std::vector<float>> text_vectors, image_vectors;
  TextFigures figures;
  std::function<http::Response(TextsAndImages&)> answer;

  [[nodiscard]] std::chrono::steady_clock::time_point arrived() const { return exchange->request().arrived; }
};

/// Answers with what `answer` makes of the vectors. The model is able to embed images, and texts where there are some.
/// Errors as of make_embed_job() and make_image_embed_job().
void embed_texts_and_images(const std::shared_ptr<TextsAndImages>& asked);

}  // namespace gpux::server

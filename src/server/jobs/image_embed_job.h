#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "embedding/image_encoder.h"
#include "gpux/error.h"
#include "server/jobs/run_job.h"
#include "server/models/served_model.h"
#include "server/requests/request_work.h"

namespace gpux::server {

struct ImageEmbedJobOptions {
  embedding::ImageEmbedOptions embed;
  RequestWork request;
  std::chrono::steady_clock::time_point arrived;
};

struct ImageEmbedJobResult {
  std::vector<std::vector<float>> vectors;  ///< in the order of the images
  RunJob::Times times;
  std::shared_ptr<MemoryShare> memory;  ///< for the answer; to be released when that is handed over
};

/// The vectors of images, each a request of its own to the queue; not started. `model` has an image encoder that has
/// accepted the options; the images are in the forms that its input has as sources: base64 or data URLs. Of each, the
/// pixels that its header claims count against the request's memory before it is decoded. `done` is called as
/// RunJob::Done is. Errors of RequestWork::hold(), where the answer would be too long.
std::shared_ptr<RunJob> make_image_embed_job(
    const std::shared_ptr<ServedModel>& model, std::vector<std::string> images, ImageEmbedJobOptions options,
    std::function<void(const std::optional<Error>&, ImageEmbedJobResult&)> done);

}  // namespace gpux::server

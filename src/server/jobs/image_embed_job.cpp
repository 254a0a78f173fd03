#include "server/jobs/image_embed_job.h"

#include <algorithm>
#include <utility>

#include "image/prepare.h"
#include "image/read_image.h"

namespace gpux::server {
namespace {

// What a number takes in an answer: "-0.01234567,", besides itself.
constexpr std::uint64_t bytes_per_number = 13 + sizeof(float);

// What the runs of a job have in common.
struct ImageEmbedding {
  std::vector<std::string> images;
  embedding::ImageEmbedOptions options;
  std::shared_ptr<const embedding::ImageEncoder> encoder;
  ImageEmbedJobResult result;

  // Of the images as they came, of the tensors that wait for a worker, and of the answer.
  [[nodiscard]] std::uint64_t memory(const Workers& workers) const {
    std::uint64_t bytes = images.size() * encoder->dimension() * bytes_per_number;
    for (const std::string& image : images) bytes += image.size();
    const std::size_t in_flight = 2 * workers.sessions.size() * std::max(workers.replicas, 1U);
    std::uint64_t tensor = bits_of(encoder->input().recipe.type.value_or(ElementType::float32)) / 8;
    for (const std::int64_t size : image::shape_of(encoder->input().recipe)) {
      tensor *= size < 0 ? 0 : static_cast<std::uint64_t>(size);
    }
    return bytes + tensor * std::min(images.size(), in_flight);
  }

  [[nodiscard]] std::uint64_t cost(std::size_t index) const {
    return image::work_of_image(images[index], encoder->input().recipe);
  }

  NamedValues prepare(std::size_t index) {
    NamedValues inputs = encoder->prepare(images[index]);
    images[index] = {};
    return inputs;
  }

  // All of the result is held from the beginning.
  std::uint64_t take(std::size_t index, const NamedValues& outputs) {
    result.vectors[index] = encoder->finish(outputs.front().second, options);
    return 0;
  }
};

}  // namespace

std::shared_ptr<RunJob> make_image_embed_job(
    const std::shared_ptr<ServedModel>& model, std::vector<std::string> images, ImageEmbedJobOptions options,
    std::function<void(const std::optional<Error>&, ImageEmbedJobResult&)> done) {
  const auto state = std::make_shared<ImageEmbedding>();
  state->images = std::move(images);
  state->options = options.embed;
  state->encoder = model->image_encoder();
  state->result.vectors.resize(state->images.size());
  const std::shared_ptr<ServedSession> session = image_session_of(model);
  state->result.memory = options.request.hold(state->memory(session->workers()), "the vectors of the images");
  RunJob::Work work{
      .count = state->images.size(),
      .item = "image",
      .prepare = [state](std::size_t index) { return state->prepare(index); },
      .cost = [state](std::size_t index) { return state->cost(index); },
      .take = [state](std::size_t index, NamedValues&& outputs) { return state->take(index, outputs); },
      .request = options.request,
      .run = {.outputs = output_indices({state->encoder->output()}, session->signature()), .arrived = options.arrived}};
  return std::make_shared<RunJob>(
      session, std::move(work),
      [state, done = std::move(done)](const std::optional<Error>& error, const RunJob::Times& times) {
        state->result.times = times;
        done(error, state->result);
        if (!error) state->result.memory->release();
      });
}

}  // namespace gpux::server

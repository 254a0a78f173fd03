#include "server/text_job.h"

#include <utility>
#include <vector>

namespace gpux::server {
namespace {

// What the runs of a request have in common.
struct Rows {
  std::shared_ptr<const pipeline::Pipeline> pipeline;
  pipeline::Prepared prepared;
  std::vector<NamedValues> results;
  std::vector<std::string> outputs;
};

// Texts given for the input that is given pictures are pictures, whatever the protocol.
void read_pictures(const runtime::PictureInput& picture, NamedValues& inputs) {
  for (auto& [name, value] : inputs) {
    const Tensor* tensor = value.tensor();
    if (name != picture.name || tensor == nullptr || tensor->type() != ElementType::string) continue;
    value = runtime::read_pictures(picture, tensor->strings());
  }
}

}  // namespace

void Pending::cancel() const {
  if (job_) job_->cancel();
  if (model_ && ticket_ != 0) model_->scheduler().cancel(ticket_);
}

Pending submit(const std::shared_ptr<ServedModel>& model, ServedModel::Call call, runtime::Completion done,
               runtime::Here here, const pipeline::PrepareOptions& options) {
  if (const runtime::PictureInput* picture = model->picture()) {
    try {
      read_pictures(*picture, call.inputs);
    } catch (const Error& error) {
      model->statistics().count(error, call.arrived);
      throw;
    }
  }
  const auto& pipeline = model->pipeline();
  if (pipeline == nullptr || !pipeline->takes_text(call.inputs)) {
    return {model, model->submit(std::move(call), std::move(done), here)};
  }
  const auto rows = std::make_shared<Rows>();
  rows->pipeline = pipeline;
  rows->outputs = std::move(call.outputs);
  std::vector<std::string> wanted;
  try {
    wanted = pipeline->model_outputs(rows->outputs);
    rows->prepared = pipeline->prepare(call.inputs, options);
  } catch (const Error& error) {
    model->statistics().count(error, call.arrived);
    throw;
  }
  rows->results.resize(rows->prepared.parts.size());
  RunJob::Work work{
      .count = rows->prepared.parts.size(),
      .item = "text",
      .outputs = std::move(wanted),
      .prepare = [rows](std::size_t index) { return std::move(rows->prepared.parts[index].inputs); },
      .take = [rows](std::size_t index, NamedValues&& outputs) { rows->results[index] = std::move(outputs); },
      .priority = call.priority,
      .deadline = call.deadline,
      .arrived = call.arrived};
  auto job = std::make_shared<RunJob>(
      model, std::move(work),
      [rows, done = std::move(done)](const std::optional<Error>& error, const runtime::InferTimes& slowest) {
        runtime::InferAnswer answer{.error = error, .outputs = {}, .times = slowest};
        try {
          if (!error) answer.outputs = rows->pipeline->finish(rows->prepared, rows->results, rows->outputs);
        } catch (const Error& failure) {
          answer.error = failure;
        }
        done(std::move(answer));
      });
  job->start();
  return Pending(std::move(job));
}

}  // namespace gpux::server

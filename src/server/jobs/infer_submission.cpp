#include "server/jobs/infer_submission.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "image/prepare.h"
#include "server/models/run_spans.h"

namespace gpux::server {
namespace {

using Clock = std::chrono::steady_clock;

// What the runs of a request for texts have in common.
struct Texts {
  std::shared_ptr<const pipeline::Pipeline> pipeline;
  pipeline::TextRows rows;
  std::vector<std::vector<pipeline::Part>> parts;  // of each row
  std::vector<std::vector<NamedValues>> results;   // of each part
  std::vector<std::string> outputs;
  PendingParts pending;
  RequestWork request;
  std::shared_ptr<TextFigures> figures;  // null: nobody asks
  std::mutex figures_mutex;

  /// Each row is a job of its own, which takes what the model gave for its windows, even if there is only one.
  [[nodiscard]] bool has_windows() const { return pipeline->settings().task == pipeline::Task::question_answering; }

  [[nodiscard]] std::uint64_t cost(std::size_t row) const {
    const std::string* pair = rows.pair(row);
    const std::size_t bytes = rows.first ? 0 : std::min(rows.text(row).size(), max_text_bytes);
    return (bytes + (pair == nullptr ? 0 : std::min(pair->size(), max_text_bytes))) * tokenizer_bytes_per_byte;
  }

  NamedValues prepare(std::size_t row) {
    const auto begun = Clock::now();
    parts[row] = pipeline->prepare_row(rows, row);
    results[row].resize(parts[row].size());
    if (figures) count(row, Clock::now() - begun);
    for (const pipeline::Part& part : parts[row]) request.add_tokens(part.tokens);
    return std::move(parts[row].front().inputs);
  }

  void count(std::size_t row, Clock::duration tokenization) {
    const std::string* pair = rows.pair(row);
    const std::size_t characters = count_characters(rows.text(row)) + (pair == nullptr ? 0 : count_characters(*pair));
    const std::lock_guard lock(figures_mutex);
    ++figures->texts;
    figures->characters += characters;
    for (const pipeline::Part& part : parts[row]) figures->tokens += part.tokens;
    figures->tokenization += tokenization;
  }

  void report(const RunJob::Times& times) const {
    if (!figures) return;
    figures->queue = times.queue;
    figures->inference = times.compute;
  }

  [[nodiscard]] NamedValues finish(const Cancellation& cancellation) {
    cancellation.check();
    pipeline::Prepared prepared;
    std::vector<NamedValues> all;
    prepared.rows = rows.count;
    for (std::size_t row = 0; row < rows.count; ++row) {
      std::move(parts[row].begin(), parts[row].end(), std::back_inserter(prepared.parts));
      std::move(results[row].begin(), results[row].end(), std::back_inserter(all));
      prepared.texts.push_back(pipeline->answer_text(rows, row));
    }
    return pipeline->finish(prepared, all, outputs);
  }
};

std::vector<std::string> output_names(std::span<const std::size_t> indices, const Signature& signature) {
  std::vector<std::string> names;
  for (const std::size_t index : indices) names.push_back(signature.outputs.at(index).name);
  return names;
}

// The windows of a row's long text, each a run.
void queue_windows(const std::shared_ptr<ServedSession>& session, const std::shared_ptr<Texts>& texts, std::size_t row,
                   RunJob::Work work, NamedValues&& first, runtime::Completion done) {
  texts->parts[row].front().inputs = std::move(first);
  work.count = texts->parts[row].size();
  work.item = "window";
  work.cost = nullptr;
  work.queue = nullptr;
  work.stop_others = nullptr;
  work.prepare = [texts, row](std::size_t index) { return std::move(texts->parts[row][index].inputs); };
  work.take = [texts, row](std::size_t index, NamedValues&& outputs) {
    texts->results[row][index] = std::move(outputs);
    return bytes_of(texts->results[row][index]);
  };
  auto job = std::make_shared<RunJob>(
      session, std::move(work),
      [texts, row, done = std::move(done)](const std::optional<Error>& error, const RunJob::Times& times) {
        texts->pending.end(row);
        done({.error = error, .outputs = {}, .times = times.slowest});
      });
  texts->pending.begin(row);
  texts->pending.add(row, Pending(job));
  job->start();
}

Pending submit_texts(const std::shared_ptr<ServedModel>& model, runtime::InferRequest asked, const RequestWork& request,
                     runtime::Completion done, SubmitOptions submit_options) {
  pipeline::PrepareOptions& options = submit_options.prepare;
  const auto texts = std::make_shared<Texts>();
  texts->request = request;
  texts->figures = std::move(submit_options.figures);
  texts->pipeline = model->pipeline();
  texts->outputs = output_names(asked.outputs, model->signature());
  const std::shared_ptr<ServedSession> session = session_of(model);
  try {
    asked.outputs = output_indices(texts->pipeline->model_outputs(texts->outputs), session->signature());
    options.max_text_bytes = max_text_bytes;
    const auto begun = Clock::now();
    texts->rows = texts->pipeline->rows(std::exchange(asked.inputs, {}), options);
    if (texts->figures && texts->rows.first) texts->figures->tokenization += Clock::now() - begun;
  } catch (const Error& error) {
    model->statistics().count(error, asked.arrived);
    throw;
  }
  texts->parts.resize(texts->rows.count);
  texts->results.resize(texts->rows.count);
  RunJob::Work work{.count = texts->rows.count,
                    .item = "text",
                    .prepare = [texts](std::size_t row) { return texts->prepare(row); },
                    .cost = [texts](std::size_t row) { return texts->cost(row); },
                    .take =
                        [texts](std::size_t row, NamedValues&& outputs) {
                          if (texts->has_windows()) return std::uint64_t{0};  // they were taken
                          texts->results[row].front() = std::move(outputs);
                          return bytes_of(texts->results[row].front());
                        },
                    .request = request,
                    .run = std::move(asked)};
  if (texts->has_windows()) {
    const RunJob::Work common = work;
    work.queue = [session, texts, common](std::size_t row, NamedValues&& inputs, bool is_admitted,
                                          runtime::Completion row_done) {
      RunJob::Work windows = common;
      windows.run.is_admitted = is_admitted;
      queue_windows(session, texts, row, std::move(windows), std::move(inputs), std::move(row_done));
    };
    work.stop_others = [texts] { texts->pending.cancel(); };
  }
  auto job =
      std::make_shared<RunJob>(session, std::move(work),
                               [texts, cancellation = request.cancellation(), done = std::move(done)](
                                   const std::optional<Error>& error, const RunJob::Times& times) {
                                 runtime::InferAnswer answer{.error = error, .outputs = {}, .times = times.slowest};
                                 texts->report(times);
                                 try {
                                   if (!error) answer.outputs = texts->finish(cancellation);
                                 } catch (...) {
                                   answer.error = current_error();
                                 }
                                 done(std::move(answer));
                               });
  job->start();
  return Pending(std::move(job));
}

// The images of a request, which are read one after the other.
struct ImageValues {
  ImageInput input;
  Tensor values;  // strings
  std::vector<Tensor> read;
  std::shared_ptr<MemoryShare> share;

  [[nodiscard]] std::uint64_t cost() const {
    return image::work_of_image(values.strings()[std::min(read.size(), values.strings().size() - 1)], input.recipe);
  }

  // Of the tensors, once more where they are put together; 0 where the images decide it.
  [[nodiscard]] std::uint64_t known_bytes() const {
    std::uint64_t bytes = values.strings().size() == 1 ? 1 : 2 * values.strings().size();
    for (const std::int64_t size : image::shape_of(input.recipe)) {
      bytes *= size < 0 ? 0 : static_cast<std::uint64_t>(size);
    }
    return bytes * bits_of(input.recipe.type.value_or(ElementType::float32)) / 8;
  }
};

Pending submit_images(const std::shared_ptr<ServedSession>& session, runtime::InferRequest asked,
                      const RequestWork& request, runtime::Completion done, ImageValues&& given) {
  const auto images = std::make_shared<ImageValues>(std::move(given));
  const std::uint64_t known_bytes = images->known_bytes();
  images->share = request.hold(known_bytes, "the images");
  const auto prepare = [images, memory = request.memory, known_bytes, inputs = std::exchange(asked.inputs, {})](
                           std::size_t /*index*/) mutable -> std::optional<NamedValues> {
    const auto values = images->values.strings();
    try {
      append_image(images->input, values[images->read.size()], images->read);
    } catch (const Error& error) {
      throw error.within(fmt::format("input '{}'", images->input.name));
    }
    if (known_bytes == 0) {
      grow_share(*images->share, memory, 2 * images->read.back().byte_size(), "the images");
    }
    if (images->read.size() < values.size()) return std::nullopt;
    for (auto& [name, value] : inputs) {
      if (name == images->input.name) value = join_images(std::move(images->read));
    }
    images->read.clear();
    return std::move(inputs);
  };
  const auto outputs = std::make_shared<NamedValues>();
  RunJob::Work work{.count = 1,
                    .item = "request",
                    .prepare = prepare,
                    .cost = [images](std::size_t /*index*/) { return images->cost(); },
                    .take =
                        [outputs](std::size_t /*index*/, NamedValues&& made) {
                          *outputs = std::move(made);
                          return std::uint64_t{0};
                        },
                    .request = request,
                    .run = std::move(asked)};
  auto job = std::make_shared<RunJob>(
      session, std::move(work),
      [outputs, images, done = std::move(done)](const std::optional<Error>& error, const RunJob::Times& times) {
        if (error) {
          // A unit or a run may go on beside it: what they use is let go with them.
          done({.error = error, .outputs = {}, .times = times.slowest});
          return;
        }
        images->share->release();
        done({.error = {}, .outputs = std::move(*outputs), .times = times.slowest});
      });
  job->start();
  return Pending(std::move(job));
}

// Texts given for the input that is given images are images, whatever the protocol; null where there are none.
const Tensor* image_values(const ServedModel& model, const NamedValues& inputs) {
  const ImageInput* image = model.image_input();
  const Value* value = image == nullptr ? nullptr : find(inputs, image->name);
  const Tensor* tensor = value == nullptr ? nullptr : value->tensor();
  return tensor != nullptr && tensor->type() == ElementType::string ? tensor : nullptr;
}

}  // namespace

void Pending::cancel() const {
  if (job_) job_->cancel();
  if (session_ && ticket_ != 0) session_->scheduler().cancel(ticket_);
}

void PendingParts::begin(std::size_t index) {
  const std::lock_guard lock(mutex_);
  parts_.emplace(index, Pending());
}

void PendingParts::add(std::size_t index, const Pending& part) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_cancelled_) {
      if (const auto found = parts_.find(index); found != parts_.end()) found->second = part;
      return;
    }
  }
  part.cancel();
}

void PendingParts::end(std::size_t index) {
  Pending over;  // let go without the lock
  const std::lock_guard lock(mutex_);
  const auto found = parts_.find(index);
  if (found == parts_.end()) return;
  std::swap(over, found->second);
  parts_.erase(found);
}

void PendingParts::cancel() {
  std::map<std::size_t, Pending> parts;
  {
    const std::lock_guard lock(mutex_);
    is_cancelled_ = true;
    parts.swap(parts_);
  }
  for (const auto& [index, part] : parts) part.cancel();
}

namespace {

std::uint64_t bytes_of(const Tensor& tensor) noexcept {
  std::uint64_t bytes = tensor.byte_size();
  if (tensor.type() != ElementType::string) return bytes;
  for (const std::string& text : tensor.strings()) bytes += sizeof(std::string) + text.size();
  return bytes;
}

std::uint64_t bytes_of(const Value& value) noexcept {
  if (const Tensor* tensor = value.tensor()) return bytes_of(*tensor);
  if (const Map* map = value.map()) return bytes_of(map->keys) + bytes_of(map->values);
  std::uint64_t bytes = 0;
  if (const Sequence* sequence = value.sequence()) {
    for (const Value& element : sequence->values) bytes += sizeof(Value) + bytes_of(element);
  }
  return bytes;
}

}  // namespace

std::uint64_t bytes_of(const NamedValues& values) noexcept {
  std::uint64_t bytes = 0;
  for (const auto& [name, value] : values) bytes += bytes_of(value);
  return bytes;
}

Pending submit_infer(const std::shared_ptr<ServedModel>& model, runtime::InferRequest request, const RequestWork& work,
                     runtime::Completion done, runtime::Here here, const SubmitOptions& options) {
  const auto& pipeline = model->pipeline();
  const std::shared_ptr<ServedSession> session = session_of(model);
  if (const Tensor* values = image_values(*model, request.inputs)) {
    try {
      ImageValues images{.input = *model->image_input(), .values = *values, .read = {}, .share = nullptr};
      if (options.sources) images.input.sources = *options.sources;
      if (values->strings().empty()) throw Error(ErrorCode::invalid_input, "there is no image");
      return submit_images(session, std::move(request), work, std::move(done), std::move(images));
    } catch (const Error& error) {
      model->statistics().count(error, request.arrived);
      throw;
    }
  }
  if (pipeline != nullptr && pipeline->takes_text(request.inputs)) {
    return submit_texts(model, std::move(request), work, std::move(done), options);
  }
  if (pipeline != nullptr) {
    try {
      request.outputs = output_indices(output_names(request.outputs, pipeline->signature()), session->signature());
    } catch (const Error& error) {
      model->statistics().count(error, request.arrived);
      throw;
    }
  }
  request.deadline = work.deadline.time();
  if (work.spans) {
    done = [spans = work.spans, done = std::move(done)](runtime::InferAnswer&& answer) {
      if (!answer.error) add_run(spans, answer.times, RequestSpans::Clock::now());
      done(std::move(answer));
    };
  }
  return {session, session->submit(std::move(request), std::move(done), here)};
}

}  // namespace gpux::server

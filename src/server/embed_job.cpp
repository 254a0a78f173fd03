#include "server/embed_job.h"

#include <mutex>
#include <utility>

#include <fmt/format.h>

namespace gpux::server {
namespace {

using Clock = std::chrono::steady_clock;

// What the runs of a job have in common.
struct Embedding {
  std::vector<std::string> texts;
  EmbedJobOptions options;
  std::shared_ptr<const embedding::SentenceEncoder> encoder;
  std::vector<embedding::PreparedText> prepared;

  std::mutex mutex;
  EmbedJobResult result;

  NamedValues prepare(std::size_t index) {
    const std::string& text = texts[index];
    const auto begun = Clock::now();
    if (!options.truncate && encoder->model().max_tokens != 0) {
      const std::size_t tokens = encoder->count_tokens(text, options.embed);
      if (tokens > encoder->model().max_tokens) {
        throw Error(ErrorCode::invalid_input,
                    fmt::format("the text has {} tokens; accepted: at most {}", tokens, encoder->model().max_tokens));
      }
    }
    prepared[index] = encoder->prepare(text, options.embed);
    NamedValues inputs = std::move(prepared[index].inputs);
    const std::lock_guard lock(mutex);
    result.tokenizing += Clock::now() - begun;
    result.tokens += prepared[index].tokens;
    return inputs;
  }

  void take(std::size_t index, const NamedValues& outputs) {
    if (options.of_tokens) {
      result.token_vectors[index] = encoder->token_vectors(prepared[index], outputs.front().second);
      return;
    }
    result.vectors[index] = encoder->finish(prepared[index], outputs.front().second, options.embed);
  }
};

}  // namespace

std::shared_ptr<RunJob> make_embed_job(std::shared_ptr<ServedModel> model, std::vector<std::string> texts,
                                       EmbedJobOptions options,
                                       std::function<void(const std::optional<Error>&, const EmbedJobResult&)> done) {
  const auto state = std::make_shared<Embedding>();
  state->texts = std::move(texts);
  state->options = std::move(options);
  state->encoder = model->encoder();
  state->prepared.resize(state->texts.size());
  if (state->options.of_tokens) {
    state->result.token_vectors.resize(state->texts.size());
  } else {
    state->result.vectors.resize(state->texts.size());
  }
  RunJob::Work work{.count = state->texts.size(),
                    .item = "text",
                    .outputs = {state->options.of_tokens ? state->encoder->token_output()
                                                         : state->encoder->output(state->options.embed)},
                    .prepare = [state](std::size_t index) { return state->prepare(index); },
                    .take = [state](std::size_t index, NamedValues&& outputs) { state->take(index, outputs); },
                    .priority = 0,
                    .deadline = state->options.deadline,
                    .arrived = state->options.arrived};
  return std::make_shared<RunJob>(
      std::move(model), std::move(work),
      [state, done = std::move(done)](const std::optional<Error>& error, const runtime::InferTimes& slowest) {
        state->result.slowest = slowest;
        done(error, state->result);
      });
}

}  // namespace gpux::server

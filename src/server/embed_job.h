#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "embedding/sentence_encoder.h"
#include "gpux/error.h"
#include "server/run_job.h"
#include "server/served_model.h"

namespace gpux::server {

struct EmbedJobOptions {
  embedding::EmbedOptions embed;
  bool truncate = true;    ///< false: a text that is too long is an error
  bool of_tokens = false;  ///< the vectors of the tokens are asked for; the encoder has a token_output()
  std::optional<std::chrono::steady_clock::time_point> deadline;
  std::chrono::steady_clock::time_point arrived;
};

struct EmbedJobResult {
  std::vector<std::vector<float>> vectors;  ///< in the order of the texts
  std::vector<Tensor> token_vectors;        ///< of each text, [tokens, width], where asked for
  std::size_t tokens = 0;                   ///< of all texts, as they went into the model
  std::chrono::nanoseconds tokenizing{0};
  runtime::InferTimes slowest;
};

/// The vectors of texts, each a request of its own to the queue; not started. `model` has an encoder that has accepted
/// the options. `done` is called as RunJob::Done is.
std::shared_ptr<RunJob> make_embed_job(std::shared_ptr<ServedModel> model, std::vector<std::string> texts,
                                       EmbedJobOptions options,
                                       std::function<void(const std::optional<Error>&, const EmbedJobResult&)> done);

}  // namespace gpux::server

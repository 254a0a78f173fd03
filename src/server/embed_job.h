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
#include "server/models/served_model.h"
#include "server/protocols/text_requests.h"
#include "server/request_work.h"
#include "server/run_job.h"
#include "server/text_figures.h"

namespace gpux::server {

struct EmbedJobOptions {
  embedding::EmbedOptions embed;
  bool of_tokens = false;  ///< the vectors of the tokens are asked for; the encoder has a token_output()
  RequestWork request;
  std::chrono::steady_clock::time_point arrived;
};

struct EmbedJobResult {
  std::vector<std::vector<float>> vectors;  ///< in the order of the texts
  std::vector<std::string> token_vectors;   ///< of each text, [tokens, width] as JSON, where asked for
  TextFigures figures;                      ///< of tokens as of the text that they spell
  std::shared_ptr<MemoryShare> memory;      ///< for the answer; to be released when that is handed over
};

/// The vectors of texts, each a request of its own to the queue; not started. `model` has an encoder that has accepted
/// the options. `done` is called as RunJob::Done is. Errors of RequestWork::hold(), where the answer would be too long.
std::shared_ptr<RunJob> make_embed_job(std::shared_ptr<ServedModel> model, std::vector<TextInput> texts,
                                       EmbedJobOptions options,
                                       std::function<void(const std::optional<Error>&, EmbedJobResult&)> done);

}  // namespace gpux::server

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
#include "server/jobs/run_job.h"
#include "server/jobs/text_figures.h"
#include "server/jobs/text_input.h"
#include "server/models/served_model.h"
#include "server/requests/request_work.h"

namespace gpux::server {

struct EmbedJobOptions {
  embedding::EmbedOptions embed;
  /// Kind of result per text.
  enum class Answer : std::uint8_t {
    vectors,          ///< dense vectors
    token_vectors,    ///< JSON of its tokens' vectors: of late interaction, or those of token_output()
    sparse_vectors,   ///< JSON of its sparse vector
    representations,  ///< whatever `embed` asks for
  };

  Answer answer = Answer::vectors;
  std::size_t queries = 0;   ///< the first texts are queries
  bool token_names = false;  ///< each weight of a sparse vector with its token
  RequestWork request;
  std::chrono::steady_clock::time_point arrived;
};

struct EmbedJobResult {
  std::vector<std::vector<float>> vectors;            ///< in the order of the texts
  std::vector<std::string> json;                      ///< of each text, where asked for
  std::vector<embedding::Embedding> representations;  ///< of each text, where asked for
  TextFigures figures;                                ///< of tokens as of the text that they spell
  std::shared_ptr<MemoryShare> memory;                ///< for the answer; to be released when that is handed over
};

/// The vectors of texts, each a request of its own to the queue; not started. `model` has an encoder that has accepted
/// the options. `done` is called as RunJob::Done is. Errors of RequestWork::hold(), where the answer would be too long.
std::shared_ptr<RunJob> make_embed_job(const std::shared_ptr<ServedModel>& model, std::vector<TextInput> texts,
                                       EmbedJobOptions options,
                                       std::function<void(const std::optional<Error>&, EmbedJobResult&)> done);

}  // namespace gpux::server

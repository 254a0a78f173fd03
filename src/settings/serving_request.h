#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "embedding/sentence_encoder.h"
#include "project/models_file.h"
#include "project/project_file.h"
#include "settings/setting.h"
#include "settings/worker_request.h"

namespace gpux {

/// How a model is served, as one source says it, or several after merge().
struct ServingRequest {
  MaybeSetting<std::int64_t> max_batch_size;  ///< rows that share a run
  MaybeSetting<std::int64_t> max_batch_cost;  ///< elements of a shared run's largest input
  MaybeSetting<TextBatching> batching;
  /// Inputs that are filled up, with the number as it is written; not compared with the model.
  MaybeSetting<std::vector<std::pair<std::string, std::string>>> padding;
  MaybeSetting<std::chrono::milliseconds> max_queue_delay;
  MaybeSetting<std::chrono::milliseconds> timeout;  ///< maximum time of a request, from its arrival
  MaybeSetting<std::size_t> max_queue;
  MaybeSetting<WorkerRequest> workers;
  MaybeSetting<unsigned> max_workers;
  MaybeSetting<unsigned> runs_in_flight;
  MaybeSetting<std::size_t> max_sequences, context_length;  ///< limits of models that generate text
  MaybeSetting<std::uint64_t> cache_bytes;                  ///< likewise
  MaybeSetting<std::vector<std::vector<std::pair<std::string, std::int64_t>>>> warm_up;  ///< sizes by dimension
  MaybeSetting<std::chrono::milliseconds> stop_grace, max_restart_delay;                 ///< times of worker processes
};

/// "exact", "throughput". Errors of refuse().
TextBatching read_batching(const std::string& text, const Source& source);

/// Each setting of the first that has it. Pure.
ServingRequest merge(ServingRequest first, const ServingRequest& second);

/// The settings of an entry of the list of models in `file`.
ServingRequest serving_request_of(const ListedModel& listed, const std::string& file);

/// The settings of `serving` in a gpux.yml.
ServingRequest serving_request_of(const ProjectFile& project);

}  // namespace gpux

#pragma once

#include <string>

#include "server/jobs/embed_job.h"
#include "server/models/served_model.h"
#include "server/protocols/tei/requests.h"

namespace gpux::server::tei {

/// What is cut off texts that are too long, and what is put before each. Error invalid_input: the model has no such
/// prompt.
void apply(const TextTreatment& treatment, const ServedModel& model, EmbedJobOptions& options);

/// The text that the model's prompt of this name puts before others. Error invalid_input: it has none.
std::string prompt_named(const ServedModel& model, const std::string& name);

}  // namespace gpux::server::tei

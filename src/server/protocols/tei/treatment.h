#pragma once

#include <string>

#include "server/jobs/embed_job.h"
#include "server/models/served_model.h"
#include "server/protocols/tei/requests.h"

namespace gpux::server::tei {

/// Sets the truncation and the prompt of the texts in `options`. Error invalid_input: the model has no such prompt.
void apply(const TextTreatment& treatment, const ServedModel& model, EmbedJobOptions& options);

/// The text that the model's prompt of this name puts before others. Error invalid_input: it has none.
std::string prompt_named(const ServedModel& model, const std::string& name);

}  // namespace gpux::server::tei

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pipeline/pipeline.h"
#include "server/models/served_model.h"
#include "server/protocols/call.h"
#include "server/protocols/tei/requests.h"

namespace gpux::server::tei {

/// Writes the body of the answer from the model's outputs.
using Body = std::function<std::string(const NamedValues& outputs)>;

/// Runs the model's pipeline with these texts, and answers with the named outputs or the error.
void run_texts(const std::shared_ptr<http::Exchange>& exchange, const RequestWork& work,
               const std::shared_ptr<ServedModel>& model, NamedValues inputs, std::vector<std::string> outputs,
               const pipeline::PrepareOptions& options, Body body);

pipeline::PrepareOptions prepared_as(const TextTreatment& treatment);

/// A tensor of as many strings.
Tensor strings_of(std::vector<std::string> texts);

}  // namespace gpux::server::tei

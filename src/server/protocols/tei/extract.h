#pragma once

#include <memory>
#include <string_view>

#include "server/models/served_model.h"
#include "server/protocols/call.h"

namespace gpux::server::tei {

/// Whether a body is {"inputs": …}, as huggingface_hub's clients send it, and the model one that finds entities in
/// texts, or answers to questions, and has no input of that name.
bool is_for_extraction(const ServedModel& model, std::string_view body);

/// Answers such a body: for each text a list of its entities, for each question the answer. As in huggingface_hub, what
/// is asked of one text alone is not in a list.
void extract(const std::shared_ptr<http::Exchange>& exchange, const RequestWork& work,
             const std::shared_ptr<ServedModel>& model);

}  // namespace gpux::server::tei

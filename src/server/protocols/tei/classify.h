#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gpux/label_score.h"
#include "server/models/served_model.h"
#include "server/protocols/call.h"

namespace gpux::server::tei {

/// Whether a body of /predict is text-embeddings-inference's {"inputs": …}, and the model a classifier that has no
/// input of that name.
bool is_for_classifier(const ServedModel& model, std::string_view body);

/// Answers such a body.
void classify(const std::shared_ptr<http::Exchange>& exchange, const RequestWork& work,
              const std::shared_ptr<ServedModel>& model);

/// The labels of each row with their scores, or of the only one.
std::string rows_json(const std::vector<std::vector<LabelScore>>& rows, bool is_list);

}  // namespace gpux::server::tei

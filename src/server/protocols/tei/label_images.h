#pragma once

#include <memory>
#include <string_view>

#include "server/models/served_model.h"
#include "server/protocols/call.h"

namespace gpux::server::tei {

/// Whether the body of /predict asks for the scores of labels for images, and the model has towers for that.
bool is_for_image_labels(const ServedModel& model, std::string_view body);

/// Answers such a body.
void label_images(const std::shared_ptr<http::Exchange>& exchange, const RequestWork& work,
                  const std::shared_ptr<ServedModel>& model);

}  // namespace gpux::server::tei

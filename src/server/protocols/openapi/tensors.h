#pragma once

#include <vector>

#include "gpux/model_info.h"
#include "server/models/served_model.h"
#include "server/protocols/openapi/schema.h"

/// What routes with tensors take and give.
namespace gpux::server::openapi {

/// /predict, of all models that it may be for: an item, a list of them, or the bare value of a model's only input.
Json predict_request_schema(const std::vector<const ServedModel*>& models);
Json predict_answer_schema(const std::vector<const ServedModel*>& models);

/// A tensor of the Open Inference Protocol.
Json tensor_schema();

/// A call of infer for this model, with inputs that it has.
Json infer_request_schema(const Signature& signature);

}  // namespace gpux::server::openapi

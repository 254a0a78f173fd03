#pragma once

#include "server/protocols/openapi/operation.h"

/// OpenAPI operations of the routes in routes.h.
namespace gpux::server::tei {

/// The request of a classifier of texts.
openapi::Json classify_schema();

/// The request of a model that finds entities, or answers questions.
openapi::Json extraction_schema(const ServedModel& model);

/// A request for labels of images, as huggingface_hub has it.
openapi::Json image_labels_schema();

Operation describe_by_ability(const ServedList& models);
Operation describe_embed(const ServedList& models);
Operation describe_embed_all(const ServedList& models);
Operation describe_embed_sparse(const ServedList& models);
Operation describe_rerank(const ServedList& models);
Operation describe_similarity(const ServedList& models);
Operation describe_decode(const ServedList& models);

}  // namespace gpux::server::tei

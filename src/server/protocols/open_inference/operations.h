#pragma once

#include <span>

#include "server/protocols/field.h"
#include "server/protocols/openapi/operation.h"

/// OpenAPI operations of the routes in routes.h.
namespace gpux::server::open_inference_v2 {

/// Fields that read_infer_call() reads.
std::span<const Field> infer_fields();

/// A tensor in JSON.
openapi::Json tensor_schema();

/// The answer of infer.
openapi::Json answer_schema();

Operation describe_infer(const ServedList& models);
/// Of a registration of shared memory.
std::span<const Field> region_fields();

Operation describe_index(const ServedList& models);
Operation describe_registration(const ServedList& models);
Operation describe_regions(const ServedList& models);
Operation describe_loading(const ServedList& models);

}  // namespace gpux::server::open_inference_v2

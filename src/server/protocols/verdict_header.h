#pragma once

#include <memory>

#include "server/http/server.h"
#include "server/models/served_model.h"

namespace gpux::server {

/// The exchange whose answers of a model that ran have the header field X-Gpux-Verdict: RanOn::header of the model.
std::shared_ptr<http::Exchange> with_verdict(std::shared_ptr<http::Exchange> exchange,
                                             const std::shared_ptr<const ServedModel>& model);

}  // namespace gpux::server

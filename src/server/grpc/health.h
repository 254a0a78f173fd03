#pragma once

#include <memory>

#include "server/grpc/call.h"

namespace gpux::server {

/// Health.Check: SERVING where the model, or for the empty name all that is loaded, answers a probe.
void check_health(const std::shared_ptr<Answer>& answer, ::grpc::ByteBuffer& request);

/// Health.Watch: the same again and again, and an answer whenever it has changed.
std::shared_ptr<Call> make_health_watch(std::shared_ptr<CallState> state, std::unique_ptr<Wire> wire,
                                        const CalledMethod& method);

}  // namespace gpux::server

#pragma once

#include <memory>

#include "server/grpc/call.h"

namespace gpux::server {

/// ModelStreamInfer: answers each message of the client when its result is there, whatever the order. The error of one
/// is its answer, and the stream goes on. Reads no further while GrpcServerOptions::max_stream_requests are in flight.
std::shared_ptr<Call> make_infer_stream(std::shared_ptr<CallState> state, std::unique_ptr<Wire> wire,
                                        const CalledMethod& method);

}  // namespace gpux::server

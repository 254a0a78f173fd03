#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "server/grpc/call.h"
#include "server/requests/api_keys.h"

namespace gpux::server {

/// A method that the server has.
struct Method {
  const char* path;  ///< "/inference.GRPCInferenceService/ModelInfer"; must outlive the server
  KeyNeed key;
  /// One of the two: a method with one answer, or one that makes its call.
  UnaryHandler unary;
  std::shared_ptr<Call> (*make)(std::shared_ptr<CallState> state, std::unique_ptr<Wire> wire,
                                const CalledMethod& method);
  const char* type = "unary";  ///< as of GrpcMethodCounts
  bool is_traced = false;      ///< CalledMethod::is_traced
};

/// Methods of the service inference.GRPCInferenceService.
std::span<const Method> inference_methods(bool has_shared_memory) noexcept;

/// Methods of the service grpc.health.v1.Health.
std::span<const Method> health_methods() noexcept;

}  // namespace gpux::server

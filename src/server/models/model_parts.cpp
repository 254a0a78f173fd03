#include "server/models/model_parts.h"

#include "base/machine.h"
#include "provider/device_memory.h"
#include "provider/table.h"

namespace gpux::server {
namespace {

void run_synthetic(const Workers& workers, const DimensionSizes& sizes) {
  try {
    for (const auto& session : workers.sessions) {
      (void)session->infer(synthetic_inputs(session->info().signature, sizes));
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_input) throw;
  }
}

void warm_up(const SessionParts& parts) {
  if (parts.options.warm_up.empty()) run_synthetic(parts.workers, {});
  for (const DimensionSizes& sizes : parts.options.warm_up) run_synthetic(parts.workers, sizes);
}

void add_sessions(const Workers& workers, std::vector<DeviceSession>& sessions) {
  for (const auto& session : workers.sessions) {
    for (const ProviderAttempt& attempt : session->verdict().tried) {
      if (attempt.outcome != ProviderAttempt::Outcome::active || !attempt.device) continue;
      // The memory of a processor is the host's. A plugin that gpux does not know may have some of its own.
      if (attempt.device->kind == "cpu" && provider::find_row(attempt.id) != nullptr) continue;
      sessions.push_back({.provider = attempt.id, .device = *attempt.device});
    }
  }
}

}  // namespace

void warm_up(const ModelParts& parts) {
  if (parts.image_tower) warm_up(*parts.image_tower);
  if (parts.generation.engines.empty()) {
    warm_up(parts.session);
    return;
  }
  for (const auto& engine : parts.generation.engines) {
    generation::EngineRequest request;
    request.prompt.assign(engine->context_length() > 4 ? 2 : 1, 0);
    request.settings.temperature = 0;
    request.settings.max_tokens = 1;
    (void)generation::generate(*engine, std::move(request));
  }
  for (const DimensionSizes& sizes : parts.session.options.warm_up) run_synthetic(parts.session.workers, sizes);
}

std::vector<DeviceUse> device_uses(const ModelParts& parts, const MemoryOfDevices& before) {
  std::vector<DeviceSession> sessions;
  add_sessions(parts.session.workers, sessions);
  if (parts.image_tower) add_sessions(parts.image_tower->workers, sessions);
  if (sessions.empty()) return {};
  const std::uint64_t model_bytes = parts.session.workers.sessions.front()->info().total_bytes();
  return device_uses(sessions, provider::expected_session_bytes(model_bytes), before,
                     provider::read_device_memory(Machine::this_one()));
}

}  // namespace gpux::server

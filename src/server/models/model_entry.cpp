#include "server/models/model_entry.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "base/failure_of.h"
#include "server/models/path_redaction.h"

namespace gpux::server {

std::string label_of(const ModelSource& source) {
  return fmt::format("model {}{}{}", source.name, source.version.empty() ? "" : " ", source.version);
}

void fail_all(const std::list<Waiter>& waiters, const Error& error) noexcept {
  for (const Waiter& waiter : waiters) call_guarded(waiter.fail, error);
}

std::chrono::milliseconds retry_delay(std::chrono::milliseconds first, unsigned failures) noexcept {
  constexpr std::chrono::milliseconds longest = std::chrono::minutes(1);
  std::chrono::milliseconds delay = first;
  for (unsigned i = 1; i < failures && delay < longest; ++i) delay *= 2;
  return std::min(delay, std::max(longest, first));
}

Error for_clients(const Error& error) {
  const auto last_name = [](const Subject& subject) {
    const bool is_file = subject.kind == Subject::Kind::file;
    return is_file ? std::filesystem::path(subject.name).filename().string() : to_string(subject);
  };
  return {error.code(), without_paths(error.message(last_name))};
}

ModelActions ModelEntry::apply(ModelEvent event, TransitionEffects& after) {
  const ModelTransition transition = next(state, event);
  state = transition.state;
  if (transition.actions.drop_model) after.dropped.push_back(std::move(model));
  if (transition.actions.fail_waiters) after.failed.splice(after.failed.end(), waiters);
  if (transition.actions.load) is_restore_late = false;
  return transition.actions;
}

void ModelEntry::note_failure(const Error& error, std::chrono::milliseconds first_retry_delay) {
  reason = for_clients(error).message();
  failure = error.code();
  ++failures;
  retry_at = Clock::now() + retry_delay(first_retry_delay, failures);
}

void ModelEntry::install(const std::shared_ptr<ServedModel>& loaded, const ModelAliases& loaded_aliases,
                         const std::shared_ptr<ModelDescription>& loaded_description, std::uint64_t grown_bytes) {
  for (const auto& engine : loaded->engines()) statistics->generation.engines.add(engine);
  model = loaded;
  model_aliases = loaded_aliases;
  description = loaded_description;
  reason.clear();
  forget_failures();
  idle_since = Clock::now();
  time_limit = loaded->options().timeout;
  memory_bytes = std::max(loaded->size_bytes(), grown_bytes + loaded->worker_bytes());
}

void ModelEntry::forget_failures() {
  failure.reset();
  failures = 0;
}

Error ModelEntry::unready() const {
  const std::string& name = source.name;
  const auto not_yet = [](const std::string& message) { return Error(ErrorCode::provider_unavailable, message); };
  switch (state) {
    case ModelState::queued:
    case ModelState::loading:
    case ModelState::restore_queued:
    case ModelState::restoring:
      return not_yet(fmt::format("model '{}' is being loaded", name));
    case ModelState::evicted:
      return not_yet(failure ? fmt::format("model '{}' could not be loaded again", name)
                             : fmt::format("model '{}' was unloaded to make room", name));
    case ModelState::failed:
      return not_yet(fmt::format("model '{}' could not be loaded", name));
    case ModelState::unloaded:
    case ModelState::unloading:
    case ModelState::ready:
    case ModelState::reloading:
      break;
  }
  return {ErrorCode::not_found, fmt::format("model '{}' is not loaded", name)};
}

Error ModelEntry::refusal() const {
  const Error error = unready();
  if (!failure) return error;
  return {error.code(), fmt::format("{}: {}", error.message(), reason)};
}

}  // namespace gpux::server

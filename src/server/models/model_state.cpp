#include "server/models/model_state.h"

namespace gpux::server {
namespace {

using State = ModelState;

ModelTransition on_load_started(State state, bool is_refresh) noexcept {
  switch (state) {
    case State::unloaded:
      // Only a request for it brings back what a request took out of service.
      if (is_refresh) return {state, {}};
      return {State::loading, {.load = true}};
    case State::queued:
    case State::failed:
      return {State::loading, {.load = true}};
    case State::ready:
      return {State::reloading, {.load = true}};
    case State::evicted:
    case State::restore_queued:
      // It would take the memory that it was evicted for: its next request loads what is there then.
      if (is_refresh) return {state, {}};
      return {State::restoring, {.load = true}};
    case State::loading:
    case State::reloading:
    case State::restoring:
    case State::unloading:
      break;
  }
  return {state, {}};
}

ModelTransition on_load_succeeded(State state) noexcept {
  switch (state) {
    case State::loading:
    case State::restoring:
      return {State::ready, {.install = true}};
    case State::reloading:
      return {State::ready, {.install = true, .drop_model = true}};
    case State::unloading:
      return {State::unloaded, {.discard = true}};
    case State::unloaded:
    case State::queued:
    case State::ready:
    case State::evicted:
    case State::restore_queued:
    case State::failed:
      break;
  }
  return {state, {.discard = true}};
}

ModelTransition on_load_failed(State state) noexcept {
  switch (state) {
    case State::queued:
    case State::loading:
      return {State::failed, {.fail_waiters = true}};
    case State::reloading:
      return {State::ready, {}};
    case State::restore_queued:
    case State::restoring:
      return {State::evicted, {.fail_waiters = true}};
    case State::unloading:
      return {State::unloaded, {}};
    case State::unloaded:
    case State::ready:
    case State::evicted:
    case State::failed:
      break;
  }
  return {state, {}};
}

ModelTransition on_unload_requested(State state) noexcept {
  switch (state) {
    case State::loading:
      return {State::unloading, {.fail_waiters = true}};
    case State::reloading:
      return {State::unloading, {.drop_model = true}};
    case State::restoring:
      return {State::unloading, {.fail_waiters = true}};
    case State::ready:
      return {State::unloaded, {.drop_model = true}};
    case State::queued:
    case State::restore_queued:
      return {State::unloaded, {.fail_waiters = true}};
    case State::unloaded:
    case State::evicted:
    case State::failed:
      return {State::unloaded, {}};
    case State::unloading:
      break;
  }
  return {state, {}};
}

}  // namespace

ModelTransition next(ModelState state, ModelEvent event) noexcept {
  switch (event) {
    case ModelEvent::load_requested:
      if (state == State::unloaded || state == State::failed) return {State::queued, {}};
      break;
    case ModelEvent::load_started:
      return on_load_started(state, false);
    case ModelEvent::refresh_started:
      return on_load_started(state, true);
    case ModelEvent::restore_requested:
      if (state == State::evicted) return {State::restore_queued, {.queue_restore = true}};
      break;
    case ModelEvent::restore_started:
      if (state == State::restore_queued) return {State::restoring, {.load = true}};
      break;
    case ModelEvent::load_succeeded:
      return on_load_succeeded(state);
    case ModelEvent::load_failed:
      return on_load_failed(state);
    case ModelEvent::eviction:
      if (state == State::ready) return {State::evicted, {.drop_model = true}};
      break;
    case ModelEvent::unload_requested:
      return on_unload_requested(state);
  }
  return {state, {}};
}

std::string_view repository_state(ModelState state) noexcept {
  switch (state) {
    case State::ready:
    case State::reloading:
      return "READY";
    case State::queued:
    case State::loading:
    case State::restore_queued:
    case State::restoring:
      return "LOADING";
    case State::unloading:
      return "UNLOADING";
    case State::unloaded:
    case State::evicted:
    case State::failed:
      break;
  }
  return "UNAVAILABLE";
}

}  // namespace gpux::server

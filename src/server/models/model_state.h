#pragma once

#include <cstdint>
#include <string_view>

namespace gpux::server {

/// Life cycle state of one version of a model.
enum class ModelState : std::uint8_t {
  unloaded,        ///< out of service until a load is requested
  queued,          ///< its load waits for the loader; nothing serves
  loading,         ///< is being loaded; nothing serves
  ready,           ///< serves
  reloading,       ///< serves while its replacement is being loaded
  evicted,         ///< unloaded to make room; the next request loads it again
  restore_queued,  ///< evicted; a request waits for the loader
  restoring,       ///< evicted; is being loaded again
  failed,          ///< its last load failed; nothing serves
  unloading,       ///< taken out of service while it was being loaded: what that load makes is dropped
};

inline constexpr ModelState all_model_states[] = {
    ModelState::unloaded, ModelState::queued,         ModelState::loading,   ModelState::ready,  ModelState::reloading,
    ModelState::evicted,  ModelState::restore_queued, ModelState::restoring, ModelState::failed, ModelState::unloading,
};

/// Events of a version of a model. One load runs at a time.
enum class ModelEvent : std::uint8_t {
  load_requested,     ///< somebody asked for a load, which is in the loader's queue now
  load_started,       ///< the loader comes to that load, or to the first one
  refresh_started,    ///< the loader found that the files changed, or a failed load may be tried again
  restore_requested,  ///< a request needs the version
  restore_started,    ///< the loader comes to that
  load_succeeded,
  load_failed,
  eviction,  ///< its memory is needed for another model
  unload_requested,
};

inline constexpr ModelEvent all_model_events[] = {
    ModelEvent::load_requested,    ModelEvent::load_started,    ModelEvent::refresh_started,
    ModelEvent::restore_requested, ModelEvent::restore_started, ModelEvent::load_succeeded,
    ModelEvent::load_failed,       ModelEvent::eviction,        ModelEvent::unload_requested,
};

/// Actions of the repository on a transition.
struct ModelActions {
  bool queue_restore = false;  ///< put the restore into the loader's queue
  bool load = false;           ///< the loader goes on and loads; without it the event came too late
  bool install = false;        ///< the loaded model serves from now on, first those who wait for it
  bool discard = false;        ///< the loaded model is dropped: nobody wants it any more
  bool drop_model = false;     ///< the model that served is let go
  bool fail_waiters = false;   ///< requests that wait for the model are answered with the reason

  bool operator==(const ModelActions&) const = default;
};

struct ModelTransition {
  ModelState state;
  ModelActions actions;

  bool operator==(const ModelTransition&) const = default;
};

/// The transition of a state on an event. An event without meaning in the state changes nothing. Pure.
ModelTransition next(ModelState state, ModelEvent event) noexcept;

/// Whether requests are answered without a load.
constexpr bool is_serving(ModelState state) noexcept {
  return state == ModelState::ready || state == ModelState::reloading;
}

/// Whether requests are answered after a load that they trigger.
constexpr bool is_on_demand(ModelState state) noexcept {
  return state == ModelState::evicted || state == ModelState::restore_queued || state == ModelState::restoring;
}

/// Whether requests for the version are accepted: it serves, or is loaded on demand.
constexpr bool is_available(ModelState state) noexcept {
  return is_serving(state) || is_on_demand(state);
}

/// The state under the name that the Open Inference Protocol's repository extension has for it.
std::string_view repository_state(ModelState state) noexcept;

}  // namespace gpux::server

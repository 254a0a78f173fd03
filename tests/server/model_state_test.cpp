#include "server/models/model_state.h"

#include <map>
#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace gpux::server {
namespace {

using State = ModelState;
using Event = ModelEvent;

constexpr ModelActions nothing{};
constexpr ModelActions load{.load = true};
constexpr ModelActions install{.install = true};
constexpr ModelActions replace{.install = true, .drop_model = true};
constexpr ModelActions discard{.discard = true};
constexpr ModelActions drop{.drop_model = true};
constexpr ModelActions fail{.fail_waiters = true};
constexpr ModelActions restore{.queue_restore = true};

// Every transition that changes the state or does something. All the others keep the state and do nothing.
const std::map<std::pair<State, Event>, ModelTransition> transitions = {
    {{State::unloaded, Event::load_requested}, {State::queued, nothing}},
    {{State::failed, Event::load_requested}, {State::queued, nothing}},

    {{State::unloaded, Event::load_started}, {State::loading, load}},
    {{State::queued, Event::load_started}, {State::loading, load}},
    {{State::failed, Event::load_started}, {State::loading, load}},
    {{State::ready, Event::load_started}, {State::reloading, load}},
    {{State::evicted, Event::load_started}, {State::restoring, load}},
    {{State::restore_queued, Event::load_started}, {State::restoring, load}},

    // What was taken out of service, and what was evicted, is not brought back by a change of its files.
    {{State::queued, Event::refresh_started}, {State::loading, load}},
    {{State::failed, Event::refresh_started}, {State::loading, load}},
    {{State::ready, Event::refresh_started}, {State::reloading, load}},

    {{State::evicted, Event::restore_requested}, {State::restore_queued, restore}},
    {{State::restore_queued, Event::restore_started}, {State::restoring, load}},

    {{State::loading, Event::load_succeeded}, {State::ready, install}},
    {{State::restoring, Event::load_succeeded}, {State::ready, install}},
    {{State::reloading, Event::load_succeeded}, {State::ready, replace}},
    {{State::unloading, Event::load_succeeded}, {State::unloaded, discard}},
    {{State::unloaded, Event::load_succeeded}, {State::unloaded, discard}},
    {{State::queued, Event::load_succeeded}, {State::queued, discard}},
    {{State::ready, Event::load_succeeded}, {State::ready, discard}},
    {{State::evicted, Event::load_succeeded}, {State::evicted, discard}},
    {{State::restore_queued, Event::load_succeeded}, {State::restore_queued, discard}},
    {{State::failed, Event::load_succeeded}, {State::failed, discard}},

    {{State::queued, Event::load_failed}, {State::failed, fail}},
    {{State::loading, Event::load_failed}, {State::failed, fail}},
    {{State::reloading, Event::load_failed}, {State::ready, nothing}},
    {{State::restore_queued, Event::load_failed}, {State::evicted, fail}},
    {{State::restoring, Event::load_failed}, {State::evicted, fail}},
    {{State::unloading, Event::load_failed}, {State::unloaded, nothing}},

    {{State::ready, Event::eviction}, {State::evicted, drop}},

    {{State::queued, Event::unload_requested}, {State::unloaded, fail}},
    {{State::loading, Event::unload_requested}, {State::unloading, fail}},
    {{State::ready, Event::unload_requested}, {State::unloaded, drop}},
    {{State::reloading, Event::unload_requested}, {State::unloading, drop}},
    {{State::evicted, Event::unload_requested}, {State::unloaded, nothing}},
    {{State::restore_queued, Event::unload_requested}, {State::unloaded, fail}},
    {{State::restoring, Event::unload_requested}, {State::unloading, fail}},
    {{State::failed, Event::unload_requested}, {State::unloaded, nothing}},
};

TEST(ModelState, ChangesAsTheTableSays) {
  for (const State state : all_model_states) {
    for (const Event event : all_model_events) {
      const auto row = transitions.find({state, event});
      const ModelTransition expected = row == transitions.end() ? ModelTransition{state, nothing} : row->second;
      EXPECT_EQ(next(state, event), expected) << static_cast<int>(state) << " " << static_cast<int>(event);
    }
  }
}

// Whatever the order of events: a model is installed exactly where one begins to serve, dropped where one ends to, and
// requests wait only where a load is on its way.
TEST(ModelState, KeepsItsInvariants) {
  for (const State state : all_model_states) {
    for (const Event event : all_model_events) {
      const auto [after, actions] = next(state, event);
      const std::string where = std::to_string(static_cast<int>(state)) + " " + std::to_string(static_cast<int>(event));
      if (!is_serving(state) && is_serving(after)) {
        EXPECT_TRUE(actions.install) << where;
      }
      if (is_serving(state) && !is_serving(after)) {
        EXPECT_TRUE(actions.drop_model) << where;
      }
      EXPECT_EQ(actions.drop_model, is_serving(state) && (actions.install || !is_serving(after))) << where;
      const bool could_wait = state == State::restore_queued || state == State::restoring;
      const bool can_wait = after == State::restore_queued || after == State::restoring;
      if (could_wait && !can_wait) {
        EXPECT_TRUE(actions.install || actions.fail_waiters) << where;
      }
      if (event == Event::unload_requested) {
        EXPECT_TRUE(after == State::unloaded || after == State::unloading) << where;
      }
    }
  }
}

TEST(ModelState, HasANameInTheRepositoryExtension) {
  EXPECT_EQ(repository_state(State::ready), "READY");
  EXPECT_EQ(repository_state(State::reloading), "READY");
  for (const State state : {State::queued, State::loading, State::restore_queued, State::restoring}) {
    EXPECT_EQ(repository_state(state), "LOADING");
  }
  EXPECT_EQ(repository_state(State::unloading), "UNLOADING");
  for (const State state : {State::unloaded, State::evicted, State::failed}) {
    EXPECT_EQ(repository_state(state), "UNAVAILABLE");
  }
}

}  // namespace
}  // namespace gpux::server

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/event_text.h"
#include "vector_store/collection.h"

/// Heuristic features of events: numbers that are counted from an event without a model, for the level `none`, as
/// op-dbus makes them. docs/daemon.md says what each means.
namespace gpux::daemon {

/// The name that vectors of features have in place of a model's.
inline constexpr std::string_view features_model = "heuristic-features";
/// Their level.
inline constexpr std::string_view features_level = "none";
inline constexpr std::size_t features_dimension = 64;

/// The features of an event, features_dimension of them, all finite; the same event always gives the same. Pure.
std::vector<float> features_of(const Event& event);

/// A text as an event: JSON is read as read_event() does, and any other text is the data of one. Errors of
/// read_event(), also of what begins like an object and is not JSON. Pure.
Event event_of_text(std::string_view text);

/// What stands for the digest of a model: SHA-256, in hexadecimal digits, of the definition's name and version. Other
/// definitions have another one. Pure.
std::string features_digest();

/// The facts of a collection of features. Pure.
vector_store::CollectionFacts features_facts();

}  // namespace gpux::daemon

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/models/model_repository.h"
#include "server/models/served_model.h"
#include "server/models/text_ability.h"
#include "server/protocols/call.h"

/// Which model a request is for.
namespace gpux::server {

using ModelHandler = std::function<void(const RouteCall& call, const std::shared_ptr<ServedModel>& model)>;

/// Names of the models that are loaded when a request names them, and were not yet. Errors of
/// ModelRepository::on_demand().
std::vector<std::string> on_demand_names(const ModelRepository& repository);

/// The name in the path, the default, or that of the only model. Errors not_found, usage.
std::string name_for(const RouteCall& call);

/// Whether a request may wait until a model that is not stored has been pulled, where the server does that.
enum class MayPull : std::uint8_t { no, yes };

/// Calls the handler with the model once it is loaded, with the deadline that the model sets; else answers with the
/// error. A model of the store may also be called by the reference that it was pulled by. Errors as of name_for().
void with_model(const RouteCall& call, ModelHandler handler, MayPull may_pull = MayPull::yes);

/// with_model() for a model that has this ability; if the request names none, the only model that has it. Error usage
/// if it does not.
void with_able(const RouteCall& call, TextAbility ability, ModelHandler handler, MayPull may_pull = MayPull::yes);

}  // namespace gpux::server

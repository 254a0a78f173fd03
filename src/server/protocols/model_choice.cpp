#include "server/protocols/model_choice.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/spelling.h"
#include "server/protocols/error_answers.h"
#include "server/protocols/verdict_header.h"

namespace gpux::server {

std::vector<std::string> on_demand_names(const ModelRepository& repository) {
  std::vector<std::string> names;
  for (const ModelSource& source : repository.on_demand()) names.push_back(source.name);
  return names;
}

std::string name_for(const RouteCall& call) {
  if (call.name) return *call.name;
  if (!call.service.options.default_model.empty()) return call.service.options.default_model;
  const std::vector<std::string> names = call.service.repository.names();
  if (names.size() == 1) return names.front();
  if (names.empty()) {
    const std::vector<std::string> stored = on_demand_names(call.service.repository);
    if (!stored.empty()) throw Error(ErrorCode::usage, "name a model: " + join(stored));
    throw Error(ErrorCode::not_found, "no model is loaded");
  }
  throw Error(ErrorCode::usage, fmt::format("there are several models, name one: {}", join(names)));
}

void with_model(const RouteCall& call, ModelHandler handler) {
  const std::string name = name_for(call);
  const auto handle = [](const RouteCall& of, const ModelHandler& how, const std::shared_ptr<ServedModel>& model) {
    if (const auto timeout = model->options().timeout) {
      of.work.deadline.bring_forward(of.request().arrived + *timeout);
    }
    RouteCall with = of;
    with.exchange = with_verdict(of.exchange, model);
    how(with, model);
  };
  if (const std::shared_ptr<ServedModel> model = call.service.repository.use_ready(name, call.version.value_or(""))) {
    handle(call, handler, model);
    return;
  }
  const auto protocol = call.protocol;
  const auto exchange = call.exchange;
  call.service.repository.use(
      name, call.version.value_or(""),
      [call, handle, handler = std::move(handler)](const std::shared_ptr<ServedModel>& model) {
        try {
          handle(call, handler, model);
        } catch (const Error& error) {
          call.exchange->respond(error_response(error, call.protocol));
        } catch (...) {
          call.exchange->respond(error_response(current_error(), call.protocol));
        }
      },
      [exchange, protocol](const Error& error) { exchange->respond(error_response(error, protocol)); },
      deadline_of(call.request()));
}

void with_able(const RouteCall& call, TextAbility ability, ModelHandler handler) {
  RouteCall named = call;
  std::vector<std::string> able;
  for (const auto& model : call.service.repository.descriptions()) {
    if (model->is_able(ability) && (able.empty() || able.back() != model->name)) able.push_back(model->name);
  }
  if (!named.name && call.service.options.default_model.empty() && able.size() == 1) named.name = able.front();
  with_model(named, [handler = std::move(handler), ability, able](const RouteCall& with,
                                                                  const std::shared_ptr<ServedModel>& model) {
    if (!is_able(*model, ability)) {
      throw Error(ErrorCode::usage, fmt::format("'{}' {}; {}", model->name(), lack_of(ability),
                                                able.empty() ? "no model that is served does" : join(able) + " does"));
    }
    handler(with, model);
  });
}

}  // namespace gpux::server

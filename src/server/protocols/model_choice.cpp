#include "server/protocols/model_choice.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/spelling.h"
#include "base/utf8_prefix.h"
#include "server/models/model_entry.h"
#include "server/models/run_spans.h"
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

namespace {

void fail(const RouteCall& call, const Error& error) {
  call.exchange->respond(error_response(error, call.protocol));
}

// Runs what answers a request, on a thread of somebody else.
template <typename Work>
void answer_guarded(const RouteCall& call, const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    fail(call, error);
  } catch (...) {
    fail(call, current_error());
  }
}

void handle_with(const RouteCall& call, const ModelHandler& handler, const std::shared_ptr<ServedModel>& model) {
  if (const auto timeout = model->options().timeout) {
    call.work.deadline.bring_forward(call.request().arrived + *timeout);
  }
  RouteCall with = call;
  with.exchange = with_verdict(call.exchange, model);
  ResponseCache& cache = call.service.response_cache;
  // Of shared memory a body has the name alone, and what is in it changes.
  const bool is_complete = call.service.options.shared_regions == nullptr || call.protocol != Protocol::open_inference;
  const bool is_cacheable = cache.is_on() && is_complete && call.route != nullptr &&
                            call.route->contract.is_cacheable && may_be_cached(call.request()) &&
                            model->repeats_answers();
  if (is_cacheable) {
    with.exchange = with_cache(with.exchange, cache,
                               {.route = call.route->path,
                                .key = call.caller->key,
                                .verdict = model->ran_on().header,
                                .request = call.request()},
                               model);
    if (with.exchange == nullptr) return;
  }
  std::optional<LimitRefusal> refusal;
  with.work.of_model = model->begin_limited(refusal);
  if (refusal) {
    const std::string message = message_of(*refusal, fmt::format("the model '{}'", model->name()));
    with.exchange->respond(limit_response(*refusal, message, call.protocol));
    return;
  }
  handler(with, model);
}

using Failed = std::function<void(const Error&)>;

// For a model that is not ready, as far as is known.
void use_model(const RouteCall& call, const std::string& name, const ModelHandler& handler, const Failed& failed) {
  call.service.repository.use(
      name, call.version.value_or(""),
      [call, handler, asked = RequestSpans::Clock::now()](const std::shared_ptr<ServedModel>& model) {
        add_phase(call.work.spans, "load", asked);
        answer_guarded(call, [&] { handle_with(call, handler, model); });
      },
      failed, deadline_of(call.request()));
}

// Of a job that another request may have begun.
void pull_and_use(const RouteCall& call, const std::string& name, const ModelHandler& handler) {
  StoreChanges& changes = call.service.changes;
  const std::shared_ptr<AuditedChange> change = audit(call, "pull", name);
  const auto then = [call, name, handler, change](const std::optional<Error>& ended) {
    answer_guarded(call, [&] {
      const std::optional<Error> failure =
          change->end(ended, ended ? std::string() : call.service.changes.stored_digest(name));
      if (failure) throw for_clients(*failure).within(fmt::format("'{}' could not be pulled", name));
      const std::optional<std::string> stored = call.service.changes.served_name(name);
      use_model(call, stored.value_or(name), handler, [call](const Error& error) { fail(call, error); });
    });
  };
  std::uint64_t ticket = 0;
  audited(*change, [&] { ticket = changes.pull(name, {.progress = [](const JobStatus&) {}, .ended = then}); });
  const auto leave = [&changes, ticket] { changes.jobs().leave(ticket); };
  cancel_when_gone(*call.exchange, call.work, leave);
  if (const auto deadline = call.work.deadline.time()) {
    call.service.limits.at(*deadline, [leave, exchange = std::weak_ptr(call.exchange), protocol = call.protocol] {
      // Before the job lets the exchange go.
      if (const auto waiting = exchange.lock()) {
        waiting->respond(
            error_response(Error(ErrorCode::deadline_exceeded, "the model was not pulled in time"), protocol));
      }
      leave();
    });
  }
}

// No model is served by that name: it may be a reference of one in the store, or of one that can be.
void find_in_store(const RouteCall& call, const std::string& name, const ModelHandler& handler, MayPull may_pull,
                   const Error& error) {
  const StoreChanges& changes = call.service.changes;
  if (const auto stored = changes.served_name(name)) {
    // It is there: what was not found is a version, or a file of it.
    if (*stored == name) throw Error(error);
    use_model(call, *stored, handler, [call](const Error& error) { fail(call, error); });
    return;
  }
  if (!StoreChanges::is_reference(name)) {
    std::vector<std::string> names = call.service.repository.names();
    for (std::string& stored_name : on_demand_names(call.service.repository)) names.push_back(std::move(stored_name));
    throw Error(ErrorCode::not_found,
                fmt::format("no model '{}' is stored; stored are: {}; 'gpux pull ORG/NAME' stores one of the hub",
                            utf8_prefix(name, 80), names.empty() ? "none" : join(names)));
  }
  if (may_pull == MayPull::no || !changes.options().pulls_on_demand) {
    throw Error(ErrorCode::not_found, fmt::format("no model '{}' is stored; 'gpux pull {}' stores it", name, name));
  }
  pull_and_use(call, name, handler);
}

}  // namespace

void with_model(const RouteCall& call, ModelHandler handler, MayPull may_pull) {
  const std::string name = name_for(call);
  if (const std::shared_ptr<ServedModel> model = call.service.repository.use_ready(name, call.version.value_or(""))) {
    handle_with(call, handler, model);
    return;
  }
  const auto failed = [call, name, handler, may_pull](const Error& error) {
    const bool is_unknown = error.code() == ErrorCode::not_found && call.service.changes.options().serves_store;
    answer_guarded(call, [&] {
      if (!is_unknown) throw Error(error);
      find_in_store(call, name, handler, may_pull, error);
    });
  };
  use_model(call, name, handler, failed);
}

void with_able(const RouteCall& call, TextAbility ability, ModelHandler handler, MayPull may_pull) {
  RouteCall named = call;
  std::vector<std::string> able;
  for (const auto& model : call.service.repository.descriptions()) {
    if (model->is_able(ability) && (able.empty() || able.back() != model->name)) able.push_back(model->name);
  }
  const ModelRepository& repository = call.service.repository;
  if (!named.name && call.service.options.default_model.empty()) {
    if (able.size() == 1) named.name = able.front();
    // To name one would be of no use.
    if (able.empty() && repository.names().size() > 1 && repository.on_demand().empty()) {
      throw Error(ErrorCode::usage, fmt::format("every model that is served {}", lack_of(ability)));
    }
  }
  with_model(
      named,
      [handler = std::move(handler), ability, able](const RouteCall& with, const std::shared_ptr<ServedModel>& model) {
        if (!is_able(*model, ability)) {
          // Ollama pools the hidden states of a decoder, which a package has no output for.
          const bool lacks_states = ability == TextAbility::embed && model->engine() != nullptr;
          throw Error(ErrorCode::usage,
                      fmt::format("'{}' {}{}; {}", model->name(), lack_of(ability),
                                  lacks_states ? ": it generates text, and has no hidden states as an output" : "",
                                  able.empty() ? "no model that is served does" : join(able) + " does"));
        }
        handler(with, model);
      },
      may_pull);
}

}  // namespace gpux::server

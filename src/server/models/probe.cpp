#include "server/models/probe.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "gpux/error.h"

namespace gpux::server {

using Clock = std::chrono::steady_clock;

namespace {

// A text of one token. Where all slots are in use it waits for one, and tokens that others get meanwhile count as well.
void probe_engine(const std::shared_ptr<ServedModel>& model, Clock::time_point deadline,
                  std::function<void(bool)> done) {
  generation::EngineRequest request;
  request.prompt = {0};
  request.settings.temperature = 0;
  request.settings.max_tokens = 1;
  request.deadline = deadline;
  const std::int64_t before = model->statistics().last_answer;
  request.on_end = [model, before, done](const std::optional<Error>& error, const Completion& /*completion*/) {
    if (!error) model->statistics().last_answer = Clock::now().time_since_epoch().count();
    done(model->statistics().last_answer != before);
  };
  try {
    (void)model->engine()->submit(std::move(request));
  } catch (const Error&) {
    done(false);
  }
}

}  // namespace

void probe(const std::shared_ptr<ServedModel>& model, const ProbeLimits& limits, std::function<void(bool)> done) {
  if (!model->has_a_worker() || model->has_lost_all_devices()) {
    done(false);
    return;
  }
  const Clock::time_point now = Clock::now();
  const Clock::time_point last{std::chrono::nanoseconds(model->statistics().last_answer.load())};
  const bool has_answered = last.time_since_epoch().count() != 0 && now - last < limits.after;
  // A run that does not come back, or a device that was lost, says more than an answer before it.
  if (has_answered && model->counts().overdue_runs == 0 && !model->has_lost_device()) {
    done(true);
    return;
  }
  if (model->engine()) {
    probe_engine(model, now + limits.timeout, std::move(done));
    return;
  }
  NamedValues inputs;
  try {
    inputs = synthetic_inputs(model->runtime().info().signature);
  } catch (const Error&) {
    // There is nothing to ask the model, so what is known of it must do: it is loaded, and no run hangs.
    done(model->counts().overdue_runs == 0);
    return;
  }
  try {
    runtime::InferRequest request{
        .inputs = std::move(inputs), .outputs = {}, .priority = 0, .deadline = now + limits.timeout};
    for (std::size_t i = 0; i < model->runtime().info().signature.outputs.size(); ++i) request.outputs.push_back(i);
    model->session().scheduler().submit_first(std::move(request), [model, done](runtime::InferAnswer&& answer) {
      // Made-up values may be refused by the model; the device has answered all the same.
      const bool answered = !answer.error || answer.error->code() == ErrorCode::invalid_input;
      if (answered) model->statistics().last_answer = Clock::now().time_since_epoch().count();
      done(answered);
    });
  } catch (const Error&) {
    done(false);
  }
}

void probe(const ModelRepository& repository, std::string_view name, std::string_view version,
           const ProbeLimits& limits, std::function<void(bool)> done) {
  if (const std::shared_ptr<ServedModel> model = repository.find_available(name, version)) {
    probe(model, limits, std::move(done));
  } else {
    done(true);
  }
}

void probe_all(const std::vector<std::shared_ptr<ServedModel>>& models, const ProbeLimits& limits,
               std::function<void(const std::string&)> done) {
  struct Round {
    std::mutex mutex;
    std::size_t missing = 0;
    std::string failed;
    std::function<void(const std::string&)> done;
  };

  if (models.empty()) {
    done("");
    return;
  }
  auto round = std::make_shared<Round>();
  round->missing = models.size();
  round->done = std::move(done);
  for (const auto& model : models) {
    probe(model, limits, [round, name = model->name()](bool answered) {
      {
        const std::lock_guard lock(round->mutex);
        if (!answered) round->failed += (round->failed.empty() ? "" : ", ") + name;
        if (--round->missing != 0) return;
      }
      round->done(round->failed);
    });
  }
}

void probe_all(const ModelRepository& repository, const ProbeLimits& limits,
               std::function<void(const std::string&)> done) {
  const std::vector<std::shared_ptr<ServedModel>> models = repository.models();
  const std::vector<ModelStatus> index = repository.index();
  const bool serves_any = std::ranges::any_of(index, is_available, &ModelStatus::state);
  std::string missing;
  for (const ModelStatus& status : index) {
    const bool has_failed = status.state == ModelState::failed;
    const bool is_missing = has_failed || status.state == ModelState::queued || status.state == ModelState::loading;
    // One that need not be served counts where nothing else is.
    const bool counts = status.required || (has_failed && !serves_any);
    if (counts && is_missing) missing += (missing.empty() ? "" : ", ") + status.name;
  }
  if (missing.empty()) {
    probe_all(models, limits, std::move(done));
  } else {
    done(missing);
  }
}

}  // namespace gpux::server

#include "server/models/model_loader.h"

#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/failure_of.h"
#include "base/log.h"
#include "base/machine.h"
#include "generation/cache_budget.h"
#include "server/models/model_eviction.h"
#include "server/models/model_weight.h"
#include "server/models/source_watch.h"

namespace gpux::server {

ModelLoader::ModelLoader(RepositoryState& state, ModelRepository::Sources sources)
    : state_(state), list_(std::move(sources)), thread_([this] { work(); }) {}

void ModelLoader::join() {
  if (thread_.joinable()) thread_.join();
}

void ModelLoader::work() {
  std::unique_lock lock(state_.mutex);
  for (;;) {
    state_.changed.wait(lock, [&] { return state_.ended || !state_.jobs.empty(); });
    if (state_.ended) {
      state_.loading_ended = true;
      state_.changed.notify_all();
      return;
    }
    const std::shared_ptr<LoadJob> job = state_.jobs.start_next();
    lock.unlock();
    std::optional<Error> failure = failure_of([&] { perform(*job); });
    call_guarded([&] {
      if (failure) failure = for_clients(*failure);
    });
    for (const std::uint64_t requester : job->requesters) call_guarded([&] { state_.answer(requester, failure); });
    lock.lock();
    state_.jobs.finish();
  }
}

void ModelLoader::perform(const LoadJob& job) {
  std::optional<Error> failure;
  switch (job.kind) {
    case LoadJob::Kind::load:
      failure = load_model(job);
      break;
    case LoadJob::Kind::restore:
      restore(job);
      break;
    case LoadJob::Kind::refresh:
      failure = refresh_all();
      break;
  }
  if (failure) throw Error(*failure);
}

// Of the models that serve once this source has been loaded: `loaded`, or if that is null what serves now.
std::uint64_t ModelLoader::worker_bytes(const ModelSource& source, const ServedModel* loaded) const {
  std::vector<std::shared_ptr<ServedModel>> others;
  {
    const std::lock_guard lock(state_.mutex);
    for (const auto& [name, versions] : state_.table.models()) {
      for (const auto& [version, entry] : versions) {
        const bool is_replaced = loaded != nullptr && name == source.name && version == source.version;
        if (entry.model && !is_replaced) others.push_back(entry.model);
      }
    }
  }
  std::uint64_t bytes = loaded == nullptr ? 0 : loaded->worker_bytes();
  for (const std::shared_ptr<ServedModel>& other : others) bytes += other->worker_bytes();
  return bytes;
}

namespace {

// A load serves all later requests, too: it is in the trace of none.
void trace_load(const Tracer* tracer, const ModelSource& source, const ServedModel* loaded,
                const std::optional<Error>& failure, RequestSpans::Clock::time_point start) {
  if (tracer == nullptr) return;
  const auto spans = tracer->begin("load model", {}, start, SpanKind::internal);
  if (!spans) return;
  spans->set("gpux.model", source.name);
  spans->set("gpux.model.version", source.version);
  if (loaded != nullptr) {
    spans->set("gpux.model.digest", loaded->digest());
    spans->set("gpux.verdict", loaded->ran_on().header);
  }
  const std::string result = failure ? "failed" : "succeeded";
  spans->end({.status = {"gpux.load.result", result},
              .error_type = failure ? std::string(to_string(failure->code())) : "",
              .error = failure ? for_clients(*failure).message() : ""});
}

}  // namespace

ModelLoader::Trial ModelLoader::try_load(const ModelSource& source,
                                         const std::shared_ptr<ModelStatistics>& statistics) const {
  Trial trial;
  const MemoryOfDevices devices_before = provider::read_device_memory(Machine::this_one());
  trial.failure = failure_of([&] {
    if (source.fingerprint) trial.fingerprint = source.fingerprint();
    with_nice(source.nice, [&] {
      ModelParts parts = source.load();
      std::vector<DeviceUse> uses = device_uses(parts, devices_before);
      trial.loaded = ModelReaper::adopt(state_.reaper,
                                        std::make_unique<ServedModel>(std::move(parts), statistics, std::move(uses)));
    });
    trial.description = describe(*trial.loaded);
  });
  if (!trial.failure && !trial.description) trial.failure = Error(ErrorCode::resource_exhausted, "out of memory");
  return trial;
}

std::optional<Error> ModelLoader::load_source(const ModelSource& source, ModelEvent event, bool is_reported) {
  TransitionEffects after;
  std::shared_ptr<ModelStatistics> statistics;
  {
    const std::lock_guard lock(state_.mutex);
    if (state_.ended) return Error(ErrorCode::interrupted, "the server is going down");
    ModelEntry& entry = state_.table.put(source);
    if (!entry.apply(event, after).load) return std::nullopt;
    statistics = entry.statistics;
  }
  const std::uint64_t before = resident_bytes();
  const auto start = RequestSpans::Clock::now();
  const Trial trial = try_load(source, statistics);
  trace_load(state_.options.tracer.get(), source, trial.loaded.get(), trial.failure, start);
  const std::shared_ptr<ServedModel>& loaded = trial.loaded;
  const std::optional<Error>& failure = trial.failure;
  const std::uint64_t size = resident_bytes();
  ModelBudget budget = state_.options.budget;
  generation::CacheBudget::of_process()->measure(worker_bytes(source, failure ? nullptr : loaded.get()));
  if (budget.memory_bytes != 0) budget.cache_bytes = generation::CacheBudget::of_process()->limit_bytes();
  std::list<Waiter> served;
  std::optional<Error> refusal;
  bool is_new_reason = true, is_wanted = true;
  {
    const std::lock_guard lock(state_.mutex);
    ModelEntry* entry = state_.table.find(source.name, source.version);
    if (entry == nullptr) return Error(ErrorCode::interrupted, "the server is going down");
    entry->fingerprint = trial.fingerprint;
    if (failure) {
      is_wanted = entry->state != ModelState::unloading;
      is_new_reason = entry->reason != for_clients(*failure).message();
      if (is_wanted) entry->note_failure(*failure, state_.options.first_retry_delay);
      entry->apply(ModelEvent::load_failed, after);
      refusal = entry->refusal();
    } else {
      is_wanted = entry->apply(ModelEvent::load_succeeded, after).install;
      if (is_wanted) {
        served.swap(entry->waiters);
        entry->install(loaded, source.aliases, trial.description, size > before ? size - before : 0);
        entry->last_use = ++state_.uses;
        make_room(state_.table, *entry, budget, after);
      }
    }
  }
  after.dropped.clear();
  if (failure) {
    log_failure(source, *failure, is_reported || !is_wanted || !is_new_reason);
    fail_all(after.failed, *refusal);
    return failure;
  }
  if (!is_wanted) {
    return Error(ErrorCode::interrupted, fmt::format("model '{}' was unloaded before it was loaded", source.name));
  }
  log::info("{} is ready: {}", label_of(source), to_line(loaded->verdict(), log::subject_names()));
  for (const Waiter& waiter : served) {
    const auto unanswered = failure_of([&] { waiter.use(loaded); });
    if (unanswered) call_guarded(waiter.fail, for_clients(*unanswered));
  }
  return std::nullopt;
}

void ModelLoader::log_failure(const ModelSource& source, const Error& failure, bool is_known) const {
  const std::string message = failure.message(log::subject_names());
  if (is_known) {
    log::debug("{} is not loaded: {}", label_of(source), message);
  } else {
    log::warning("{}: {}", label_of(source), message);
  }
}

// Those of the model, whose own name `name` becomes, or where the sources cannot be listed its last ones. Throws that
// failure where there are none.
std::vector<ModelSource> ModelLoader::sources_of(std::string& name, bool& are_current) {
  std::vector<ModelSource> found;
  const std::optional<Error> failure = list_.look(found);
  are_current = !failure;
  const std::lock_guard lock(state_.mutex);
  const auto known = state_.table.models().find(name);
  const bool is_known = known != state_.table.models().end();
  if (!failure) {
    if (!is_known) name = name_among(found, name);
    std::erase_if(found, [&](const ModelSource& source) { return source.name != name; });
    return found;
  }
  if (!is_known) throw Error(*failure);
  for (const auto& [version, entry] : known->second) found.push_back(entry.source);
  return found;
}

std::optional<Error> ModelLoader::load_model(const LoadJob& job) {
  bool are_current = false;
  std::string name = job.name;
  const auto& configure = state_.options.configure;
  std::vector<ModelSource> wanted;
  std::optional<std::string> before;
  if (configure) {
    // Its own name is known once the sources are.
    if (job.config) (void)sources_of(name, are_current);
    before = configure(name, job.config);
  }
  std::optional<Error> failure = failure_of([&] { wanted = sources_of(name, are_current); });
  // The next load by itself, as after a file has changed, is not to try again what has failed.
  const auto restore = [&] {
    if (configure && before != job.config) (void)configure(name, before);
  };
  if (failure) {
    restore();
    throw Error(*failure);
  }
  for (const ModelSource& source : wanted) {
    {
      const std::lock_guard lock(state_.mutex);
      if (job.is_cancelled) return failure;
    }
    std::optional<Error> one = load_source(source, ModelEvent::load_started);
    if (one && !failure) failure = std::move(one);
  }
  if (failure) restore();
  if (are_current) drop_vanished(state_, wanted, &name);
  if (!wanted.empty()) return failure;
  TransitionEffects after;
  const std::lock_guard lock(state_.mutex);
  Error gone = state_.table.unknown(name);
  const auto known = state_.table.models().find(name);
  if (known == state_.table.models().end()) return gone;
  for (auto& [version, entry] : known->second) entry.apply(ModelEvent::load_failed, after);
  return gone;
}

void ModelLoader::restore(const LoadJob& job) {
  ModelSource source;
  {
    const std::lock_guard lock(state_.mutex);
    const ModelEntry* entry = state_.table.find(job.name, job.version);
    if (entry == nullptr) return;
    source = entry->source;
  }
  (void)load_source(source, ModelEvent::restore_started);
}

std::optional<Error> ModelLoader::refresh_all() {
  std::vector<ModelSource> there;
  std::optional<Error> failure = list_.look(there);
  if (failure) return failure;
  for (const ModelSource& source : there) {
    std::optional<Error> one;
    const auto unread = failure_of([&] {
      if (needs_load(state_, source)) one = load_source(source, ModelEvent::refresh_started);
    });
    if (!failure) failure = unread ? unread : one;
  }
  drop_vanished(state_, there, nullptr);
  return failure;
}

}  // namespace gpux::server

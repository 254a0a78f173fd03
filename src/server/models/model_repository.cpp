#include "server/models/model_repository.h"

#include <algorithm>
#include <list>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "base/failure_of.h"
#include "base/log.h"
#include "base/utf8_prefix.h"
#include "server/models/idle_models.h"
#include "server/models/model_loader.h"
#include "server/requests/time_limits.h"

namespace gpux::server {

using Clock = std::chrono::steady_clock;

void RepositoryState::answer(std::uint64_t number, const std::optional<Error>& failure) {
  LoadJobs::Done done;
  {
    const std::lock_guard lock(mutex);
    done = jobs.take_requester(number);
  }
  if (done) call_guarded(done, failure);
}

struct ModelRepository::State {
  State(Sources listed, const RepositoryOptions& options)
      : sources(std::move(listed)), shared(options), loader(shared, sources) {}

  Sources sources;
  RepositoryState shared;
  ModelLoader loader;
  TimeLimits limits;  // last: it uses the rest

  // Whether the name is that of no model, and may be that of a source. Under the lock.
  bool may_load(std::string_view name) {
    if (!shared.options.loads_by_name) return false;
    try {
      (void)shared.table.find_requested(name, "");
      return false;
    } catch (const Error& error) {
      return error.code() == ErrorCode::not_found;
    }
  }

  bool is_unknown(std::string_view name) {
    const std::lock_guard lock(shared.mutex);
    return may_load(name);
  }

  void watch_idle_models() {
    limits.at(Clock::now() + idle_check_interval(shared.options.idle_unload), [this] {
      evict_idle_models(shared, Clock::now());
      watch_idle_models();
    });
  }

  // Ends one who has waited for a model for as long as for its answer: its device may hang, and the load with it.
  void give_up(const std::string& name, const std::string& version, std::uint64_t number) {
    std::list<Waiter> late;
    {
      const std::lock_guard lock(shared.mutex);
      ModelEntry* entry = shared.table.find(name, version);
      if (entry == nullptr) return;
      const auto waiter = std::ranges::find(entry->waiters, number, &Waiter::number);
      if (waiter == entry->waiters.end()) return;
      late.splice(late.end(), entry->waiters, waiter);
      if (entry->state == ModelState::restoring) entry->is_restore_late = true;
    }
    fail_all(late, Error(ErrorCode::deadline_exceeded, fmt::format("model '{}' is still being loaded", name)));
  }
};

ModelRepository::ModelRepository(Sources sources, const RepositoryOptions& options)
    : state_(std::make_unique<State>(std::move(sources), options)) {
  if (unloads_idle_models()) state_->watch_idle_models();
}

ModelRepository::~ModelRepository() {
  (void)close(Clock::now() + std::chrono::hours(24 * 365));
}

void ModelRepository::load_all() {
  const std::vector<ModelSource> all = state_->sources();
  for (const ModelSource& source : all) {
    if (source.required && source.unusable) throw Error(*source.unusable);
  }
  {
    const std::lock_guard lock(state_->shared.mutex);
    for (const ModelSource& source : all) {
      if (!source.on_demand) state_->shared.table.put(source);
    }
  }
  for (const ModelSource& source : all) {
    if (source.on_demand) continue;
    const auto failure = state_->loader.load_source(source, ModelEvent::load_started, source.required);
    if (!failure) continue;
    if (source.required) throw all.size() == 1 ? *failure : failure->within(fmt::format("model '{}'", source.name));
  }
}

void ModelRepository::load(std::string name, Deadline deadline, Done done, std::optional<std::string> config) {
  State& state = *state_;
  RepositoryState& shared = state.shared;
  if (shared.options.load_timeout.count() != 0) {
    deadline = std::min(deadline.value_or(Clock::time_point::max()), Clock::now() + shared.options.load_timeout);
  }
  std::uint64_t number = 0;
  TransitionEffects after;
  {
    std::unique_lock lock(shared.mutex);
    std::optional<Error> refusal;
    if (shared.ended) {
      refusal = Error(ErrorCode::interrupted, "the server is going down");
    } else {
      refusal = failure_of([&] { name = shared.table.name_of_all(name); });
      if (!refusal && config && !shared.options.configure) {
        refusal = Error(ErrorCode::usage, "the models of this server have no configuration but their own");
      }
    }
    if (refusal) {
      lock.unlock();
      done(refusal);
      return;
    }
    number =
        shared.jobs.add_requester(shared.jobs.add(LoadJob::Kind::load, name, "", std::move(config)), std::move(done));
    shared.changed.notify_all();
    const auto known = shared.table.models().find(name);
    if (known != shared.table.models().end()) {
      for (auto& [version, entry] : known->second) entry.apply(ModelEvent::load_requested, after);
    }
  }
  if (!deadline) return;
  state.limits.at(*deadline, [&shared, number, name = std::move(name)] {
    shared.answer(number,
                  Error(ErrorCode::deadline_exceeded,
                        fmt::format("model '{}' is not loaded yet: its load continues", utf8_prefix(name, 80))));
  });
}

void ModelRepository::unload(std::string_view requested, const Done& done) {
  RepositoryState& shared = state_->shared;
  std::string name(requested);
  TransitionEffects after;
  std::vector<std::uint64_t> overtaken;
  std::optional<Error> failure;
  {
    const std::lock_guard lock(shared.mutex);
    failure = failure_of([&] { name = shared.table.name_of_all(requested); });
    const auto found = shared.table.models().find(name);
    if (found == shared.table.models().end()) {
      if (!failure) failure = shared.table.unknown(name);
    } else {
      for (auto& [version, entry] : found->second) {
        entry.apply(ModelEvent::unload_requested, after);
        entry.reason = "unloaded";
        entry.forget_failures();
      }
    }
    overtaken = shared.jobs.cancel(name);
  }
  after.dropped.clear();
  fail_all(after.failed, Error(ErrorCode::not_found, fmt::format("model '{}' was unloaded", utf8_prefix(name, 80))));
  for (const std::uint64_t number : overtaken) {
    shared.answer(number, Error(ErrorCode::interrupted,
                                fmt::format("model '{}' was unloaded before it was loaded", utf8_prefix(name, 80))));
  }
  done(failure);
}

void ModelRepository::refresh(Done done) {
  const std::lock_guard lock(state_->shared.mutex);
  LoadJob& job = state_->shared.jobs.add(LoadJob::Kind::refresh, "", "");
  if (done) state_->shared.jobs.add_requester(job, std::move(done));
  state_->shared.changed.notify_all();
}

std::vector<std::shared_ptr<ServedModel>> ModelRepository::models() const {
  std::vector<std::shared_ptr<ServedModel>> ready;
  const std::lock_guard lock(state_->shared.mutex);
  for (const auto& [name, versions] : state_->shared.table.models()) {
    for (const auto& [version, entry] : versions) {
      if (entry.model) ready.push_back(entry.model);
    }
  }
  return ready;
}

std::vector<std::shared_ptr<ServedModel>> ModelRepository::models_in_use() const {
  std::vector<std::shared_ptr<ServedModel>> all = models();
  for (auto& model : state_->shared.reaper->alive()) {
    const bool is_replaced = std::ranges::any_of(
        all, [&](const auto& other) { return other->name() == model->name() && other->version() == model->version(); });
    if (!is_replaced) all.push_back(std::move(model));
  }
  return all;
}

std::vector<std::shared_ptr<const ModelDescription>> ModelRepository::descriptions() const {
  std::vector<std::shared_ptr<const ModelDescription>> all;
  const std::lock_guard lock(state_->shared.mutex);
  for (const auto& [name, versions] : state_->shared.table.models()) {
    for (const auto& [version, entry] : versions) {
      if (is_available(entry.state)) all.push_back(entry.description);
    }
  }
  return all;
}

std::string ModelRepository::name_of(std::string_view requested) const {
  const std::lock_guard lock(state_->shared.mutex);
  return state_->shared.table.name_of(requested);
}

std::vector<std::string> ModelRepository::names() const {
  std::vector<std::string> names;
  const std::lock_guard lock(state_->shared.mutex);
  for (const auto& [name, versions] : state_->shared.table.models()) {
    if (std::ranges::any_of(versions, [](const auto& version) { return is_available(version.second.state); })) {
      names.push_back(name);
    }
  }
  return names;
}

std::vector<std::string> ModelRepository::versions(std::string_view name) const {
  std::vector<std::string> there;
  const std::lock_guard lock(state_->shared.mutex);
  const auto found = state_->shared.table.models().find(name);
  if (found == state_->shared.table.models().end()) return there;
  for (const auto& [version, entry] : found->second) {
    if (is_available(entry.state)) there.push_back(version);
  }
  return there;
}

std::vector<ModelStatus> ModelRepository::index() const {
  std::vector<ModelStatus> all;
  std::vector<std::shared_ptr<ServedModel>> serving;
  {
    const std::lock_guard lock(state_->shared.mutex);
    for (const auto& [name, versions] : state_->shared.table.models()) {
      for (const auto& [version, entry] : versions) {
        all.push_back({name, version, entry.state, entry.reason, entry.source.required, entry.failure.has_value()});
        all.back().memory_bytes = entry.model ? entry.memory_bytes : 0;
        serving.push_back(entry.model);
      }
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!serving[i]) continue;
    all[i].is_stuck = serving[i]->counts().overdue_runs != 0;
    const std::vector<WorkerStatus> workers = serving[i]->worker_processes();
    all[i].lacks_some_worker =
        std::ranges::any_of(workers, [](const auto& one) { return one.state != WorkerStatus::State::ready; });
    all[i].has_lost_device = serving[i]->has_lost_device();
    const std::vector<runtime::DeviceReport> devices = serving[i]->devices();
    all[i].devices = devices.size();
    all[i].devices_out =
        static_cast<std::size_t>(std::ranges::count(devices, runtime::DeviceState::out, &runtime::DeviceReport::state));
    all[i].lacks_worker = all[i].devices_out != all[i].devices && !serving[i]->has_a_worker();
  }
  return all;
}

std::shared_ptr<ServedModel> ModelRepository::find(std::string_view name, std::string_view version) const {
  const std::lock_guard lock(state_->shared.mutex);
  const ModelEntry& entry = state_->shared.table.find_requested(name, version);
  if (!entry.model) throw entry.unready();
  return entry.model;
}

std::shared_ptr<ServedModel> ModelRepository::find_available(std::string_view name, std::string_view version) const {
  const std::lock_guard lock(state_->shared.mutex);
  const ModelEntry& entry = state_->shared.table.find_requested(name, version);
  const bool may_be_restored = is_on_demand(entry.state) && !entry.is_backing_off(Clock::now());
  if (!entry.model && !may_be_restored) throw entry.unready();
  return entry.model;
}

std::string ModelRepository::digest(std::string_view name) const {
  std::string digest;
  (void)failure_of([&] { digest = description(name, "")->digest; });
  return digest;
}

std::shared_ptr<const ModelDescription> ModelRepository::description(std::string_view name,
                                                                     std::string_view version) const {
  const std::lock_guard lock(state_->shared.mutex);
  const ModelEntry& entry = state_->shared.table.find_requested(name, version);
  if (!is_available(entry.state)) throw entry.unready();
  return entry.description;
}

bool ModelRepository::loads_by_name() const noexcept {
  return state_->shared.options.loads_by_name;
}

std::vector<ModelSource> ModelRepository::on_demand() const {
  std::vector<ModelSource> all;
  if (!state_->shared.options.loads_by_name) return all;
  if (const auto failure = failure_of([&] { all = state_->sources(); })) {
    log::warning("the models on demand cannot be listed: {}", failure->message());
    throw for_clients(*failure);
  }
  const std::lock_guard lock(state_->shared.mutex);
  std::erase_if(all, [&](const ModelSource& source) {
    return !source.on_demand || state_->shared.table.models().contains(source.name);
  });
  return all;
}

std::shared_ptr<ServedModel> ModelRepository::use_ready(std::string_view name, std::string_view version) {
  const std::lock_guard lock(state_->shared.mutex);
  if (state_->may_load(name)) return nullptr;
  ModelEntry& entry = state_->shared.table.find_requested(name, version);
  if (entry.model) {
    entry.last_use = ++state_->shared.uses;
    if (unloads_idle_models()) entry.idle_since = Clock::now();
  }
  return entry.model;
}

bool ModelRepository::unloads_idle_models() const noexcept {
  return state_->shared.options.idle_unload.count() != 0;
}

void ModelRepository::set_idle_limit(std::string_view name, std::string_view version, std::chrono::milliseconds limit) {
  if (!unloads_idle_models()) return;
  const std::lock_guard lock(state_->shared.mutex);
  ModelEntry& entry = state_->shared.table.find_requested(name, version);
  entry.idle_limit = limit;
  entry.idle_since = Clock::now();
}

std::optional<std::chrono::milliseconds> ModelRepository::idle_time_left(std::string_view name,
                                                                         std::string_view version) const {
  if (!unloads_idle_models()) return std::nullopt;
  using std::chrono::milliseconds;
  const std::lock_guard lock(state_->shared.mutex);
  const ModelEntry* entry = state_->shared.table.find(name, std::string(version));
  if (entry == nullptr) return std::nullopt;
  const milliseconds limit = entry->idle_limit.value_or(state_->shared.options.idle_unload);
  if (entry->source.pinned || limit == milliseconds::max()) return std::nullopt;
  const auto idle = std::chrono::duration_cast<milliseconds>(Clock::now() - entry->idle_since);
  return std::max(limit - idle, milliseconds(0));
}

void ModelRepository::use(std::string_view name, std::string_view version, const Use& use, const Fail& fail,
                          Deadline deadline) {
  if (const std::shared_ptr<ServedModel> model = use_ready(name, version)) {
    use(model);
    return;
  }
  State& state = *state_;
  RepositoryState& shared = state.shared;
  if (state.is_unknown(name)) {
    load_and_use(name, version, use, fail, deadline);
    return;
  }
  Clock::time_point limit = deadline.value_or(Clock::time_point::max());
  std::string found_name, found_version;
  std::uint64_t number = 0;
  std::shared_ptr<ServedModel> loaded;  // in between
  {
    const std::lock_guard lock(shared.mutex);
    ModelEntry& entry = shared.table.find_requested(name, version);
    loaded = entry.model;
    if (!loaded) {
      const Clock::time_point now = Clock::now();
      if (!is_on_demand(entry.state) || entry.is_restore_late) throw entry.unready();
      if (entry.state == ModelState::evicted && entry.is_backing_off(now)) throw entry.refusal();
      TransitionEffects none;
      if (entry.apply(ModelEvent::restore_requested, none).queue_restore) {
        shared.jobs.add(LoadJob::Kind::restore, entry.source.name, entry.source.version);
        shared.changed.notify_all();
      }
      number = shared.jobs.next_number();
      entry.waiters.push_back({use, fail, number});
      if (entry.time_limit) limit = std::min(limit, now + *entry.time_limit);
      found_name = entry.source.name;
      found_version = entry.source.version;
    }
  }
  if (loaded) {
    use(loaded);
  } else if (limit != Clock::time_point::max()) {
    state.limits.at(limit, [&state, name = std::move(found_name), version = std::move(found_version), number] {
      state.give_up(name, version, number);
    });
  }
}

void ModelRepository::load_and_use(std::string_view name, std::string_view version, const Use& use, const Fail& fail,
                                   Deadline deadline) {
  const auto then = [this, name = std::string(name), version = std::string(version), use, fail,
                     deadline](const std::optional<Error>& error) {
    const auto failure = error ? error : failure_of([&] {
      // What is not known now has gone in between.
      if (state_->is_unknown(name)) (void)find(name, version);
      this->use(name, version, use, fail, deadline);
    });
    if (failure) call_guarded(fail, *failure);
  };
  load(std::string(name), deadline, then);
}

bool ModelRepository::close(Clock::time_point deadline) {
  State& state = *state_;
  RepositoryState& shared = state.shared;
  {
    const std::lock_guard lock(shared.mutex);
    shared.ended = true;
    shared.jobs.clear();
  }
  shared.changed.notify_all();
  state.limits.end();
  ModelTable::Models dropped;
  std::map<std::uint64_t, Done> unanswered;
  bool loading_ended = false;
  {
    std::unique_lock lock(shared.mutex);
    // A device may hang while a model is loaded for it, and nothing can stop that.
    loading_ended = shared.changed.wait_until(lock, deadline, [&] { return shared.loading_ended; });
    dropped.swap(shared.table.models());
    unanswered = shared.jobs.take_all_requesters();
  }
  if (loading_ended) state.loader.join();
  const Error interrupted(ErrorCode::interrupted, "the server is going down");
  for (const auto& [number, done] : unanswered) call_guarded(done, std::optional(interrupted));
  for (auto& [name, versions] : dropped) {
    for (auto& [version, entry] : versions) {
      if (entry.model) entry.model->abandon();
      fail_all(entry.waiters, interrupted);
    }
  }
  dropped.clear();
  return shared.reaper->wait_for_all(deadline) && loading_ended;
}

}  // namespace gpux::server

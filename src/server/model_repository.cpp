#include "server/model_repository.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "base/log.h"
#include "base/machine.h"
#include "base/spelling.h"
#include "server/model_reaper.h"
#include "server/path_redaction.h"
#include "server/time_limits.h"

namespace gpux::server {
namespace {

using Clock = std::chrono::steady_clock;

// A request that waits for an evicted model.
struct Waiter {
  ModelRepository::Use use;
  ModelRepository::Fail fail;
  std::uint64_t number = 0;
};

struct Entry {
  ModelSource source;
  ModelState state = ModelState::queued;
  std::string reason;
  std::string fingerprint;                              // of what is loaded, or failed to be
  std::shared_ptr<ServedModel> model;                   // null unless is_serving(state)
  ModelAliases model_aliases;                           // of the source that `model` was loaded from
  std::shared_ptr<const ModelDescription> description;  // of the model, or of the last one
  std::shared_ptr<ModelStatistics> statistics;          // of all models that stood here, one after the other
  std::optional<std::chrono::milliseconds> time_limit;  // of a request, as the model had it last
  std::uint64_t memory_bytes = 0;
  std::uint64_t last_use = 0;        // counts uses of the repository
  std::optional<ErrorCode> failure;  // of the last load
  unsigned failures = 0;             // in a row
  Clock::time_point retry_at;        // before it a failed load is not repeated
  bool is_restore_late = false;      // requests have given up waiting for the restore that runs
  std::list<Waiter> waiters;         // empty unless the state is restore_queued or restoring

  [[nodiscard]] const ModelAliases& aliases() const { return model ? model_aliases : source.aliases; }

  // Its last load failed, and it is too early for another attempt.
  [[nodiscard]] bool is_backing_off(Clock::time_point now) const { return failure && now < retry_at; }
};

struct VersionLess {
  bool operator()(const std::string& left, const std::string& right) const noexcept {
    return version_less(left, right);
  }
};

using Versions = std::map<std::string, Entry, VersionLess>;

// What the loader's thread does next.
struct Job {
  enum class Kind : std::uint8_t { load, restore, refresh };

  Kind kind;
  std::string name, version;
  std::vector<std::uint64_t> askers;  // numbers of those who are to be told how it ended
  bool is_cancelled = false;          // unload() came while it ran

  [[nodiscard]] bool is_about(std::string_view model) const { return kind != Kind::refresh && name == model; }
};

// What follows from transitions, to be done without the lock.
struct Aftermath {
  std::vector<std::shared_ptr<ServedModel>> dropped;
  std::list<Waiter> failed;
};

// The same files would fail again.
bool is_permanent(ErrorCode code) noexcept {
  return code == ErrorCode::invalid_model || code == ErrorCode::invalid_config || code == ErrorCode::not_found ||
         code == ErrorCode::usage;
}

Error for_clients(const Error& error) {
  return {error.code(), without_paths(error.message())};
}

// Runs what must not end the thread that runs it.
template <typename Work>
std::optional<Error> failure_of(const Work& work) noexcept {
  try {
    try {
      work();
      return std::nullopt;
    } catch (const Error& error) {
      return error;
    } catch (const std::bad_alloc&) {
      return Error(ErrorCode::resource_exhausted, "out of memory");
    } catch (const std::exception& error) {
      return Error(ErrorCode::internal, error.what());
    } catch (...) {
      return Error(ErrorCode::internal, "an exception of an unknown type was thrown");
    }
  } catch (...) {
    // No memory even for the message.
    return std::nullopt;
  }
}

// Calls what belongs to somebody else, on a thread of the repository.
template <typename Callback, typename... Arguments>
void call(const Callback& callback, const Arguments&... arguments) noexcept {
  const auto failure = failure_of([&] { callback(arguments...); });
  if (failure) (void)failure_of([&] { log::error("an answer could not be given: {}", failure->message()); });
}

void fail_all(const std::list<Waiter>& waiters, const Error& error) noexcept {
  for (const Waiter& waiter : waiters) call(waiter.fail, error);
}

std::string label_of(const ModelSource& source) {
  return fmt::format("model {}{}{}", source.name, source.version.empty() ? "" : " ", source.version);
}

}  // namespace

std::chrono::milliseconds retry_delay(std::chrono::milliseconds first, unsigned failures) noexcept {
  constexpr std::chrono::milliseconds longest = std::chrono::minutes(1);
  std::chrono::milliseconds delay = first;
  for (unsigned i = 1; i < failures && delay < longest; ++i) delay *= 2;
  return std::min(delay, std::max(longest, first));
}

bool version_less(std::string_view left, std::string_view right) noexcept {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto number = [&](std::string_view& text) {
    std::size_t end = 0;
    while (end < text.size() && is_digit(text[end])) ++end;
    std::string_view digits = text.substr(0, end);
    text.remove_prefix(end);
    while (digits.size() > 1 && digits.front() == '0') digits.remove_prefix(1);
    return digits;
  };
  std::string_view a = left, b = right;
  while (!a.empty() && !b.empty()) {
    if (is_digit(a.front()) && is_digit(b.front())) {
      const std::string_view x = number(a), y = number(b);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
    } else {
      if (a.front() != b.front()) return a.front() < b.front();
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  if (a.empty() != b.empty()) return a.empty();
  return left < right;
}

struct ModelRepository::State {
  Sources sources;
  RepositoryOptions options;
  std::shared_ptr<ModelReaper> reaper = std::make_shared<ModelReaper>();

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, Versions, std::less<>> models;
  std::uint64_t uses = 0;
  std::deque<std::shared_ptr<Job>> jobs;
  std::shared_ptr<Job> running;         // null: the loader waits
  std::uint64_t numbers = 0;            // given to those who wait
  std::map<std::uint64_t, Done> asked;  // by those who are not answered yet
  std::string list_problem;             // why the sources could not be listed, as it was logged; the loader's alone
  bool ended = false;
  bool loading_ended = false;  // the loader is past its last job
  std::thread loader;
  TimeLimits limits;  // last: it uses the rest

  // Under the lock.
  static ModelActions apply(Entry& entry, ModelEvent event, Aftermath& after) {
    const ModelTransition transition = next(entry.state, event);
    entry.state = transition.state;
    if (transition.actions.drop_model) after.dropped.push_back(std::move(entry.model));
    if (transition.actions.fail_waiters) after.failed.splice(after.failed.end(), entry.waiters);
    if (transition.actions.load) entry.is_restore_late = false;
    return transition.actions;
  }

  // Null where there is none. Under the lock.
  Entry* entry_of(std::string_view name, const std::string& version) {
    const auto model = models.find(name);
    if (model == models.end()) return nullptr;
    const auto found = model->second.find(version);
    return found == model->second.end() ? nullptr : &found->second;
  }

  // Under the lock.
  Entry& entry_for_source(const ModelSource& source) {
    Entry& entry = models[source.name][source.version];
    entry.source = source;
    return entry;
  }

  // Ends one who has waited for a model for as long as for its answer: its device may hang, and the load with it.
  void give_up(const std::string& name, const std::string& version, std::uint64_t number) {
    std::list<Waiter> late;
    {
      const std::lock_guard lock(mutex);
      Entry* entry = entry_of(name, version);
      if (entry == nullptr) return;
      const auto waiter = std::ranges::find(entry->waiters, number, &Waiter::number);
      if (waiter == entry->waiters.end()) return;
      late.splice(late.end(), entry->waiters, waiter);
      if (entry->state == ModelState::restoring) entry->is_restore_late = true;
    }
    fail_all(late, Error(ErrorCode::deadline_exceeded, fmt::format("model '{}' is still being loaded", name)));
  }

  void answer(std::uint64_t number, const std::optional<Error>& failure) {
    Done done;
    {
      const std::lock_guard lock(mutex);
      const auto found = asked.find(number);
      if (found == asked.end()) return;
      done = std::move(found->second);
      asked.erase(found);
    }
    call(done, failure);
  }

  // Puts the job into the loader's queue, or joins one that waits there and does the same. Under the lock.
  Job& enqueue(Job::Kind kind, std::string_view name, std::string_view version) {
    for (const auto& job : jobs) {
      if (job->kind == kind && job->name == name && job->version == version) return *job;
    }
    jobs.push_back(std::make_shared<Job>(
        Job{.kind = kind, .name = std::string(name), .version = std::string(version), .askers = {}}));
    changed.notify_all();
    return *jobs.back();
  }

  // Under the lock.
  std::uint64_t add_asker(Job& job, Done done) {
    const std::uint64_t number = ++numbers;
    asked.emplace(number, std::move(done));
    job.askers.push_back(number);
    return number;
  }

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return ended || !jobs.empty(); });
      if (ended) {
        loading_ended = true;
        changed.notify_all();
        return;
      }
      running = std::move(jobs.front());
      jobs.pop_front();
      const std::shared_ptr<Job> job = running;
      lock.unlock();
      std::optional<Error> failure = failure_of([&] { perform(*job); });
      if (failure) failure = for_clients(*failure);
      for (const std::uint64_t asker : job->askers) answer(asker, failure);
      lock.lock();
      running.reset();
    }
  }

  void perform(Job& job) {
    std::optional<Error> failure;
    switch (job.kind) {
      case Job::Kind::load:
        failure = load_named(job);
        break;
      case Job::Kind::restore:
        restore(job);
        break;
      case Job::Kind::refresh:
        failure = refresh_all();
        break;
    }
    if (failure) throw Error(*failure);
  }

  [[nodiscard]] std::string names_text() const {
    std::vector<std::string> names;
    for (const auto& [name, versions] : models) names.push_back(name);
    return join(names);
  }

  [[nodiscard]] Error unknown(std::string_view name) const {
    return {ErrorCode::not_found, fmt::format("there is no model '{}'; models: {}", name.substr(0, 80), names_text())};
  }

  // Null where there is none. Error usage where there are several. Under the lock.
  Entry* entry_of_alias(std::string_view requested) {
    std::vector<AliasedVersion> aliased;
    std::vector<Entry*> entries;
    for (auto& [name, versions] : models) {
      for (auto& [version, entry] : versions) {
        aliased.push_back({name, version, &entry.aliases()});
        entries.push_back(&entry);
      }
    }
    const AliasedVersion* found = find_alias(aliased, requested);
    return found == nullptr ? nullptr : entries[static_cast<std::size_t>(found - aliased.data())];
  }

  // The name of the model of which all versions are to be loaded or unloaded; under the lock.
  std::string name_of_all(std::string_view requested) {
    if (models.contains(requested)) return std::string(requested);
    const Entry* entry = entry_of_alias(requested);
    if (entry == nullptr) return std::string(requested);
    const std::string& name = entry->source.name;
    if (models.find(name)->second.size() == 1) return name;
    throw Error(ErrorCode::usage, fmt::format("'{}' is version {} of model '{}', whose versions are loaded and "
                                              "unloaded together: use the name '{}'",
                                              requested.substr(0, 80), entry->source.version, name, name));
  }

  // The entry that a request means; under the lock.
  Entry& entry_for(std::string_view name, std::string_view version) {
    const auto found = models.find(name);
    if (found == models.end()) {
      Entry* aliased = entry_of_alias(name);
      if (aliased == nullptr) throw unknown(name);
      if (version.empty() || version == aliased->source.version) return *aliased;
      throw Error(ErrorCode::not_found,
                  fmt::format("'{}' is version {} of model '{}', and not version '{}'", name.substr(0, 80),
                              aliased->source.version, aliased->source.name, version.substr(0, 40)));
    }
    Versions& versions = found->second;
    if (!version.empty()) {
      const auto exact = versions.find(std::string(version));
      if (exact != versions.end()) return exact->second;
      std::vector<std::string> there;
      for (const auto& [known, entry] : versions) there.push_back(known);
      throw Error(ErrorCode::not_found,
                  fmt::format("model '{}' has no version '{}'; there is {}", name, version.substr(0, 40), join(there)));
    }
    for (auto place = versions.rbegin(); place != versions.rend(); ++place) {
      if (is_available(place->second.state)) return place->second;
    }
    return versions.rbegin()->second;
  }

  static Error unready(const Entry& entry) {
    const std::string& name = entry.source.name;
    const auto not_yet = [](const std::string& message) { return Error(ErrorCode::provider_unavailable, message); };
    switch (entry.state) {
      case ModelState::queued:
      case ModelState::loading:
      case ModelState::restore_queued:
      case ModelState::restoring:
        return not_yet(fmt::format("model '{}' is being loaded", name));
      case ModelState::evicted:
        return not_yet(entry.failure ? fmt::format("model '{}' could not be loaded again", name)
                                     : fmt::format("model '{}' was unloaded to make room", name));
      case ModelState::failed:
        return not_yet(fmt::format("model '{}' could not be loaded", name));
      case ModelState::unloaded:
      case ModelState::unloading:
      case ModelState::ready:
      case ModelState::reloading:
        break;
    }
    return {ErrorCode::not_found, fmt::format("model '{}' is not loaded", name)};
  }

  // Under the lock.
  void note_failure(Entry& entry, const Error& failure) const {
    entry.reason = for_clients(failure).message();
    entry.failure = failure.code();
    ++entry.failures;
    entry.retry_at = Clock::now() + retry_delay(options.first_retry_delay, entry.failures);
  }

  // Under the lock.
  void install(Entry& entry, const std::shared_ptr<ServedModel>& loaded,
               const std::shared_ptr<ModelDescription>& description, std::uint64_t grown_bytes, Aftermath& after) {
    if (entry.statistics) loaded->continue_statistics(entry.statistics);
    entry.statistics = loaded->shared_statistics();
    entry.model = loaded;
    entry.description = description;
    description->statistics = entry.statistics;
    entry.reason.clear();
    entry.failure.reset();
    entry.failures = 0;
    entry.time_limit = loaded->options().timeout;
    entry.memory_bytes = std::max(loaded->runtime().info().size_bytes, grown_bytes);
    entry.last_use = ++uses;
    make_room(entry, after);
  }

  // Loads the source where the event has it so, and puts it in the place of what was there. On the loader's thread,
  // without the lock. `is_reported`: the caller reports a failure, so that the log need not.
  std::optional<Error> load_source(const ModelSource& source, ModelEvent event, bool is_reported = false) {
    Aftermath after;
    {
      const std::lock_guard lock(mutex);
      if (ended) return Error(ErrorCode::interrupted, "the server is going down");
      if (!apply(entry_for_source(source), event, after).load) return std::nullopt;
    }
    std::string fingerprint;
    std::shared_ptr<ServedModel> loaded;
    std::shared_ptr<ModelDescription> description;
    const std::uint64_t before = resident_bytes();
    std::optional<Error> failure = failure_of([&] {
      if (source.fingerprint) fingerprint = source.fingerprint();
      loaded = ModelReaper::adopt(reaper, source.load());
      description = describe(*loaded);
    });
    if (!failure && !description) failure = Error(ErrorCode::resource_exhausted, "out of memory");
    const std::uint64_t size = resident_bytes();
    std::list<Waiter> served;
    bool is_new_reason = true, is_wanted = true;
    {
      const std::lock_guard lock(mutex);
      Entry* entry = entry_of(source.name, source.version);
      if (entry == nullptr) return Error(ErrorCode::interrupted, "the server is going down");
      entry->fingerprint = fingerprint;
      if (failure) {
        is_wanted = entry->state != ModelState::unloading;
        is_new_reason = entry->reason != for_clients(*failure).message();
        if (is_wanted) note_failure(*entry, *failure);
        apply(*entry, ModelEvent::load_failed, after);
      } else {
        const ModelActions actions = apply(*entry, ModelEvent::load_succeeded, after);
        is_wanted = actions.install;
        if (actions.install) {
          served.swap(entry->waiters);
          entry->model_aliases = source.aliases;
          install(*entry, loaded, description, size > before ? size - before : 0, after);
        }
      }
    }
    after.dropped.clear();
    if (failure) {
      if (is_reported || !is_wanted || !is_new_reason) {
        log::debug("{} is not loaded: {}", label_of(source), failure->message());
      } else {
        log::warning("{}: {}", label_of(source), failure->message());
      }
      fail_all(after.failed, for_clients(*failure));
      return failure;
    }
    if (!is_wanted) {
      return Error(ErrorCode::interrupted, fmt::format("model '{}' was unloaded before it was loaded", source.name));
    }
    log::info("{} is ready: {}", label_of(source), to_line(loaded->runtime().verdict()));
    for (const Waiter& waiter : served) {
      const auto unanswered = failure_of([&] { waiter.use(loaded); });
      if (unanswered) call(waiter.fail, for_clients(*unanswered));
    }
    return std::nullopt;
  }

  // Evicts what was used least recently until the rest fits beside `kept`. Under the lock.
  void make_room(const Entry& kept, Aftermath& after) {
    if (options.memory_budget_bytes == 0) return;
    for (;;) {
      std::uint64_t total = 0;
      Entry* oldest = nullptr;
      for (auto& [name, versions] : models) {
        for (auto& [version, entry] : versions) {
          if (!is_serving(entry.state)) continue;
          total += entry.memory_bytes;
          if (&entry == &kept || entry.source.pinned) continue;
          if (oldest == nullptr || entry.last_use < oldest->last_use) oldest = &entry;
        }
      }
      if (total <= options.memory_budget_bytes) return;
      if (oldest == nullptr) {
        log::warning("the models that must stay need {} bytes, the budget is {}", total, options.memory_budget_bytes);
        return;
      }
      log::info("{} is unloaded to make room", label_of(oldest->source));
      apply(*oldest, ModelEvent::eviction, after);
      oldest->reason = "unloaded to make room; the next request loads it again";
    }
  }

  // Logs once why the sources cannot be listed, and when they can be again. On the loader's thread.
  void note_list(const std::optional<Error>& failure) {
    const std::string problem = failure ? failure->message() : "";
    if (problem == list_problem) return;
    list_problem = problem;
    if (failure) {
      log::warning("the models to serve cannot be listed, and those that are served go on: {}", problem);
    } else {
      log::info("the models to serve can be listed again");
    }
  }

  // The name of the model that the request means among these sources.
  std::string name_among(const std::vector<ModelSource>& there, const std::string& requested) {
    {
      const std::lock_guard lock(mutex);
      if (models.contains(requested)) return requested;
    }
    if (std::ranges::find(there, requested, &ModelSource::name) != there.end()) return requested;
    std::vector<AliasedVersion> aliased;
    for (const ModelSource& source : there) aliased.push_back({source.name, source.version, &source.aliases});
    const AliasedVersion* found = find_alias(aliased, requested);
    return found == nullptr ? requested : std::string(found->name);
  }

  // Those of the model, whose own name `name` becomes, or where the sources cannot be listed its last ones. Throws that
  // failure where there are none.
  std::vector<ModelSource> sources_of(std::string& name, bool& are_current) {
    std::vector<ModelSource> found;
    const std::optional<Error> failure = failure_of([&] { found = sources(); });
    note_list(failure);
    are_current = !failure;
    if (!failure) {
      name = name_among(found, name);
      std::erase_if(found, [&](const ModelSource& source) { return source.name != name; });
      return found;
    }
    const std::lock_guard lock(mutex);
    const auto known = models.find(name);
    if (known == models.end()) throw Error(*failure);
    for (const auto& [version, entry] : known->second) found.push_back(entry.source);
    return found;
  }

  std::optional<Error> load_named(const Job& job) {
    bool are_current = false;
    std::string name = job.name;
    const std::vector<ModelSource> wanted = sources_of(name, are_current);
    std::optional<Error> failure;
    for (const ModelSource& source : wanted) {
      {
        const std::lock_guard lock(mutex);
        if (job.is_cancelled) return failure;
      }
      std::optional<Error> one = load_source(source, ModelEvent::load_started);
      if (one && !failure) failure = std::move(one);
    }
    if (are_current) drop_vanished(wanted, &name);
    if (!wanted.empty()) return failure;
    Aftermath after;
    const std::lock_guard lock(mutex);
    Error gone = unknown(name);
    const auto known = models.find(name);
    if (known == models.end()) return gone;
    for (auto& [version, entry] : known->second) apply(entry, ModelEvent::load_failed, after);
    return gone;
  }

  void restore(const Job& job) {
    ModelSource source;
    {
      const std::lock_guard lock(mutex);
      const Entry* entry = entry_of(job.name, job.version);
      if (entry == nullptr) return;
      source = entry->source;
    }
    (void)load_source(source, ModelEvent::restore_started);
  }

  // There are versions to take the place of others, and none of them is served yet.
  static bool awaits_successor(const Versions& versions, const std::set<std::string_view>& successors) {
    return !successors.empty() && std::ranges::none_of(versions, [&](const auto& version) {
      return successors.contains(version.first) &&
             (is_available(version.second.state) || version.second.state == ModelState::unloaded);
    });
  }

  // Forgets versions that are no longer among the sources, of one model or of all; but those that are served go on
  // until one that is among them is. On the loader's thread, between loads.
  void drop_vanished(const std::vector<ModelSource>& there, const std::string* only) {
    std::map<std::string_view, std::set<std::string_view>> known;
    for (const ModelSource& source : there) known[source.name].insert(source.version);
    std::vector<Entry> dropped;
    std::unique_lock lock(mutex);
    for (auto model = models.begin(); model != models.end();) {
      Versions& versions = model->second;
      const auto named = known.find(model->first);
      const std::set<std::string_view> successors = named == known.end() ? std::set<std::string_view>() : named->second;
      const bool keeps_served = awaits_successor(versions, successors);
      for (auto version = versions.begin(); version != versions.end();) {
        const bool stays = (only != nullptr && model->first != *only) || successors.contains(version->first) ||
                           (keeps_served && is_available(version->second.state));
        if (stays) {
          ++version;
          continue;
        }
        dropped.push_back(std::move(version->second));
        version = versions.erase(version);
      }
      model = versions.empty() ? models.erase(model) : std::next(model);
    }
    lock.unlock();
    for (const Entry& entry : dropped) {
      fail_all(entry.waiters,
               Error(ErrorCode::not_found, fmt::format("model '{}' is no longer there", entry.source.name)));
    }
  }

  std::optional<Error> refresh_all() {
    std::vector<ModelSource> there;
    std::optional<Error> failure = failure_of([&] { there = sources(); });
    note_list(failure);
    if (failure) return failure;
    for (const ModelSource& source : there) {
      std::optional<Error> one;
      const auto unread = failure_of([&] {
        if (has_changed(source)) one = load_source(source, ModelEvent::refresh_started);
      });
      if (!failure) failure = unread ? unread : one;
    }
    drop_vanished(there, nullptr);
    return failure;
  }

  bool has_changed(const ModelSource& source) {
    std::string last;
    {
      const std::lock_guard lock(mutex);
      Entry* entry = entry_of(source.name, source.version);
      if (entry == nullptr) return true;
      // A restore, or a load that is requested, uses what the list says now.
      entry->source = source;
      if (entry->state == ModelState::unloaded || is_on_demand(entry->state)) return false;
      if (entry->failure && !is_permanent(*entry->failure) && !entry->is_backing_off(Clock::now())) return true;
      last = entry->fingerprint;
    }
    return source.fingerprint && source.fingerprint() != last;
  }
};

ModelRepository::ModelRepository(Sources sources, const RepositoryOptions& options)
    : state_(std::make_unique<State>()) {
  state_->sources = std::move(sources);
  state_->options = options;
  state_->loader = std::thread([state = state_.get()] { state->work(); });
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
    const std::lock_guard lock(state_->mutex);
    for (const ModelSource& source : all) state_->entry_for_source(source);
  }
  for (const ModelSource& source : all) {
    const auto failure = state_->load_source(source, ModelEvent::load_started, source.required);
    if (!failure) continue;
    if (source.required) throw all.size() == 1 ? *failure : failure->within(fmt::format("model '{}'", source.name));
  }
}

void ModelRepository::load(std::string name, Deadline deadline, Done done) {
  State& state = *state_;
  if (state.options.load_timeout.count() != 0) {
    deadline = std::min(deadline.value_or(Clock::time_point::max()), Clock::now() + state.options.load_timeout);
  }
  std::uint64_t number = 0;
  Aftermath after;
  {
    std::unique_lock lock(state.mutex);
    std::optional<Error> refusal;
    if (state.ended) {
      refusal = Error(ErrorCode::interrupted, "the server is going down");
    } else {
      refusal = failure_of([&] { name = state.name_of_all(name); });
    }
    if (refusal) {
      lock.unlock();
      done(refusal);
      return;
    }
    number = state.add_asker(state.enqueue(Job::Kind::load, name, ""), std::move(done));
    const auto known = state.models.find(name);
    if (known != state.models.end()) {
      for (auto& [version, entry] : known->second) State::apply(entry, ModelEvent::load_requested, after);
    }
  }
  if (!deadline) return;
  state.limits.at(*deadline, [&state, number, name = std::move(name)] {
    state.answer(number, Error(ErrorCode::deadline_exceeded,
                               fmt::format("model '{}' is not loaded yet: its load goes on", name.substr(0, 80))));
  });
}

void ModelRepository::unload(std::string_view requested, const Done& done) {
  State& state = *state_;
  std::string name(requested);
  Aftermath after;
  std::vector<std::uint64_t> overtaken;
  std::optional<Error> failure;
  {
    const std::lock_guard lock(state.mutex);
    failure = failure_of([&] { name = state.name_of_all(requested); });
    const auto found = state.models.find(name);
    if (found == state.models.end()) {
      if (!failure) failure = state.unknown(name);
    } else {
      for (auto& [version, entry] : found->second) {
        State::apply(entry, ModelEvent::unload_requested, after);
        entry.reason = "unloaded";
        entry.failure.reset();
        entry.failures = 0;
      }
    }
    if (state.running && state.running->is_about(name)) {
      state.running->is_cancelled = true;
      overtaken = state.running->askers;
    }
    std::erase_if(state.jobs, [&](const std::shared_ptr<Job>& job) {
      if (!job->is_about(name)) return false;
      overtaken.insert(overtaken.end(), job->askers.begin(), job->askers.end());
      return true;
    });
  }
  after.dropped.clear();
  fail_all(after.failed, Error(ErrorCode::not_found, fmt::format("model '{}' was unloaded", name.substr(0, 80))));
  for (const std::uint64_t number : overtaken) {
    state.answer(number, Error(ErrorCode::interrupted,
                               fmt::format("model '{}' was unloaded before it was loaded", name.substr(0, 80))));
  }
  done(failure);
}

void ModelRepository::refresh(Done done) {
  const std::lock_guard lock(state_->mutex);
  Job& job = state_->enqueue(Job::Kind::refresh, "", "");
  if (done) state_->add_asker(job, std::move(done));
}

std::vector<std::shared_ptr<ServedModel>> ModelRepository::models() const {
  std::vector<std::shared_ptr<ServedModel>> ready;
  const std::lock_guard lock(state_->mutex);
  for (const auto& [name, versions] : state_->models) {
    for (const auto& [version, entry] : versions) {
      if (entry.model) ready.push_back(entry.model);
    }
  }
  return ready;
}

std::vector<std::shared_ptr<const ModelDescription>> ModelRepository::descriptions() const {
  std::vector<std::shared_ptr<const ModelDescription>> all;
  const std::lock_guard lock(state_->mutex);
  for (const auto& [name, versions] : state_->models) {
    for (const auto& [version, entry] : versions) {
      if (is_available(entry.state)) all.push_back(entry.description);
    }
  }
  return all;
}

std::string ModelRepository::name_of(std::string_view requested) const {
  const std::lock_guard lock(state_->mutex);
  std::string name(requested);
  if (state_->models.contains(requested)) return name;
  (void)failure_of([&] {
    if (const Entry* entry = state_->entry_of_alias(requested)) name = entry->source.name;
  });
  return name;
}

std::vector<std::string> ModelRepository::names() const {
  std::vector<std::string> names;
  const std::lock_guard lock(state_->mutex);
  for (const auto& [name, versions] : state_->models) {
    if (std::ranges::any_of(versions, [](const auto& version) { return is_available(version.second.state); })) {
      names.push_back(name);
    }
  }
  return names;
}

std::vector<std::string> ModelRepository::versions(std::string_view name) const {
  std::vector<std::string> there;
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->models.find(name);
  if (found == state_->models.end()) return there;
  for (const auto& [version, entry] : found->second) {
    if (is_available(entry.state)) there.push_back(version);
  }
  return there;
}

std::vector<ModelStatus> ModelRepository::index() const {
  std::vector<ModelStatus> all;
  std::vector<std::shared_ptr<ServedModel>> serving;
  {
    const std::lock_guard lock(state_->mutex);
    for (const auto& [name, versions] : state_->models) {
      for (const auto& [version, entry] : versions) {
        all.push_back({name, version, entry.state, entry.reason, entry.source.required, entry.failure.has_value()});
        serving.push_back(entry.model);
      }
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].is_stuck = serving[i] && serving[i]->scheduler().counts().overdue_runs != 0;
  }
  return all;
}

std::shared_ptr<ServedModel> ModelRepository::find(std::string_view name, std::string_view version) const {
  const std::lock_guard lock(state_->mutex);
  const Entry& entry = state_->entry_for(name, version);
  if (!entry.model) throw State::unready(entry);
  return entry.model;
}

std::shared_ptr<ServedModel> ModelRepository::find_available(std::string_view name, std::string_view version) const {
  const std::lock_guard lock(state_->mutex);
  const Entry& entry = state_->entry_for(name, version);
  const bool may_be_restored = is_on_demand(entry.state) && !entry.is_backing_off(Clock::now());
  if (!entry.model && !may_be_restored) throw State::unready(entry);
  return entry.model;
}

std::shared_ptr<const ModelDescription> ModelRepository::description(std::string_view name,
                                                                     std::string_view version) const {
  const std::lock_guard lock(state_->mutex);
  const Entry& entry = state_->entry_for(name, version);
  if (!is_available(entry.state)) throw State::unready(entry);
  return entry.description;
}

std::shared_ptr<ServedModel> ModelRepository::use_ready(std::string_view name, std::string_view version) {
  const std::lock_guard lock(state_->mutex);
  Entry& entry = state_->entry_for(name, version);
  if (entry.model) entry.last_use = ++state_->uses;
  return entry.model;
}

void ModelRepository::use(std::string_view name, std::string_view version, const Use& use, const Fail& fail,
                          Deadline deadline) {
  if (const std::shared_ptr<ServedModel> model = use_ready(name, version)) {
    use(model);
    return;
  }
  State& state = *state_;
  Clock::time_point limit = deadline.value_or(Clock::time_point::max());
  std::string found_name, found_version;
  std::uint64_t number = 0;
  std::shared_ptr<ServedModel> loaded;  // in between
  {
    const std::lock_guard lock(state.mutex);
    Entry& entry = state.entry_for(name, version);
    loaded = entry.model;
    if (!loaded) {
      const Clock::time_point now = Clock::now();
      if (!is_on_demand(entry.state) || entry.is_restore_late) throw State::unready(entry);
      if (entry.state == ModelState::evicted && entry.is_backing_off(now)) {
        throw Error(ErrorCode::provider_unavailable,
                    fmt::format("{}: {}", State::unready(entry).message(), entry.reason));
      }
      Aftermath none;
      if (State::apply(entry, ModelEvent::restore_requested, none).queue_restore) {
        state.enqueue(Job::Kind::restore, entry.source.name, entry.source.version);
      }
      number = ++state.numbers;
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

bool ModelRepository::close(Clock::time_point deadline) {
  State& state = *state_;
  {
    const std::lock_guard lock(state.mutex);
    state.ended = true;
    state.jobs.clear();
  }
  state.changed.notify_all();
  state.limits.end();
  std::map<std::string, Versions, std::less<>> dropped;
  std::map<std::uint64_t, Done> unanswered;
  bool loading_ended = false;
  {
    std::unique_lock lock(state.mutex);
    // A device may hang while a model is loaded for it, and nothing can stop that.
    loading_ended = state.changed.wait_until(lock, deadline, [&] { return state.loading_ended; });
    dropped.swap(state.models);
    unanswered.swap(state.asked);
  }
  if (loading_ended && state.loader.joinable()) state.loader.join();
  const Error interrupted(ErrorCode::interrupted, "the server is going down");
  for (const auto& [number, done] : unanswered) call(done, std::optional(interrupted));
  for (auto& [name, versions] : dropped) {
    for (auto& [version, entry] : versions) {
      if (entry.model) entry.model->scheduler().abandon();
      fail_all(entry.waiters, interrupted);
    }
  }
  dropped.clear();
  return state.reaper->wait_for_all(deadline) && loading_ended;
}

}  // namespace gpux::server

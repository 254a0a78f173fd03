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
#include "server/time_limits.h"

namespace gpux::server {
namespace {

using Clock = std::chrono::steady_clock;

// Models end here: the last to let go of one may be a thread of its own scheduler, which cannot wait for itself.
class Reaper {
 public:
  Reaper() : thread_([this] { work(); }) {}

  ~Reaper() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  Reaper(const Reaper&) = delete;
  Reaper& operator=(const Reaper&) = delete;

  static std::shared_ptr<ServedModel> adopt(const std::shared_ptr<Reaper>& reaper, std::unique_ptr<ServedModel> model) {
    {
      const std::lock_guard lock(reaper->mutex_);
      ++reaper->alive_;
    }
    return {model.release(), [reaper](ServedModel* dead) { reaper->take(dead); }};
  }

  bool wait_for_all(Clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, deadline, [&] { return alive_ == 0; });
  }

 private:
  void take(ServedModel* dead) {
    {
      const std::lock_guard lock(mutex_);
      dead_.emplace_back(dead);
    }
    changed_.notify_all();
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return ended_ || !dead_.empty(); });
      if (dead_.empty()) return;
      std::vector<std::unique_ptr<ServedModel>> dead;
      dead.swap(dead_);
      lock.unlock();
      const std::size_t count = dead.size();
      dead.clear();
      lock.lock();
      alive_ -= count;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<ServedModel>> dead_;
  std::size_t alive_ = 0;
  bool ended_ = false;
  std::thread thread_;  // last: it uses the rest
};

// For those who ask over the network: what lies where on this machine is not theirs to know.
Error without_folders(const Error& error) {
  const std::string message = error.message();
  std::string out;
  for (std::size_t begin = 0; begin < message.size();) {
    const std::size_t end = std::min(message.find_first_of(" '\"", begin), message.size());
    const std::string_view word(message.data() + begin, end - begin);
    const std::size_t slash = word.find('/');
    const bool is_path = slash != std::string_view::npos &&
                         (slash == 0 || word.substr(0, slash).find_first_not_of('.') == std::string_view::npos);
    out += is_path ? word.substr(word.rfind('/') + 1) : word;
    if (end < message.size()) out += message[end];
    begin = end + 1;
  }
  return {error.code(), out};
}

struct Waiter {
  ModelRepository::Use use;
  ModelRepository::Fail fail;
  std::uint64_t number = 0;
};

struct Entry {
  ModelSource source;
  ModelState state = ModelState::unloaded;
  std::string reason;
  std::string fingerprint;  // of what is loaded, or failed to be
  std::shared_ptr<ServedModel> model;
  std::shared_ptr<ModelStatistics> statistics;          // of all models that stood here, one after the other
  std::optional<std::chrono::milliseconds> time_limit;  // of a request, as the model had it last
  std::uint64_t memory_bytes = 0;
  std::uint64_t last_use = 0;  // counts uses of the repository
  bool unloaded_on_request = false;
  bool reload_queued = false;  // it was evicted and has been asked for
  std::list<Waiter> waiters;   // for it to come back from eviction
};

struct VersionLess {
  bool operator()(const std::string& left, const std::string& right) const noexcept {
    return version_less(left, right);
  }
};

using Versions = std::map<std::string, Entry, VersionLess>;

}  // namespace

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
  std::shared_ptr<Reaper> reaper = std::make_shared<Reaper>();

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, Versions, std::less<>> models;
  std::uint64_t uses = 0;
  std::deque<std::function<void()>> tasks;
  std::uint64_t numbers = 0;            // given to those who wait
  std::map<std::uint64_t, Done> asked;  // by those who are not answered yet
  bool ended = false;
  bool loading_ended = false;  // the loader is past its last task
  std::thread loader;
  TimeLimits limits;  // last: it uses the rest

  // Ends one who has waited for a model for as long as for its answer: its device may hang, and the load with it.
  void give_up(const std::string& name, const std::string& version, std::uint64_t number) {
    std::list<Waiter> late;
    {
      const std::lock_guard lock(mutex);
      const auto model = models.find(name);
      if (model == models.end()) return;
      const auto found = model->second.find(version);
      if (found == model->second.end()) return;
      std::list<Waiter>& waiters = found->second.waiters;
      const auto waiter = std::ranges::find(waiters, number, &Waiter::number);
      if (waiter == waiters.end()) return;
      late.splice(late.end(), waiters, waiter);
    }
    late.front().fail(Error(ErrorCode::deadline_exceeded, fmt::format("model '{}' is still being loaded", name)));
  }

  // Does it on the loader's thread, and answers: with what came of it, or at the deadline, while it goes on.
  void ask(std::function<std::optional<Error>()> task, std::optional<Clock::time_point> deadline, std::string late,
           Done done) {
    if (options.load_timeout.count() != 0) {
      deadline = std::min(deadline.value_or(Clock::time_point::max()), Clock::now() + options.load_timeout);
    }
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(mutex);
      number = ++numbers;
      asked.emplace(number, std::move(done));
    }
    if (deadline) {
      limits.at(*deadline,
                [this, number, late = std::move(late)] { answer(number, Error(ErrorCode::deadline_exceeded, late)); });
    }
    enqueue([this, number, task = std::move(task)] {
      const std::optional<Error> failure = task();
      answer(number, failure ? std::optional(without_folders(*failure)) : std::nullopt);
    });
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
    done(failure);
  }

  void enqueue(std::function<void()> task) {
    {
      const std::lock_guard lock(mutex);
      tasks.push_back(std::move(task));
    }
    changed.notify_all();
  }

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return ended || !tasks.empty(); });
      if (ended) {
        loading_ended = true;
        changed.notify_all();
        return;
      }
      const std::function<void()> task = std::move(tasks.front());
      tasks.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  [[nodiscard]] std::string names_text() const {
    std::vector<std::string> names;
    for (const auto& [name, versions] : models) names.push_back(name);
    return join(names);
  }

  [[noreturn]] void refuse_unknown(std::string_view name) const {
    throw Error(ErrorCode::not_found,
                fmt::format("there is no model '{}'; models: {}", name.substr(0, 80), names_text()));
  }

  // The entry that a request means; under the lock.
  Entry& entry_for(std::string_view name, std::string_view version) {
    const auto found = models.find(name);
    if (found == models.end()) refuse_unknown(name);
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
      if (place->second.model || place->second.state == ModelState::evicted) return place->second;
    }
    return versions.rbegin()->second;
  }

  static Error unready(const Entry& entry) {
    switch (entry.state) {
      case ModelState::loading:
        return {ErrorCode::provider_unavailable, fmt::format("model '{}' is being loaded", entry.source.name)};
      case ModelState::evicted:
        return {ErrorCode::provider_unavailable,
                fmt::format("model '{}' was unloaded to make room", entry.source.name)};
      case ModelState::failed:
        return {ErrorCode::provider_unavailable, fmt::format("model '{}' could not be loaded", entry.source.name)};
      case ModelState::unloaded:
      case ModelState::ready:
        break;
    }
    return {ErrorCode::not_found, fmt::format("model '{}' is not loaded", entry.source.name)};
  }

  // Loads one source and puts it in the place of what was there. On the loader's thread, without the lock. `told`: the
  // caller tells its user of a failure, so that the log does not.
  std::optional<Error> load_source(const ModelSource& source, bool told = false) {
    std::string fingerprint;
    {
      const std::lock_guard lock(mutex);
      Entry& entry = models[source.name][source.version];
      entry.source = source;
      entry.reload_queued = false;
      if (!entry.model) entry.state = ModelState::loading;
    }
    std::shared_ptr<ServedModel> loaded;
    std::optional<Error> failure;
    const std::uint64_t before = resident_bytes();
    try {
      if (source.fingerprint) fingerprint = source.fingerprint();
      loaded = Reaper::adopt(reaper, source.load());
    } catch (const Error& error) {
      failure = error;
    } catch (const std::exception& error) {
      failure = Error(ErrorCode::internal, error.what());
    }
    const std::uint64_t after = resident_bytes();
    std::list<Waiter> waiters;
    std::vector<std::shared_ptr<ServedModel>> dropped;  // let go without the lock
    {
      const std::lock_guard lock(mutex);
      Entry& entry = models[source.name][source.version];
      waiters.swap(entry.waiters);
      entry.fingerprint = fingerprint;
      if (failure) {
        entry.reason = without_folders(*failure).message();
        if (!entry.model) entry.state = ModelState::failed;
      } else {
        if (entry.statistics) loaded->continue_statistics(entry.statistics);
        entry.statistics = loaded->shared_statistics();
        dropped.push_back(std::move(entry.model));
        entry.model = loaded;
        entry.state = ModelState::ready;
        entry.reason.clear();
        entry.unloaded_on_request = false;
        entry.time_limit = loaded->options().timeout;
        entry.memory_bytes = std::max(loaded->runtime().info().size_bytes, after > before ? after - before : 0);
        entry.last_use = ++uses;
        make_room(entry, dropped);
      }
    }
    dropped.clear();
    if (failure && told) {
      log::debug("model {} {} is not loaded", source.name, source.version);
    } else if (failure) {
      log::warning("model {}{}{}: {}", source.name, source.version.empty() ? "" : " ", source.version,
                   failure->message());
    } else {
      log::info("model {} {} is ready: {}", source.name, source.version, to_line(loaded->runtime().verdict()));
    }
    for (const Waiter& waiter : waiters) {
      if (failure) {
        waiter.fail(without_folders(*failure));
      } else {
        waiter.use(loaded);
      }
    }
    return failure;
  }

  // Evicts what was used least lately until the rest fits beside `kept`. Under the lock.
  void make_room(const Entry& kept, std::vector<std::shared_ptr<ServedModel>>& dropped) {
    if (options.memory_budget_bytes == 0) return;
    for (;;) {
      std::uint64_t total = 0;
      Entry* oldest = nullptr;
      for (auto& [name, versions] : models) {
        for (auto& [version, entry] : versions) {
          if (!entry.model) continue;
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
      log::info("model {} {} is unloaded to make room", oldest->source.name, oldest->source.version);
      dropped.push_back(std::move(oldest->model));
      oldest->state = ModelState::evicted;
    }
  }

  std::optional<Error> load_named(const std::string& name) {
    try {
      std::optional<Error> failure;
      std::vector<ModelSource> wanted;
      for (ModelSource& source : sources()) {
        if (source.name == name) wanted.push_back(std::move(source));
      }
      if (wanted.empty()) {
        const std::lock_guard lock(mutex);
        refuse_unknown(name);
      }
      for (const ModelSource& source : wanted) {
        std::optional<Error> one = load_source(source);
        if (one && !failure) failure = std::move(one);
      }
      drop_vanished(wanted, &name);
      return failure;
    } catch (const Error& error) {
      return error;
    } catch (const std::exception& error) {
      return Error(ErrorCode::internal, error.what());
    }
  }

  // Served, or as soon as it is asked for.
  static bool is_served(const Entry& entry) { return entry.model || entry.state == ModelState::evicted; }

  // There are versions to take the place of others, and none of them is served yet.
  static bool awaits_successor(const Versions& versions, const std::set<std::string_view>& successors) {
    return !successors.empty() && std::ranges::none_of(versions, [&](const auto& version) {
      return successors.contains(version.first) && (is_served(version.second) || version.second.unloaded_on_request);
    });
  }

  // Forgets versions that are no longer among the sources, of one model or of all; but those that are served go on
  // until one that is among them is.
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
                           (keeps_served && is_served(version->second));
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
      const Error gone(ErrorCode::not_found, fmt::format("model '{}' is no longer there", entry.source.name));
      for (const Waiter& waiter : entry.waiters) waiter.fail(gone);
    }
  }

  std::optional<Error> unload_named(const std::string& name) {
    std::vector<std::shared_ptr<ServedModel>> dropped;
    const std::lock_guard lock(mutex);
    const auto found = models.find(name);
    if (found == models.end()) {
      return Error(ErrorCode::not_found,
                   fmt::format("there is no model '{}'; models: {}", name.substr(0, 80), names_text()));
    }
    for (auto& [version, entry] : found->second) {
      dropped.push_back(std::move(entry.model));
      entry.state = ModelState::unloaded;
      entry.reason = "unloaded";
      entry.unloaded_on_request = true;
    }
    return std::nullopt;
  }

  std::optional<Error> refresh_all() {
    try {
      const std::vector<ModelSource> there = sources();
      std::optional<Error> failure;
      for (const ModelSource& source : there) {
        if (!has_changed(source)) continue;
        std::optional<Error> one = load_source(source);
        if (one && !failure) failure = std::move(one);
      }
      drop_vanished(there, nullptr);
      return failure;
    } catch (const Error& error) {
      return error;
    } catch (const std::exception& error) {
      return Error(ErrorCode::internal, error.what());
    }
  }

  bool has_changed(const ModelSource& source) const {
    std::string last;
    {
      const std::lock_guard lock(mutex);
      const auto model = models.find(source.name);
      if (model == models.end()) return true;
      const auto version = model->second.find(source.version);
      if (version == model->second.end()) return true;
      const Entry& entry = version->second;
      if (entry.unloaded_on_request || entry.state == ModelState::evicted) return false;
      last = entry.fingerprint;
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
    const auto failure = state_->load_source(source, source.required);
    if (!failure) continue;
    if (source.required) throw all.size() == 1 ? *failure : failure->within(fmt::format("model '{}'", source.name));
  }
}

void ModelRepository::load(std::string name, std::optional<Clock::time_point> deadline, Done done) {
  const std::string late = fmt::format("model '{}' is not loaded yet: its load goes on", name.substr(0, 80));
  state_->ask([state = state_.get(), name = std::move(name)] { return state->load_named(name); }, deadline, late,
              std::move(done));
}

void ModelRepository::unload(std::string name, std::optional<Clock::time_point> deadline, Done done) {
  const std::string late =
      fmt::format("model '{}' is not unloaded yet: it will be when a load has ended", name.substr(0, 80));
  state_->ask([state = state_.get(), name = std::move(name)] { return state->unload_named(name); }, deadline, late,
              std::move(done));
}

void ModelRepository::refresh(Done done) {
  state_->enqueue([state = state_.get(), done = std::move(done)] { done(state->refresh_all()); });
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

std::vector<std::string> ModelRepository::names() const {
  std::vector<std::string> names;
  const std::lock_guard lock(state_->mutex);
  for (const auto& [name, versions] : state_->models) {
    const auto served = [](const auto& version) {
      return version.second.model != nullptr || version.second.state == ModelState::evicted;
    };
    if (std::any_of(versions.begin(), versions.end(), served)) names.push_back(name);
  }
  return names;
}

std::vector<std::string> ModelRepository::versions(std::string_view name) const {
  std::vector<std::string> there;
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->models.find(name);
  if (found == state_->models.end()) return there;
  for (const auto& [version, entry] : found->second) {
    if (entry.model || entry.state == ModelState::evicted) there.push_back(version);
  }
  return there;
}

std::vector<ModelStatus> ModelRepository::index() const {
  std::vector<ModelStatus> all;
  const std::lock_guard lock(state_->mutex);
  for (const auto& [name, versions] : state_->models) {
    for (const auto& [version, entry] : versions) {
      all.push_back({name, version, entry.state, entry.reason, entry.source.required});
    }
  }
  return all;
}

std::shared_ptr<ServedModel> ModelRepository::find(std::string_view name, std::string_view version) {
  const std::lock_guard lock(state_->mutex);
  Entry& entry = state_->entry_for(name, version);
  if (!entry.model) throw State::unready(entry);
  entry.last_use = ++state_->uses;
  return entry.model;
}

std::shared_ptr<ServedModel> ModelRepository::find_ready(std::string_view name, std::string_view version) {
  const std::lock_guard lock(state_->mutex);
  Entry& entry = state_->entry_for(name, version);
  if (entry.model) entry.last_use = ++state_->uses;
  return entry.model;
}

void ModelRepository::use(std::string_view name, std::string_view version, Use use, Fail fail) {
  ModelSource again;
  {
    std::unique_lock lock(state_->mutex);
    Entry& entry = state_->entry_for(name, version);
    if (entry.model) {
      entry.last_use = ++state_->uses;
      const std::shared_ptr<ServedModel> model = entry.model;
      lock.unlock();
      use(model);
      return;
    }
    if (entry.state != ModelState::evicted && entry.waiters.empty()) throw State::unready(entry);
    const std::uint64_t number = ++state_->numbers;
    entry.waiters.push_back({std::move(use), std::move(fail), number});
    if (entry.time_limit) {
      state_->limits.at(Clock::now() + *entry.time_limit,
                        [state = state_.get(), name = entry.source.name, version = entry.source.version, number] {
                          state->give_up(name, version, number);
                        });
    }
    if (entry.state != ModelState::evicted || entry.reload_queued) return;
    entry.reload_queued = true;
    again = entry.source;
  }
  state_->enqueue([state = state_.get(), source = std::move(again)] { (void)state->load_source(source); });
}

bool ModelRepository::close(Clock::time_point deadline) {
  State& state = *state_;
  {
    const std::lock_guard lock(state.mutex);
    state.ended = true;
    state.tasks.clear();
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
  for (const auto& [number, done] : unanswered) done(interrupted);
  for (auto& [name, versions] : dropped) {
    for (auto& [version, entry] : versions) {
      if (entry.model) entry.model->scheduler().abandon();
      for (const Waiter& waiter : entry.waiters) waiter.fail(interrupted);
    }
  }
  dropped.clear();
  return state.reaper->wait_for_all(deadline) && loading_ended;
}

}  // namespace gpux::server

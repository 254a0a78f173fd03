#include "isolation/remote_session.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error_number.h"
#include "base/log.h"
#include "base/spelling.h"
#include "base/start_thread.h"
#include "base/unique_fd.h"
#include "isolation/load_files.h"
#include "isolation/loaded_identity.h"
#include "isolation/message_socket.h"
#include "isolation/restart_delay.h"
#include "isolation/run_channels.h"
#include "isolation/shared_memory_budget.h"
#include "isolation/worker_process.h"
#include "onnx/stored_caches.h"
#include "ort/lost_device.h"

namespace gpux::isolation {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using Phase = WorkerStatus::State;

/// Wakes a thread that waits in poll().
class Event {
 public:
  Event() : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!descriptor_) throw Error(ErrorCode::resource_exhausted, "cannot create an event descriptor");
  }

  [[nodiscard]] int descriptor() const noexcept { return descriptor_.get(); }

  void set() const noexcept { (void)::eventfd_write(descriptor_.get(), 1); }

  void clear() const noexcept {
    eventfd_t count = 0;
    (void)::eventfd_read(descriptor_.get(), &count);
  }

 private:
  UniqueFd descriptor_;
};

/// One worker, from its start to its end.
struct Connection {
  Connection(std::uint64_t number_of_worker, const std::string& label, Sandbox sandbox)
      : number(number_of_worker), process(label, sandbox) {}

  const std::uint64_t number;

  WorkerProcess process;  ///< of the thread that supervises it; id() of all
  Clock::time_point started = Clock::now();
  SharedMemoryBudget results;              ///< of runs
  RunChannels channels{process, results};  ///< of all threads

  // Under the session's mutex.
  std::string kill_reason;    ///< why it is to be killed; empty: it is not
  std::string end;            ///< how it ended, as a sentence; empty: it has not
  std::size_t computing = 0;  ///< the limit that was sent; 0: none
};

/// A run that was stopped and has not returned.
struct StoppedRun {
  std::shared_ptr<Connection> connection;
  Clock::time_point deadline;  ///< its worker is killed then
};

// Waits until the socket has something, its other end is closed, or the event is set. True for the socket.
bool wait_for(int socket, const Event& event, std::optional<Clock::time_point> until) {
  int timeout_ms = -1;
  if (until) {
    const auto left = std::chrono::ceil<milliseconds>(*until - Clock::now()).count();
    constexpr decltype(left) longest = 3'600'000;
    timeout_ms = static_cast<int>(std::clamp<decltype(left)>(left, 0, longest));
  }
  std::array<pollfd, 2> watched{{{socket, POLLIN, 0}, {event.descriptor(), POLLIN, 0}}};
  const int ready = ::poll(watched.data(), watched.size(), timeout_ms);
  if (ready > 0 && watched[1].revents != 0) event.clear();
  return ready > 0 && watched[0].revents != 0;
}

void refuse_unsupported(const LoadOptions& options) {
  const auto refuse = [](const char* what) {
    throw Error(ErrorCode::usage, fmt::format("isolation 'process' does not support {}; accepted here: thread", what));
  };
  if (!options.profile.empty()) refuse("a profile of ONNX Runtime");
  if (!options.optimized_model.empty()) refuse("writing an optimized graph");
  if (options.sandbox != Sandbox::off && lower(options.provider) == "fastest") {
    throw Error(ErrorCode::usage,
                "provider 'fastest' starts programs that time each provider, which a sandbox refuses; accepted: the "
                "name of a provider, or sandbox off");
  }
}

}  // namespace

struct RemoteSession::State {
  State(const std::filesystem::path& model_file, std::string model_name, const LoadOptions& load_options,
        std::vector<SignatureEntry> outputs_of_model)
      : name(std::move(model_name)),
        options(load_options),
        outputs(std::move(outputs_of_model)),
        request(to_json(worker_load_of(model_file, load_options))),
        // Files of the store are never changed.
        files(load_options.map_weights ? std::vector<std::filesystem::path>()
                                       : files_of_load(model_file, load_options)) {}

  const std::string name;
  const LoadOptions options;
  std::vector<SignatureEntry> outputs;  ///< written before the first run
  const std::string request;            ///< of the load
  FileContents files;                   ///< of the model
  LoadReport report;                    ///< written before the first run
  SignatureEntry pooled;                ///< the output that LoadOptions::pooled_output adds; likewise
  LoadedIdentity identity;              ///< of the first load, with the files; of the thread that supervises
  Event event;                          ///< something for the thread to look at
  std::atomic<std::uint64_t> last_run = 0;
  std::uint64_t started_workers = 0;  ///< of the thread that supervises

  mutable std::mutex mutex;
  std::condition_variable_any changed;
  Phase phase = Phase::starting;
  std::shared_ptr<Connection> current;  ///< while it is ready
  bool has_loaded = false, ended = false;
  std::optional<Error> first_failure;  ///< of the first load: there is no second one
  int process_id = 0;
  std::uint64_t restarts = 0, lost_runs = 0, repeated_runs = 0;
  std::size_t computing = 0;  ///< 0: not limited
  unsigned failures = 0;      ///< in a row
  std::string last_end;
  Clock::time_point restart_at;
  std::map<std::uint64_t, StoppedRun> stopped_runs;

  std::thread supervisor;  // last: it uses the rest

  // Of runs.
  [[nodiscard]] const SignatureEntry& entry_of(std::size_t output) const;
  std::shared_ptr<Connection> wait_for_worker(const std::stop_token& stop, WorkerAbsence absence);
  std::optional<NamedValues> attempt(const std::shared_ptr<Connection>& connection, const NamedValues& inputs,
                                     const std::vector<std::size_t>& wanted, const ExpectedValues& expected,
                                     const std::stop_token& stop, RunTarget target = RunTarget::model,
                                     WorkerRun* ran = nullptr);
  std::optional<NamedValues> finish(const std::shared_ptr<Connection>& connection, std::unique_ptr<RunChannel> channel,
                                    std::uint64_t run, const ExpectedValues& expected, const std::stop_token& stop,
                                    WorkerRun* ran);
  void count_repeated();
  void stop_run(const std::shared_ptr<Connection>& connection, std::uint64_t channel, std::uint64_t run);
  std::string wait_for_end(Connection& connection);
  void limit_computing(Connection& connection) const;
  void replace(Connection& connection, const std::string& reason);
  bool renew(Connection& connection);

  // Of the thread that supervises the worker.
  void supervise();
  std::shared_ptr<Connection> start();
  LoadReport load(Connection& connection);
  void accept(LoadReport&& loaded);
  void watch(Connection& connection);
  std::optional<Clock::time_point> kill_overdue(Connection& connection);
  void note_end(const std::string& end, Clock::duration lived);
  bool wait_for_restart();
};

const SignatureEntry& RemoteSession::State::entry_of(std::size_t output) const {
  return output < outputs.size() ? outputs[output] : pooled;
}

// --- runs ------------------------------------------------------------------------------------------------------------

std::shared_ptr<Connection> RemoteSession::State::wait_for_worker(const std::stop_token& stop, WorkerAbsence absence) {
  std::unique_lock lock(mutex);
  if (absence == WorkerAbsence::wait) changed.wait(lock, stop, [&] { return phase != Phase::starting || ended; });
  if (ended) throw Error(ErrorCode::interrupted, "the model is being unloaded");
  if (phase == Phase::ready) {
    limit_computing(*current);
    return current;
  }
  if (!options.restart_worker) throw WorkerEnded(ErrorCode::internal, last_end);
  if (phase == Phase::starting) {
    const bool is_stopped = absence == WorkerAbsence::wait;
    throw Error(is_stopped ? ErrorCode::interrupted : ErrorCode::provider_unavailable,
                fmt::format("{}; it is being started again", last_end));
  }
  const auto left = std::chrono::ceil<milliseconds>(restart_at - Clock::now());
  throw Error(ErrorCode::provider_unavailable,
              fmt::format("{}; it is started again in {} ms", last_end, std::max(left, milliseconds(0)).count()));
}

// How it ended, which the supervising thread finds out.
std::string RemoteSession::State::wait_for_end(Connection& connection) {
  constexpr milliseconds patience{5000};
  std::unique_lock lock(mutex);
  if (!changed.wait_for(lock, patience, [&] { return !connection.end.empty(); })) {
    // It has closed this socket alone.
    connection.kill_reason = "it does not answer any more";
    event.set();
    changed.wait_for(lock, patience, [&] { return !connection.end.empty(); });
  }
  return connection.end.empty() ? fmt::format("the worker of '{}' does not answer", name) : connection.end;
}

void RemoteSession::State::stop_run(const std::shared_ptr<Connection>& connection, std::uint64_t channel,
                                    std::uint64_t run) {
  const WorkerCommand command{.kind = WorkerCommand::Kind::stop_run, .channel = channel, .run = run};
  // One that takes no message is killed in the end.
  (void)send_message(connection->process.control(), command, {}, false);
  {
    const std::lock_guard lock(mutex);
    stopped_runs.emplace(run, StoppedRun{connection, Clock::now() + options.stop_grace});
  }
  event.set();
}

// With the mutex held. Where there is no room for the message now, the next run sends it.
void RemoteSession::State::limit_computing(Connection& connection) const {
  if (connection.computing == computing) return;
  const WorkerCommand command{.kind = WorkerCommand::Kind::limit_computing,
                              .computing = static_cast<std::uint32_t>(computing)};
  if (send_message(connection.process.control(), command, {}, false)) connection.computing = computing;
}

// Ends a worker that has not crashed.
void RemoteSession::State::replace(Connection& connection, const std::string& reason) {
  {
    const std::lock_guard lock(mutex);
    if (connection.kill_reason.empty()) connection.kill_reason = reason;
    last_end = fmt::format("the worker of '{}' was killed: {}", name, reason);
    if (current.get() == &connection) {
      // The next run is for the next worker.
      current = nullptr;
      phase = Phase::starting;
    }
  }
  event.set();
}

// Ends a worker whose memory for results is used up, unless it has a run in progress. False: it has, or is the last, or
// the next one would start after a delay, in which all other runs are refused.
bool RemoteSession::State::renew(Connection& connection) {
  if (!options.restart_worker) return false;
  {
    const std::lock_guard lock(mutex);
    const auto lived = std::chrono::duration_cast<milliseconds>(Clock::now() - connection.started);
    if (restart_delay(failures_in_a_row(failures, lived), options.max_restart_delay).count() != 0) return false;
  }
  if (!connection.channels.retire()) return false;
  replace(connection, "the memory for the results of its runs was used up");
  return true;
}

// Null if the worker ended before it took the run.
std::optional<NamedValues> RemoteSession::State::attempt(const std::shared_ptr<Connection>& connection,
                                                         const NamedValues& inputs,
                                                         const std::vector<std::size_t>& wanted,
                                                         const ExpectedValues& expected, const std::stop_token& stop,
                                                         RunTarget target, WorkerRun* ran) {
  std::unique_ptr<RunChannel> channel = connection->channels.take();
  if (channel == nullptr) return std::nullopt;
  const std::uint64_t run = ++last_run;
  bool is_sent = false;
  try {
    is_sent = channel->send(run, inputs, wanted, target);
  } catch (const Error&) {
    connection->channels.give_back(std::move(channel));
    throw;
  } catch (...) {
    connection->channels.drop();
    throw;
  }
  if (!is_sent) return std::nullopt;
  return finish(connection, std::move(channel), run, expected, stop, ran);
}

// Null if the worker ended before it took the run.
std::optional<NamedValues> RemoteSession::State::finish(const std::shared_ptr<Connection>& connection,
                                                        std::unique_ptr<RunChannel> channel, std::uint64_t run,
                                                        const ExpectedValues& expected, const std::stop_token& stop,
                                                        WorkerRun* ran) {
  std::optional<NamedValues> results;
  std::exception_ptr error;
  std::optional<WorkerEnded> lost_device;
  {
    const std::stop_callback stopping(stop, [&, number = channel->number()] { stop_run(connection, number, run); });
    try {
      results = channel->receive(run, expected);
    } catch (const Error& failure) {
      error = std::current_exception();
      if (ort::is_lost_device(failure)) {
        replace(*connection, "it has lost its device: " + failure.message());
        lost_device = WorkerEnded(failure.code(), failure.message());
      }
    } catch (...) {
      connection->channels.drop();  // between two messages, perhaps
      throw;
    }
  }
  if (stop.stop_requested()) {
    const std::lock_guard lock(mutex);
    stopped_runs.erase(run);
  }
  if (lost_device) throw WorkerEnded(*lost_device);
  if (results && ran != nullptr) *ran = {connection->process.id(), channel->in_worker()};
  if (results || error) {
    connection->channels.give_back(std::move(channel));
    if (error) std::rethrow_exception(error);
    return results;
  }
  const std::string end = wait_for_end(*connection);
  {
    const std::lock_guard lock(mutex);
    // One that cannot be ended may still take it.
    const bool has_begun = connection->end.empty() || channel->has_taken(run);
    // Nobody waits for a run that was stopped.
    if (!has_begun && !stop.stop_requested()) return std::nullopt;
    if (has_begun) ++lost_runs;
  }
  throw WorkerEnded(ErrorCode::internal, fmt::format("{}; the runs that it had in progress are lost", end));
}

void RemoteSession::State::count_repeated() {
  const std::lock_guard lock(mutex);
  ++repeated_runs;
}

// --- the thread that supervises the worker
// ----------------------------------------------------------------------------

// Throws what the worker reports, or how it ended.
LoadReport RemoteSession::State::load(Connection& connection) {
  const UniqueFd file = file_of_text(request);
  const int descriptor = file.get();
  const int control = connection.process.control();
  const WorkerCommand command{.kind = WorkerCommand::Kind::load, .parent = ::getpid()};
  std::optional<Clock::time_point> limit;
  if (has_loaded) limit = Clock::now() + std::chrono::minutes(10);
  const auto wait = [&] {
    while (!wait_for(control, event, limit)) {
      const std::lock_guard lock(mutex);
      if (ended) throw Error(ErrorCode::interrupted, "the model is being unloaded");
      if (!limit || Clock::now() < *limit) continue;
      throw Error(ErrorCode::deadline_exceeded, fmt::format("the worker of '{}' did not load it within 10 min", name));
    }
  };
  ReceivedMessage message;
  std::string sandbox;
  for (bool is_alive = send_message(control, command, std::span(&descriptor, 1)); is_alive;) {
    wait();
    if (!receive_message(control, message)) break;
    const auto reply = message.as<LoadReply>();
    const std::string text = message.text_after(sizeof(LoadReply));
    if (!reply) throw Error(ErrorCode::internal, "a worker process answered something else than a report");
    if (reply->kind == LoadReply::Kind::sandbox && options.sandbox != Sandbox::off && sandbox.empty()) {
      sandbox = text;
      connection.results.set_limit(reply->memory_bytes);
      continue;
    }
    if (reply->kind != LoadReply::Kind::report) throw Error(error_code_of(reply->error), text);
    const std::optional<std::string> report_text = receive_text(control, reply->bytes, wait);
    if (!report_text) break;
    LoadReport loaded = believable(load_report_from(*report_text), outputs, options.pooled_output.has_value());
    if (!sandbox.empty()) loaded.verdict.notes.emplace_back(sandbox);
    return loaded;
  }
  throw Error(ErrorCode::internal,
              fmt::format("the worker of '{}' {} while it loaded the model", name, connection.process.wait()));
}

// The signature and the verdict that clients have been shown have to stay true, and so has what was found by trials.
void RemoteSession::State::accept(LoadReport&& loaded) {
  LoadedIdentity now = loaded.identity;
  if (options.restart_worker) std::ranges::copy(files.identity(), std::back_inserter(now));
  if (!has_loaded) {
    files.require_unchanged();
    report = std::move(loaded);
    onnx::set_types(outputs, report.stored_caches);
    pooled.name = report.output_names.back();
    pooled.type.element = ElementType::float32;
    identity = std::move(now);
    return;
  }
  const std::string changed = difference(now, identity);
  if (changed.empty()) return;
  throw Error(ErrorCode::provider_unavailable,
              fmt::format("the worker of '{}' has loaded something else: {}; load the model again to accept that", name,
                          changed));
}

void RemoteSession::State::note_end(const std::string& end, Clock::duration lived) {
  ++restarts;
  failures = failures_in_a_row(failures, std::chrono::duration_cast<milliseconds>(lived));
  const milliseconds delay = restart_delay(failures, options.max_restart_delay);
  phase = delay.count() == 0 && options.restart_worker ? Phase::starting : Phase::waiting;
  restart_at = Clock::now() + delay;
  last_end = end;
  current = nullptr;
  process_id = 0;
  if (!options.restart_worker) return;
  log::warning("{}; it is started again{}", end,
               delay.count() == 0 ? std::string() : fmt::format(" in {} ms", delay.count()));
}

std::shared_ptr<Connection> RemoteSession::State::start() {
  {
    const std::lock_guard lock(mutex);
    phase = Phase::starting;
  }
  const Clock::time_point begin = Clock::now();
  Error failure(ErrorCode::internal, "");
  try {
    auto connection = std::make_shared<Connection>(++started_workers, name, options.sandbox);
    {
      const std::lock_guard lock(mutex);
      process_id = connection->process.id();
    }
    accept(load(*connection));
    connection->started = Clock::now();
    const std::lock_guard lock(mutex);
    has_loaded = true;
    phase = Phase::ready;
    current = connection;
    limit_computing(*connection);
    changed.notify_all();
    return connection;
  } catch (const Error& error) {
    failure = error;
  } catch (const std::exception& error) {
    failure = Error(ErrorCode::internal, error.what());
  }
  const std::lock_guard lock(mutex);
  if (has_loaded && ended) return nullptr;
  if (has_loaded) {
    note_end(fmt::format("the worker of '{}' could not be started: {}", name, failure.message()), Clock::now() - begin);
  } else {
    first_failure = failure;
    ended = true;
  }
  changed.notify_all();
  return nullptr;
}

// Asks for the worker's end where a run has gone on for too long; else when to look again.
std::optional<Clock::time_point> RemoteSession::State::kill_overdue(Connection& connection) {
  const Clock::time_point now = Clock::now();
  std::optional<Clock::time_point> next;
  for (const auto& [run, stopped] : stopped_runs) {
    if (stopped.connection.get() != &connection) continue;
    if (stopped.deadline <= now) {
      connection.kill_reason =
          fmt::format("a run did not end within {} ms after the request to stop", options.stop_grace.count());
      return std::nullopt;
    }
    next = std::min(next.value_or(stopped.deadline), stopped.deadline);
  }
  return next;
}

// Until the worker has ended, or is to end.
void RemoteSession::State::watch(Connection& connection) {
  for (bool is_over = false; !is_over;) {
    std::optional<Clock::time_point> until;
    {
      const std::lock_guard lock(mutex);
      until = kill_overdue(connection);
      is_over = ended || !connection.kill_reason.empty();
    }
    is_over = is_over || wait_for(connection.process.control(), event, until);
  }
  const std::string end = connection.process.wait();
  const std::lock_guard lock(mutex);
  connection.end = connection.kill_reason.empty()
                       ? fmt::format("the worker of '{}' {}", name, end)
                       : fmt::format("the worker of '{}' was killed: {}", name, connection.kill_reason);
  if (!ended) note_end(connection.end, Clock::now() - connection.started);
  changed.notify_all();
}

bool RemoteSession::State::wait_for_restart() {
  std::unique_lock lock(mutex);
  if (options.restart_worker) changed.wait_until(lock, restart_at, [&] { return ended; });
  return !ended && options.restart_worker;
}

void RemoteSession::State::supervise() {
  do {
    if (const std::shared_ptr<Connection> connection = start()) watch(*connection);
  } while (wait_for_restart());
}

// --- the session
// ------------------------------------------------------------------------------------------------------

RemoteSession::RemoteSession(const std::filesystem::path& model, const std::string& name, const LoadOptions& options,
                             std::vector<SignatureEntry> outputs) {
  refuse_unsupported(options);
  state_ = std::make_unique<State>(model, name, options, std::move(outputs));
  state_->supervisor = start_thread([state = state_.get()] { state->supervise(); });
  // Meanwhile, what it takes to tell another content later.
  if (options.restart_worker) (void)state_->files.identity();
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->has_loaded || state_->first_failure.has_value(); });
  if (state_->has_loaded) return;
  const Error failure = state_->first_failure.value_or(Error(ErrorCode::internal, "the worker could not be started"));
  lock.unlock();
  state_->supervisor.join();
  throw Error(failure);
}

RemoteSession::~RemoteSession() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ended = true;
    state_->changed.notify_all();
  }
  state_->event.set();
  state_->supervisor.join();
}

const LoadReport& RemoteSession::report() const noexcept {
  return state_->report;
}

NamedValues RemoteSession::run(const NamedValues& inputs, const std::vector<std::size_t>& outputs,
                               const std::stop_token& stop, WorkerAbsence absence, WorkerRun* ran) const {
  std::string end;
  bool is_renewed = false;
  ExpectedValues expected;
  for (const std::size_t output : outputs) expected.push_back(&state_->entry_of(output));
  for (int attempt = 0; attempt < max_attempts; ++attempt) {
    const std::shared_ptr<Connection> connection =
        state_->wait_for_worker(stop, is_renewed ? WorkerAbsence::wait : absence);
    if (attempt != 0) state_->count_repeated();
    try {
      std::optional<NamedValues> results =
          state_->attempt(connection, inputs, outputs, expected, stop, RunTarget::model, ran);
      if (results) return *std::move(results);
    } catch (const ResultsRefused& refusal) {
      if (is_renewed || !refusal.fit_new_worker() || !state_->renew(*connection)) throw;
      is_renewed = true;
    }
    end = state_->wait_for_end(*connection);
  }
  throw Error(ErrorCode::provider_unavailable,
              fmt::format("{}; {} workers in turn ended before they began the run", end, max_attempts));
}

std::uint64_t RemoteSession::wait_for_worker(const std::stop_token& stop) const {
  return state_->wait_for_worker(stop, WorkerAbsence::wait)->number;
}

NamedValues RemoteSession::call(std::uint64_t worker, const NamedValues& inputs, const ExpectedValues& expected,
                                const std::stop_token& stop) const {
  const std::shared_ptr<Connection> connection = state_->wait_for_worker(stop, WorkerAbsence::wait);
  if (connection->number != worker) {
    const std::lock_guard lock(state_->mutex);
    throw WorkerEnded::before_run(state_->last_end);
  }
  std::optional<NamedValues> results = state_->attempt(connection, inputs, {}, expected, stop, RunTarget::service);
  if (!results) throw WorkerEnded::before_run(state_->wait_for_end(*connection));
  return *std::move(results);
}

void RemoteSession::limit_computing(std::size_t runs) const {
  const std::lock_guard lock(state_->mutex);
  state_->computing = runs;
  if (state_->current != nullptr) state_->limit_computing(*state_->current);
}

WorkerStatus RemoteSession::status() const {
  WorkerStatus status;
  {
    const std::lock_guard lock(state_->mutex);
    status.state = state_->phase;
    status.process_id = state_->process_id;
    status.restarts = state_->restarts;
    status.lost_runs = state_->lost_runs;
    status.repeated_runs = state_->repeated_runs;
    status.last_end = state_->last_end;
  }
  if (status.process_id != 0) status.resident_bytes = resident_bytes_of(status.process_id);
  return status;
}

}  // namespace gpux::isolation

#include "daemon/daemon.h"

#include <algorithm>
#include <cerrno>
#include <span>

#include <fcntl.h>
#include <fmt/format.h>

#include "base/durability.h"
#include "base/files.h"
#include "base/format_message.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "base/write_fully.h"
#include "embedding/level.h"
#include "gpux/error.h"

namespace gpux::daemon {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto status_interval = 1s;
constexpr auto rate_window = 10s;
constexpr const char* own_folder = "daemon";
// The metadata of an event are within a payload.
constexpr int max_stored_depth = vector_store::max_payload_depth - 2;

bool same_model(const StateFile& left, const StateFile& right) {
  return left.model == right.model && left.level == right.level && left.features == right.features &&
         left.model_dir == right.model_dir && left.provider == right.provider && left.device == right.device;
}

// What the pipeline and the sources were made with.
bool same_frame(const StateFile& left, const StateFile& right) {
  return left.output == right.output && left.limits == right.limits && left.workers == right.workers &&
         left.rescan == right.rescan;
}

FileLock locked(const fs::path& output) {
  std::error_code error;
  fs::create_directories(output / own_folder, error);
  if (error) throw_file_error("make the folder", output / own_folder, error.value());
  std::optional<FileLock> lock = FileLock::try_exclusive(output / own_folder / "lock");
  if (lock) return *std::move(lock);
  throw Error(ErrorCode::storage,
              format_message("another gpux daemon writes to '{}'; give this one another 'output'", file_at(output)));
}

void add_counts(SourceStatus& sum, const SourceStatus& one) {
  sum.taken += one.taken;
  sum.written += one.written;
  sum.known += one.known;
  sum.refused += one.refused;
  sum.lost += one.lost;
}

}  // namespace

Daemon::Daemon(ModelSource open_model, unsigned workers, std::optional<vector_store::StoreUrl> sink)
    : open_model_(std::move(open_model)), workers_(workers), sink_(std::move(sink)) {}

Daemon::~Daemon() {
  take_down();
}

bool Daemon::is_active() const {
  const std::scoped_lock lock(mutex_);
  return pipeline_ != nullptr;
}

// Before anything is changed, so that a collection of another model leaves all as it was.
void Daemon::require_collection(const OpenModel& model) {
  if (!sink_) return;
  auto opened = store_ ? nullptr : std::make_unique<StoreSink>(*sink_);
  (store_ ? store_ : opened)->prepare(model.facts);
  if (opened) store_ = std::move(opened);
}

void Daemon::apply(StateFile state) {
  if (sink_ && state.downgrade) {
    throw Error(ErrorCode::invalid_config,
                format_message("{}: 'downgrade' makes vectors of two models, and a collection has those of one",
                               file_at(state.file)));
  }
  if (sink_ && state.limits.event_depth > max_stored_depth) {
    throw Error(ErrorCode::invalid_config,
                format_message("{}: 'event_depth' is {}; with --sink, accepted: up to {}", file_at(state.file),
                               state.limits.event_depth, max_stored_depth));
  }
  const bool keeps_model = !state_.file.empty() && same_model(state, state_);
  std::shared_ptr<const OpenModel> model = keeps_model ? declared_ : open_model_(state, {});
  if (model != nullptr && !keeps_model) require_collection(*model);
  const bool keeps_frame = pipeline_ != nullptr && model != nullptr && same_frame(state, state_);
  if (!keeps_frame) {
    std::unique_ptr<Output> output;
    const bool keeps_output = output_ != nullptr && output_->folder == state.output;
    if (model != nullptr && !keeps_output) {
      output.reset(new Output{state.output, locked(state.output), VectorFolder(state.output)});
    }
    take_down();
    const std::scoped_lock lock(mutex_);
    if (model == nullptr || !keeps_output) output_ = std::move(output);
  }
  {
    const std::scoped_lock lock(mutex_);
    if (!keeps_model) {
      declared_ = std::move(model);
      lesser_.reset();
    }
    is_downgraded_ = lesser_failed_ = false;
    state_file_problem_.clear();
    state_ = std::move(state);
  }
  if (declared_ == nullptr) return;
  if (keeps_frame) {
    pipeline_->use(declared_);
  } else {
    set_up(state_);
  }
  change_sources(state_);
}

void Daemon::set_up(const StateFile& state) {
  const unsigned workers = workers_ != 0 ? workers_ : state.workers.value_or(0);
  if (store_) store_->set_folder(output_->vectors);
  EventSink& sink = store_ ? static_cast<EventSink&>(*store_) : output_->vectors;
  auto pipeline = std::make_unique<EventPipeline>(sink, state.limits, declared_, workers);
  const std::scoped_lock lock(mutex_);
  pipeline_ = std::move(pipeline);
}

void Daemon::let_go(const std::shared_ptr<Source>& source) {
  source->stop();
  const std::scoped_lock lock(mutex_);
  add_counts(gone_, source->status());
  std::erase(sources_, source);
}

void Daemon::take_down() {
  // All of them end at once, so that none keeps the others waiting.
  while (!sources_.empty()) let_go(sources_.back());
  if (!pipeline_) return;
  pipeline_->stop();
  const std::scoped_lock lock(mutex_);
  pipeline_.reset();
}

void Daemon::change_sources(const StateFile& state) {
  for (const auto& source : std::vector(sources_)) {
    if (std::find(state.sources.begin(), state.sources.end(), source->declared()) == state.sources.end())
      let_go(source);
  }
  const SourceSurroundings around{.pipeline = *pipeline_,
                                  .limits = state.limits,
                                  .state_folder = state.output / own_folder,
                                  .rescan = state.rescan};
  for (const DeclaredSource& declared : state.sources) {
    const auto is_it = [&](const auto& source) { return source->declared() == declared; };
    if (std::any_of(sources_.begin(), sources_.end(), is_it)) continue;
    std::shared_ptr<Source> source = make_source(declared, around);
    source->start();
    const std::scoped_lock lock(mutex_);
    sources_.push_back(std::move(source));
  }
}

void Daemon::set_state_file_problem(const std::string& problem) {
  const std::scoped_lock lock(mutex_);
  state_file_problem_ = problem;
}

DaemonStatus Daemon::status() const {
  const std::scoped_lock lock(mutex_);
  DaemonStatus status;
  status.state_file = state_.file.string();
  status.output = state_.output.string();
  if (sink_) status.sink = sink_->shown;
  status.started = started_;
  status.now = std::chrono::system_clock::now();
  status.state_file_problem = state_file_problem_;
  SourceStatus sum = gone_;
  for (const auto& source : sources_) {
    status.sources.push_back(source->status());
    add_counts(sum, status.sources.back());
    status.waiting += status.sources.back().waiting;
    status.waiting_bytes += status.sources.back().waiting_bytes;
  }
  status.taken = sum.taken;
  status.written = sum.written;
  status.known = sum.known;
  status.refused = sum.refused;
  status.lost = sum.lost;
  if (written_.size() > 1) {
    const double seconds = std::chrono::duration<double>(written_.back().first - written_.front().first).count();
    status.written_per_second = static_cast<double>(written_.back().second - written_.front().second) / seconds;
  }
  if (!pipeline_) return status;
  const PipelineCounts counts = pipeline_->counts();
  status.sink_problem = counts.sink_problem;
  status.model_problem = counts.model_problem;
  status.embed_ms = counts.embed_ms_mean;
  const std::shared_ptr<const OpenModel> model = pipeline_->model();
  status.model = model->name;
  status.digest = model->digest;
  status.level = model->level;
  status.provider = model->provider;
  status.verdict = model->verdict;
  status.declared_level = declared_->level;
  status.is_downgraded = is_downgraded_;
  return status;
}

void Daemon::choose_level(std::uint64_t waiting) {
  if (!pipeline_ || !state_.downgrade || lesser_failed_) return;
  const Downgrade& rule = *state_.downgrade;
  if (is_downgraded_ && waiting <= rule.below) {
    log::info("{} events wait: level {} again", waiting, declared_->level);
    pipeline_->use(declared_);
    const std::scoped_lock lock(mutex_);
    is_downgraded_ = false;
  } else if (!is_downgraded_ && waiting > rule.above) {
    const embedding::Level* declared = embedding::level_from(declared_->level);
    if (declared == nullptr || embedding::level_from(rule.level) >= declared) {
      log::warning("'downgrade' has no effect: {} is not less than {}", rule.level,
                   declared_->level.empty() ? "the model that was named" : "level " + declared_->level);
      lesser_failed_ = true;
      return;
    }
    try {
      if (!lesser_) lesser_ = open_model_(state_, rule.level);
    } catch (const Error& error) {
      log::warning("{} events wait, and level {} cannot be taken instead: {}", waiting, rule.level, error.message());
      lesser_failed_ = true;
      return;
    }
    log::warning("{} events wait, more than {}: level {} instead of {}", waiting, rule.above, rule.level,
                 declared_->level);
    pipeline_->use(lesser_);
    const std::scoped_lock lock(mutex_);
    is_downgraded_ = true;
  }
}

void Daemon::write_status() {
  if (!output_ || Clock::now() < next_status_) return;
  next_status_ = Clock::now() + status_interval;
  std::string problem;
  try {
    // Nobody misses it behind a power cut, so it is not waited for.
    const fs::path file = output_->folder / own_folder / "status.json", part = file.string() + ".part";
    const std::string text = to_json(status());
    UniqueFd descriptor(::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!descriptor) throw_file_error("write", file, errno);
    int error = write_fully(descriptor.get(), std::as_bytes(std::span(text)), 0);
    if (error == 0) error = descriptor.close();
    if (error == 0) error = rename_file(part, file);
    if (error != 0) throw_file_error("write", file, error);
  } catch (const Error& error) {
    problem = error.message();
  }
  if (problem != status_problem_ && !problem.empty()) log::warning("{}", problem);
  status_problem_ = problem;
}

void Daemon::tick() {
  const DaemonStatus now = status();
  {
    const std::scoped_lock lock(mutex_);
    written_.emplace_back(Clock::now(), now.written);
    while (written_.size() > 2 && written_.back().first - written_.front().first > rate_window) written_.pop_front();
  }
  choose_level(now.waiting);
  write_status();
}

void Daemon::stop() {
  {
    // What is not written by then comes again with the next start.
    const std::jthread limit = store_ ? store_->give_up_after(5s) : std::jthread();
    take_down();
  }
  next_status_ = {};
  write_status();
}

}  // namespace gpux::daemon

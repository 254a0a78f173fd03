#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "embedding/image_encoder.h"
#include "embedding/sentence_encoder.h"
#include "generation/engine.h"
#include "generation/model_chat.h"
#include "gpux/generator.h"
#include "gpux/runtime.h"
#include "pipeline/pipeline.h"
#include "project/project_file.h"
#include "runtime/image_input.h"
#include "runtime/scheduling/scheduler.h"
#include "server/generation/render_pace.h"
#include "server/models/device_use.h"
#include "server/models/workers.h"

namespace gpux::server {

/// Counts durations in buckets. Thread-safe.
class Histogram {
 public:
  /// Upper bounds in seconds; what is longer goes into one more bucket.
  static constexpr std::array<double, 16> bounds{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                                 0.05,   0.1,     0.25,   0.5,   1,      2.5,   5,    10};

  void add(std::chrono::nanoseconds duration) noexcept;
  [[nodiscard]] std::uint64_t count() const noexcept;
  [[nodiscard]] std::chrono::nanoseconds sum() const noexcept;
  /// Of one bucket alone, the one above all bounds last.
  [[nodiscard]] std::uint64_t in_bucket(std::size_t index) const noexcept;

 private:
  std::array<std::atomic<std::uint64_t>, bounds.size() + 1> counts_{};
  std::atomic<std::int64_t> nanoseconds_ = 0;
};

/// All runs that had the same number of rows.
struct BatchStatistics {
  std::uint64_t runs = 0;
  std::chrono::nanoseconds input{0}, compute{0}, output{0};
};

/// What the engines of one model count, also those that it had before it was reloaded. Thread-safe.
class EngineCounts {
 public:
  void add(const std::shared_ptr<const generation::Engine>& engine);
  /// It ends: its counts stay.
  void remove(const std::shared_ptr<const generation::Engine>& engine);
  /// Sums; of the engines that there are now, where it is what they do now.
  [[nodiscard]] generation::EngineStatistics sum() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<const generation::Engine>> engines_;
  generation::EngineStatistics ended_;
};

/// What is counted of texts that a model generates.
struct GenerationStatistics {
  Histogram time_to_first_token;  ///< from the request's arrival
  Histogram time_between_tokens;
  std::atomic<std::uint64_t> prompt_tokens = 0, cached_tokens = 0,
                             generated_tokens = 0;  ///< of texts that are complete
  EngineCounts engines;
};

/// How requests of one model ended. Each is counted once. Kept when the model is reloaded. Thread-safe.
struct ModelStatistics {
  std::atomic<std::uint64_t> succeeded = 0, rejected = 0, cancelled = 0, expired = 0, invalid = 0, failed = 0;
  std::atomic<std::uint64_t> rows = 0;         ///< of those that succeeded
  std::atomic<std::int64_t> last_success = 0;  ///< of a request; steady clock, nanoseconds; 0: none yet
  std::atomic<std::int64_t> last_answer = 0;   ///< of the device, to a request or a probe; as last_success
  Histogram total, queue, input, compute, output;
  Histogram failure;  ///< from arrival to the error
  GenerationStatistics generation;

  /// Counts a failure by what it was. `admitted`: the model took the request, so that resource_exhausted is said by its
  /// device, not by its queue.
  void count(const Error& error, std::chrono::steady_clock::time_point arrived, bool admitted = false) noexcept;
  void count(const runtime::RunReport& run);

  [[nodiscard]] std::map<std::int64_t, BatchStatistics> batches() const;  ///< by rows

  /// Those that did not succeed.
  [[nodiscard]] std::uint64_t failures() const noexcept { return rejected + cancelled + expired + invalid + failed; }

  std::atomic<std::uint64_t> runs = 0;

 private:
  mutable std::mutex mutex_;
  std::map<std::int64_t, BatchStatistics> batches_;
};

/// Sizes of free dimensions, by name or as "input.index".
using DimensionSizes = std::vector<std::pair<std::string, std::int64_t>>;

struct ServingOptions {
  std::int64_t max_batch_size = 32;  ///< rows; 1: no batching
  RunSharing sharing;                ///< whether requests may share runs, and why; with max_batch_size 1 they do not
  std::int64_t max_batch_cost = 0;   ///< elements of a run's largest input, padding counted; 0: no bound
  bool fills_rows = false;           ///< runtime::BatchLimits::fills_rows
  /// How requests whose sizes differ share a run; null: they do not. Made by runtime::read_padding().
  std::shared_ptr<const runtime::Padding> padding;
  std::chrono::microseconds max_queue_delay{0};  ///< the oldest request waits so long for company
  std::size_t max_queue = 1024;                  ///< requests that may wait
  std::optional<std::chrono::milliseconds> timeout;
  /// How many threads may run quick requests themselves instead of waking the model's, where all of it runs on the
  /// processor: a device that hangs would take them along.
  std::size_t quick_lanes = 0;
  std::vector<DimensionSizes> warm_up;  ///< one run of each before the first request; none given: one of sizes 1
};

/// A loaded model with its queue.
class ServedModel {
 public:
  ServedModel(std::string name, std::string version, Workers workers, std::optional<ProjectFile> project,
              const ServingOptions& options);
  ~ServedModel();
  ServedModel(const ServedModel&) = delete;
  ServedModel& operator=(const ServedModel&) = delete;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  [[nodiscard]] const std::string& version() const noexcept { return version_; }

  [[nodiscard]] const Runtime& runtime() const noexcept { return *workers_.sessions.front(); }

  /// That of runtime(), with what engine() adds.
  [[nodiscard]] Verdict verdict() const;

  [[nodiscard]] const Workers& workers() const noexcept { return workers_; }

  /// What callers give and get: the model's own, or its pipeline's.
  [[nodiscard]] const Signature& signature() const noexcept {
    return pipeline_ ? pipeline_->signature() : runtime().info().signature;
  }

  [[nodiscard]] const ProjectFile* project() const noexcept { return project_ ? &*project_ : nullptr; }

  /// What is said of outputs: labels, and which are JSON.
  [[nodiscard]] std::span<const DeclaredValue> declared_outputs() const noexcept { return declared_outputs_; }

  [[nodiscard]] const ServingOptions& options() const noexcept { return options_; }

  [[nodiscard]] bool can_batch() const noexcept { return options_.sharing.shared; }

  /// What makes vectors of texts with this model; null where it does not.
  [[nodiscard]] const std::shared_ptr<const embedding::SentenceEncoder>& encoder() const noexcept { return encoder_; }

  /// Before the first request.
  void set_encoder(std::shared_ptr<const embedding::SentenceEncoder> encoder) noexcept {
    encoder_ = std::move(encoder);
  }

  /// What makes inputs of texts; null where the model is not given any.
  [[nodiscard]] const std::shared_ptr<const pipeline::Pipeline>& pipeline() const noexcept { return pipeline_; }

  /// Before the first request.
  void set_pipeline(std::shared_ptr<const pipeline::Pipeline> pipeline);

  /// The input that is given images; null where none is.
  [[nodiscard]] const runtime::ImageInput* image_input() const noexcept {
    return image_input_ ? &*image_input_ : nullptr;
  }

  /// Before the first request.
  void set_image_input(runtime::ImageInput image) { image_input_ = std::move(image); }

  /// What makes vectors of images; null where the model does not.
  [[nodiscard]] const std::shared_ptr<const embedding::ImageEncoder>& image_encoder() const noexcept {
    return image_encoder_;
  }

  /// The session that image_encoder() is for, with a queue of its own and the statistics of this model; null where this
  /// model is it.
  [[nodiscard]] ServedModel* image_tower() const noexcept { return image_tower_.get(); }

  /// Before the first request. `tower` may be null.
  void set_image_encoder(std::shared_ptr<const embedding::ImageEncoder> encoder, std::unique_ptr<ServedModel> tower);

  /// What generates texts with this model; null where it does not.
  [[nodiscard]] const std::shared_ptr<generation::Engine>& engine() const noexcept { return engine_; }

  /// Of engine().
  [[nodiscard]] const GeneratorOptions& generator_options() const noexcept { return generator_options_; }

  /// Before the first request. The engine's session is the model's.
  void set_engine(std::shared_ptr<generation::Engine> engine, const GeneratorOptions& options);

  /// "model_type" of config.json, as "qwen3"; empty where the model generates no text.
  [[nodiscard]] const std::string& family() const noexcept { return family_; }

  /// Before the first request.
  void set_family(std::string family) noexcept { family_ = std::move(family); }

  /// 64 hexadecimal digits: of a stored model its package's digest; else of where its files are, their sizes and times.
  [[nodiscard]] const std::string& digest() const noexcept { return digest_; }

  /// Before the first request.
  void set_digest(std::string digest) noexcept { digest_ = std::move(digest); }

  /// What makes prompts of conversations; null where the model takes none.
  [[nodiscard]] const generation::ChatPrompt* chat() const noexcept { return chat_.prompt(); }

  /// Why chat() is null.
  [[nodiscard]] std::string_view lack_of_chat() const noexcept;

  /// Of chat().
  [[nodiscard]] RenderPace& render_pace() noexcept { return render_pace_; }

  /// Before the first request.
  void set_chat(generation::ModelChat chat) noexcept { chat_ = std::move(chat); }

  /// A request has texts in the engine: abandon() calls `end`, from any thread. The number is for end_texts().
  std::uint64_t begin_texts(std::function<void()> end);
  void end_texts(std::uint64_t number);

  /// Of the ONNX files of both towers, with their external data.
  [[nodiscard]] std::uint64_t size_bytes() const noexcept;

  /// The memory that it takes on each of its devices; empty for processors, and before set_device_uses().
  [[nodiscard]] std::span<const DeviceUse> device_uses() const noexcept { return device_uses_; }

  /// Before the first request. `before`: what was free before it was loaded.
  void set_device_uses(const MemoryOfDevices& before);

  [[nodiscard]] ModelStatistics& statistics() noexcept { return *statistics_; }

  /// Continues the counters of the model that this one replaces. Call it before the first request.
  void continue_statistics(const std::shared_ptr<ModelStatistics>& statistics) noexcept;

  [[nodiscard]] const std::shared_ptr<ModelStatistics>& shared_statistics() const noexcept { return statistics_; }

  [[nodiscard]] runtime::Scheduler& scheduler() noexcept { return scheduler_; }

  /// The worker processes of the sessions of both towers; empty without Isolation::process.
  [[nodiscard]] std::vector<WorkerStatus> worker_processes() const;

  /// Resident memory of all of them, now.
  [[nodiscard]] std::uint64_t worker_bytes() const;

  /// Whether one of them at least, of each tower, is ready and its device takes requests. True without any.
  [[nodiscard]] bool has_a_worker() const;

  /// Whether this process can no longer use the devices of its sessions: Runtime::lost_device().
  [[nodiscard]] bool has_lost_device() const;

  /// The devices of the sessions, in the order of Workers::devices().
  [[nodiscard]] std::vector<runtime::DeviceReport> devices() const { return scheduler_.devices(); }

  /// Whether the model has several devices, and all of them have failed.
  [[nodiscard]] bool has_lost_all_devices() const;

  /// Of the queues of both towers, and of the engine's.
  [[nodiscard]] runtime::SchedulerCounts counts() const;

  /// Scheduler::abandon() of both towers; ends the engine's texts.
  void abandon();

  /// Runs synthetic inputs of the requested sizes, so that the first request finds everything initialized. The model's
  /// errors about the values are ignored. Error: the device's.
  void warm_up();

  struct Call {
    NamedValues inputs;
    std::vector<std::string> outputs;  ///< empty: all
    int priority = 0;
    std::optional<std::chrono::steady_clock::time_point> deadline;
    std::chrono::steady_clock::time_point arrived;
    bool is_admitted = false;  ///< continues a request that was queued before: not refused where the queue is full
  };

  /// Takes the model's own inputs and outputs. Checks the inputs against their signature and queues them, or runs them
  /// as of Scheduler::submit; counts how it ends. Errors as of Scheduler::submit, and invalid_input.
  runtime::Scheduler::Ticket submit(Call call, runtime::Completion done, runtime::Here here = runtime::Here::no);

 private:
  std::string name_, version_;
  Workers workers_;
  std::optional<ProjectFile> project_;
  ServingOptions options_;
  std::shared_ptr<const embedding::SentenceEncoder> encoder_;
  std::shared_ptr<const pipeline::Pipeline> pipeline_;
  std::optional<runtime::ImageInput> image_input_;
  std::shared_ptr<const embedding::ImageEncoder> image_encoder_;
  std::unique_ptr<ServedModel> image_tower_;
  std::shared_ptr<generation::Engine> engine_;
  GeneratorOptions generator_options_;
  generation::ModelChat chat_;
  RenderPace render_pace_;
  std::string family_, digest_;
  std::mutex texts_mutex_;
  std::map<std::uint64_t, std::function<void()>> texts_;  // how to end them
  std::uint64_t last_texts_ = 0;
  std::vector<DeviceUse> device_uses_;
  std::vector<DeclaredValue> declared_outputs_;
  std::shared_ptr<ModelStatistics> statistics_ = std::make_shared<ModelStatistics>();
  runtime::Scheduler scheduler_;  // last: its threads use the rest
};

/// The session that makes vectors of images with the model: its image tower, which lives as long as the model, or the
/// model itself.
[[nodiscard]] std::shared_ptr<ServedModel> image_session_of(const std::shared_ptr<ServedModel>& model) noexcept;

}  // namespace gpux::server

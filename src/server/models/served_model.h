#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpux/runtime.h"
#include "server/models/model_parts.h"
#include "server/models/ran_on.h"
#include "server/models/served_session.h"

namespace gpux::server {

/// A loaded model with its queue. All members from any thread.
class ServedModel {
 public:
  /// `statistics`: may be those of the model that this one replaces, which it continues.
  explicit ServedModel(ModelParts parts,
                       std::shared_ptr<ModelStatistics> statistics = std::make_shared<ModelStatistics>(),
                       std::vector<DeviceUse> device_uses = {});
  ~ServedModel();
  ServedModel(const ServedModel&) = delete;
  ServedModel& operator=(const ServedModel&) = delete;

  [[nodiscard]] const std::string& name() const noexcept { return parts_.name; }

  [[nodiscard]] const std::string& version() const noexcept { return parts_.version; }

  /// Digest of the model: ModelParts::digest.
  [[nodiscard]] const std::string& digest() const noexcept { return parts_.digest; }

  /// The model's gpux.yml; null if it has none.
  [[nodiscard]] const ProjectFile* project() const noexcept { return parts_.project ? &*parts_.project : nullptr; }

  [[nodiscard]] const Runtime& runtime() const noexcept { return session_.runtime(); }

  /// Verdict of runtime(), with the notes of engine() if there is one.
  [[nodiscard]] Verdict verdict() const;

  /// The same in short, for each answer.
  [[nodiscard]] const RanOn& ran_on() const noexcept { return ran_on_; }

  [[nodiscard]] const Workers& workers() const noexcept { return session_.workers(); }

  [[nodiscard]] const ServingOptions& options() const noexcept { return session_.options(); }

  [[nodiscard]] bool can_batch() const noexcept { return session_.can_batch(); }

  /// Inputs and outputs for callers: those of the pipeline if there is one, else the model's own.
  [[nodiscard]] const Signature& signature() const noexcept {
    return parts_.pipeline ? parts_.pipeline->signature() : runtime().info().signature;
  }

  /// Outputs with their labels and formats (JSON), as gpux.yml and the pipeline declare them.
  [[nodiscard]] std::span<const DeclaredValue> declared_outputs() const noexcept { return declared_outputs_; }

  /// Makes vectors of texts; null if the model does not embed texts.
  [[nodiscard]] const std::shared_ptr<const embedding::SentenceEncoder>& encoder() const noexcept {
    return parts_.encoder;
  }

  /// Tokenizes texts into the model's inputs; null if the model takes no texts.
  [[nodiscard]] const std::shared_ptr<const pipeline::Pipeline>& pipeline() const noexcept { return parts_.pipeline; }

  /// The input that is given images; null where none is.
  [[nodiscard]] const ImageInput* image_input() const noexcept {
    return parts_.image_input ? &*parts_.image_input : nullptr;
  }

  /// Makes vectors of images; null if the model does not embed images.
  [[nodiscard]] const std::shared_ptr<const embedding::ImageEncoder>& image_encoder() const noexcept {
    return parts_.image_encoder;
  }

  /// Whether image_encoder() is for sessions of its own.
  [[nodiscard]] bool has_image_tower() const noexcept { return image_tower_.has_value(); }

  /// Generates texts; null if the model does not. The first of engines(): what they have in common is known by it.
  [[nodiscard]] const std::shared_ptr<generation::Engine>& engine() const noexcept {
    static const std::shared_ptr<generation::Engine> none;
    return engines().empty() ? none : engines().front();
  }

  /// All engines, each with a session of its own.
  [[nodiscard]] std::span<const std::shared_ptr<generation::Engine>> engines() const noexcept {
    return parts_.generation.engines;
  }

  /// The one for a request: choose_engine(). The model generates text.
  [[nodiscard]] std::shared_ptr<generation::Engine> engine_for(std::string_view cache_scope,
                                                               std::span<const std::uint32_t> prompt) const;

  /// Sum over all engines.
  [[nodiscard]] generation::EngineStatistics engine_statistics() const;

  /// Options of engine().
  [[nodiscard]] const GeneratorOptions& generator_options() const noexcept { return parts_.generation.options; }

  /// TextGeneration::family; empty where the model generates no text.
  [[nodiscard]] const std::string& family() const noexcept { return parts_.generation.family; }

  /// Renders conversations as prompts; null if the model takes none: chat_problem() is the reason.
  [[nodiscard]] const generation::ChatPrompt* chat() const noexcept { return parts_.generation.chat.prompt(); }

  /// Why chat() is null.
  [[nodiscard]] std::string_view chat_problem() const noexcept;

  /// Measured pace of rendering prompts with chat().
  [[nodiscard]] RenderPace& render_pace() noexcept { return *parts_.generation.render_pace; }

  /// A request has texts in the engine: abandon() calls `end`, from any thread. The number is for end_texts().
  std::uint64_t begin_texts(std::function<void()> end);
  void end_texts(std::uint64_t number);

  /// Total size of the ONNX files of both towers, with their external data.
  [[nodiscard]] std::uint64_t size_bytes() const noexcept;

  /// The memory that it takes on each of its devices; empty for processors.
  [[nodiscard]] std::span<const DeviceUse> device_uses() const noexcept { return device_uses_; }

  [[nodiscard]] ModelStatistics& statistics() noexcept { return *session_.statistics(); }

  [[nodiscard]] const std::shared_ptr<ModelStatistics>& shared_statistics() const noexcept {
    return session_.statistics();
  }

  /// Whether equal requests get equal answers, as far as its operators tell: Runtime::repetition_obstacle().
  [[nodiscard]] bool repeats_answers() const noexcept { return repeats_answers_; }

  /// What the operator lets it take.
  [[nodiscard]] const ModelLimits& limits() const noexcept { return parts_.limits; }

  /// Counts a request that the model answers, until the result goes; null where it has no limits of requests, or with a
  /// refusal.
  [[nodiscard]] std::shared_ptr<LimitedRequest> begin_limited(std::optional<LimitRefusal>& refusal);

  /// What was counted so; empty where it has no limits of requests.
  [[nodiscard]] std::optional<KeyCounts> limited_counts() const;

  /// The session that requests run in.
  [[nodiscard]] ServedSession& session() noexcept { return session_; }

  /// The session that makes vectors of images: the image tower, which counts in the model's statistics, or session().
  [[nodiscard]] ServedSession& image_session() noexcept { return image_tower_ ? *image_tower_ : session_; }

  /// The worker processes of the sessions of both towers; empty without Isolation::process.
  [[nodiscard]] std::vector<WorkerStatus> worker_processes() const;

  /// Resident memory of all of them, now.
  [[nodiscard]] std::uint64_t worker_bytes() const;

  /// ServedSession::has_a_worker() of each tower.
  [[nodiscard]] bool has_a_worker() const;

  /// ServedSession::has_lost_device() of one of the towers.
  [[nodiscard]] bool has_lost_device() const;

  /// The devices of the sessions, in the order of Workers::devices().
  [[nodiscard]] std::vector<runtime::DeviceReport> devices() const { return session_.scheduler().devices(); }

  /// Whether the model has several devices, and all of them have failed.
  [[nodiscard]] bool has_lost_all_devices() const;

  /// Counters of the queues of both towers and of the engine, summed.
  [[nodiscard]] runtime::SchedulerCounts counts() const;

  /// Scheduler::abandon() of both towers; ends the engine's texts.
  void abandon();

 private:
  const ModelParts parts_;
  const bool repeats_answers_;
  const std::vector<DeviceUse> device_uses_;
  const std::vector<DeclaredValue> declared_outputs_;
  const RanOn ran_on_;
  std::mutex texts_mutex_;
  std::map<std::uint64_t, std::function<void()>> texts_;  // how to end them
  std::uint64_t last_texts_ = 0;
  std::optional<ServedSession> image_tower_;
  ServedSession session_;  // last: the threads of its queue use the rest
};

/// ServedModel::session(), which lives as long as the model.
[[nodiscard]] std::shared_ptr<ServedSession> session_of(const std::shared_ptr<ServedModel>& model) noexcept;

/// ServedModel::image_session(), which lives as long as the model.
[[nodiscard]] std::shared_ptr<ServedSession> image_session_of(const std::shared_ptr<ServedModel>& model) noexcept;

}  // namespace gpux::server

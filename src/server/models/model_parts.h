#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "embedding/image_encoder.h"
#include "embedding/sentence_encoder.h"
#include "generation/engine.h"
#include "generation/model_chat.h"
#include "gpux/generator.h"
#include "pipeline/pipeline.h"
#include "project/image_input.h"
#include "project/model_limits.h"
#include "project/project_file.h"
#include "server/models/device_use.h"
#include "server/models/render_pace.h"
#include "server/models/served_session.h"

namespace gpux::server {

/// Engine, options and chat template of a model that generates text.
struct TextGeneration {
  /// Their sessions are the model's; empty: the model generates no text.
  std::vector<std::shared_ptr<generation::Engine>> engines;
  GeneratorOptions options;
  std::string family;          ///< "model_type" of config.json, as "qwen3"
  generation::ModelChat chat;  ///< makes prompts of conversations, or says why nothing does
  std::shared_ptr<RenderPace> render_pace = std::make_shared<RenderPace>();  ///< of `chat`
};

/// The loaded parts from which a ServedModel is constructed. Parts that the model does not use are null or empty.
struct ModelParts {
  std::string name, version;
  /// 64 hexadecimal digits: of a stored model its package's digest; else of where its files are, their sizes and times.
  std::string digest = {};
  std::optional<ProjectFile> project = {};
  SessionParts session;
  std::shared_ptr<const embedding::SentenceEncoder> encoder = {};     ///< makes vectors of texts
  std::shared_ptr<const pipeline::Pipeline> pipeline = {};            ///< makes inputs of texts
  std::optional<ImageInput> image_input = {};                         ///< the input that is given images
  std::shared_ptr<const embedding::ImageEncoder> image_encoder = {};  ///< makes vectors of images
  std::optional<SessionParts> image_tower = {};                       ///< what `image_encoder` is for; empty: `session`
  TextGeneration generation = {};
  ModelLimits limits = {};  ///< of the operator
};

/// Runs synthetic inputs of the requested sizes, so that the first request finds everything initialized. The model's
/// errors about the values are ignored. Error: the device's.
void warm_up(const ModelParts& parts);

/// The memory that the sessions take on each of their devices; empty for processors. `before`: what was free before
/// they were loaded.
[[nodiscard]] std::vector<DeviceUse> device_uses(const ModelParts& parts, const MemoryOfDevices& before);

}  // namespace gpux::server

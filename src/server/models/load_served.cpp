#include "server/models/load_served.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "base/machine.h"
#include "base/sha256.h"
#include "embedding/graph_pooling.h"
#include "embedding/open_tokenizer.h"
#include "embedding/sentence_encoder.h"
#include "embedding/text_batching.h"
#include "generation/decoder.h"
#include "generation/engine.h"
#include "generation/model_files.h"
#include "gpux/error.h"
#include "importer/json_settings.h"
#include "importer/sentence_model.h"
#include "model/open_image_encoder.h"
#include "model/open_model.h"
#include "model/package_fingerprint.h"
#include "project/project_check.h"
#include "provider/shape_profile.h"
#include "runtime/scheduling/padding.h"
#include "server/http/server.h"

namespace gpux::server {
namespace {

/// The serving settings of a model from the list of models and gpux.yml, without those that are flags.
class Said {
 public:
  Said(const ListedModel& listed, const ServingFlags& flags, const OpenModel& opened)
      : listed_(listed),
        flags_(flags),
        project_(opened.located.project ? &*opened.located.project : nullptr),
        own_(project_ == nullptr ? ServingSettings{} : project_->serving) {}

  // The list takes precedence over gpux.yml.
  template <typename T>
  [[nodiscard]] std::optional<T> setting(std::optional<T> ServingSettings::*member) const {
    return listed_.serving.*member ? listed_.serving.*member : own_.*member;
  }

  // A flag before both.
  template <typename T>
  [[nodiscard]] std::optional<T> setting(const std::optional<T>& flag,
                                         std::optional<T> ServingSettings::*member) const {
    return flag ? flag : setting(member);
  }

  [[nodiscard]] std::string text(const std::string& flag, std::optional<std::string> ServingSettings::*member) const {
    return flag.empty() ? setting(member).value_or("") : flag;
  }

  [[nodiscard]] const auto& warm_up() const {
    return listed_.serving.warm_up.empty() ? own_.warm_up : listed_.serving.warm_up;
  }

  // Where it says nothing of rows, gpux.yml's runtime.batch_size does.
  [[nodiscard]] SizeFacts sizes(const OpenModel& opened) const {
    SizeFacts facts = opened.sizes();
    if (const auto rows = setting(flags_.max_batch_size, &ServingSettings::batch_size)) {
      facts.max_rows = rows;
      facts.rows_from = flags_.max_batch_size ? "--max-batch-size" : "batch_size";
    }
    facts.warm_up = warm_up();
    return facts;
  }

  // Null where nothing is said, or an empty map.
  [[nodiscard]] std::shared_ptr<const runtime::Padding> padding(const Signature& signature) const {
    const auto said = setting(&ServingSettings::padding);
    if (!said || said->empty()) return nullptr;
    const bool is_listed = listed_.serving.padding.has_value();
    const std::string key = is_listed ? fmt::format("models.{}.padding", listed_.name) : "serving.padding";
    try {
      return std::make_shared<const runtime::Padding>(runtime::read_padding(*said, signature, key));
    } catch (const Error& error) {
      throw error.within(is_listed ? flags_.models_file : project_->where(key));
    }
  }

 private:
  const ListedModel& listed_;
  const ServingFlags& flags_;
  const ProjectFile* project_;
  const ServingSettings own_;
};

void set_restarts(const ServingFlags& flags, LoadOptions& options) {
  const auto set = [&](const std::string& text, const char* flag, std::chrono::milliseconds& time) {
    if (!text.empty()) time = duration_of(text, flag);
  };
  set(flags.stop_grace, "--stop-grace", options.stop_grace);
  set(flags.max_restart_delay, "--max-restart-delay", options.max_restart_delay);
}

OpenModel open_listed(const ListedModel& listed, const ServingFlags& flags) {
  const std::string config = flags.config.empty() ? listed.config.string() : flags.config;
  OpenModel opened = open_model(listed.model, config, merge(flags.load, request_of(listed)));
  opened.open_inputs();
  if (generation::decoder_signature(opened.info)) note_isolation_obstacle(opened.settings, "it generates text");
  opened.settings.options.worker_name = listed.name;
  set_restarts(flags, opened.settings.options);
  return opened;
}

ServingOptions serving_options(const Said& said, const ServingFlags& flags, const OpenModel& opened, bool reads_texts) {
  ServingOptions options;
  options.max_batch_size = said.setting(flags.max_batch_size, &ServingSettings::batch_size)
                               .value_or(reads_texts ? 1 : options.max_batch_size);
  options.max_batch_cost =
      said.setting(flags.max_batch_cost, &ServingSettings::max_batch_cost).value_or(options.max_batch_cost);
  options.padding = said.padding(opened.info.signature);
  options.max_queue_delay = flags.max_queue_delay.empty()
                                ? said.setting(&ServingSettings::max_queue_delay).value_or(std::chrono::milliseconds(0))
                                : duration_of(flags.max_queue_delay, "--max-queue-delay");
  options.max_queue = flags.max_queue.value_or(said.setting(&ServingSettings::max_queue).value_or(options.max_queue));
  const auto& limit = opened.settings.request.timeout;
  options.timeout = opened.settings.timeout();
  if (const auto timeout = said.setting(&ServingSettings::timeout);
      timeout && !(limit && is_asked_now(limit->source))) {
    options.timeout = timeout;
  }
  options.quick_lanes = flags.io_threads != 0 ? flags.io_threads : http::threads_by_default();
  // gRPC's threads are its own.
  if (!flags.no_grpc) options.quick_lanes *= 2;
  options.warm_up = said.warm_up();
  return options;
}

WorkerRequest workers_asked_for(const Said& said, const ServingFlags& flags, const std::string& by_default) {
  const std::string asked = said.text(flags.workers, &ServingSettings::workers);
  WorkerRequest request =
      worker_request_from(asked.empty() ? by_default : asked, flags.workers.empty() ? "workers" : "--workers");
  const std::optional<unsigned> most = said.setting(flags.max_workers, &ServingSettings::max_workers);
  request.most = most.value_or(0);
  request.in_flight = flags.runs_in_flight;
  if (most && request.kind != WorkerRequest::Kind::automatic && request.count > *most) {
    throw Error(ErrorCode::usage, fmt::format("{} workers are asked for, and max_workers is {}", request.count, *most));
  }
  return request;
}

// All models of a process share the ONNX Runtime that the first opened: one that was asked to run on what needs another
// would run elsewhere for as long as the server lives.
void require_this_core(const Runtime& session) {
  const Verdict& verdict = session.verdict();
  if (verdict.requested_from == "default" || verdict.tried.empty() || !verdict.tried.front().other_core) return;
  throw Error(ErrorCode::provider_unavailable,
              fmt::format("{} was requested ({}), and it needs another ONNX Runtime than the models before: serve this "
                          "model in a server of its own, or with --isolation process",
                          verdict.tried.front().id, verdict.requested_from));
}

// Empty where the model reads no texts.
std::optional<importer::SentenceModel> sentence_model_for(const OpenModel& opened) {
  const auto& inputs = opened.info.signature.inputs;
  const bool takes_tokens =
      std::any_of(inputs.begin(), inputs.end(), [](const auto& input) { return input.name == "input_ids"; });
  return takes_tokens ? importer::sentence_model_of(opened.located.onnx_file) : std::nullopt;
}

// A folder may have a tokenizer and a model that uses tokens differently: null, the model is served without texts.
std::shared_ptr<const embedding::SentenceEncoder> encoder_of(const std::string& name, importer::SentenceModel sentences,
                                                             const Runtime& runtime,
                                                             std::optional<embedding::Batching> batching) {
  try {
    return std::make_shared<embedding::SentenceEncoder>(std::move(sentences), runtime, batching);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_model) throw;
    log::info("{} makes no vectors of texts: {}", name, error.message());
    return nullptr;
  }
}

// Texts share runs as far as their vectors stay the same, unless that is waived.
void bound_batches_of_texts(const Said& said, const ServingFlags& flags, const embedding::SentenceEncoder& encoder,
                            const Runtime& session, ServingOptions& options) {
  const embedding::TextBatching batching = embedding::find_text_batching(encoder, session);
  const runtime::BatchLimits& found = batching.limits;
  if (options.padding == nullptr) options.padding = batching.padding;
  options.max_batch_size = said.setting(flags.max_batch_size, &ServingSettings::batch_size).value_or(found.max_rows);
  options.sharing = batching.sharing;
  options.fills_rows = found.fills_rows;
  if (encoder.batching() == embedding::Batching::exact || !batching.sharing.shared) {
    options.max_batch_size = std::min(options.max_batch_size, found.max_rows);
  }
  options.max_batch_cost =
      said.setting(flags.max_batch_cost, &ServingSettings::max_batch_cost).value_or(found.max_cost);
}

[[noreturn]] void refuse_batching(const std::string& name, const ServingFlags& flags) {
  if (flags.batching.empty()) {
    throw Error(ErrorCode::invalid_config,
                fmt::format("serving.batching is about vectors of texts, and '{}' makes none", name));
  }
  throw Error(ErrorCode::usage, fmt::format("--batching is about vectors of texts, and '{}' makes none; with several "
                                            "models say batching of each in --models",
                                            name));
}

// The settings that only a model that generates text has.
struct SaidOfTexts {
  std::optional<std::uint32_t> max_sequences, context_length;
  std::optional<std::uint64_t> cache_bytes;

  SaidOfTexts(const Said& said, const ServingFlags& flags)
      : max_sequences(said.setting(flags.max_sequences, &ServingSettings::max_sequences)),
        context_length(said.setting(flags.context_length, &ServingSettings::context_length)),
        cache_bytes(said.setting(flags.cache_bytes, &ServingSettings::cache_bytes)) {}

  void refuse_for(const std::string& name, const ServingFlags& flags) const {
    refuse(name, "max_sequences", max_sequences.has_value(), flags.max_sequences.has_value());
    refuse(name, "context_length", context_length.has_value(), flags.context_length.has_value());
    refuse(name, "cache_memory", cache_bytes.has_value(), flags.cache_bytes.has_value());
  }

 private:
  static void refuse(const std::string& name, std::string key, bool is_said, bool is_flag) {
    if (!is_said) return;
    if (!is_flag) {
      throw Error(ErrorCode::invalid_config,
                  fmt::format("serving.{} is about generated texts, and '{}' generates none", key, name));
    }
    std::ranges::replace(key, '_', '-');
    throw Error(ErrorCode::usage, fmt::format("--{} is about generated texts, and '{}' generates none; with several "
                                              "models say it of each in --models",
                                              key, name));
  }
};

// So that the first request for a chat is not taken for a slow one.
void measure_template(ServedModel& served) {
  const auto begin = RenderPace::Clock::now();
  const ChatMessage greeting{.role = "user", .content = "a"};
  // What the template refuses is the matter of who sends it.
  try {
    (void)served.chat()->text(std::span(&greeting, 1));
  } catch (const Error&) {
  }
  const auto end = RenderPace::Clock::now();
  served.render_pace().note(end - begin, end);
}

// A model without a template, or with one that cannot be used, still continues texts.
void set_chat(ServedModel& served, const std::filesystem::path& folder) {
  try {
    std::optional<generation::ChatTemplateTexts> texts = generation::read_chat_templates(folder);
    if (texts) {
      served.set_chat(std::make_shared<const generation::ChatPrompt>(*std::move(texts)), {});
      measure_template(served);
      return;
    }
    served.set_chat(nullptr, "it has no chat template");
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_model) throw;
    log::warning("{} takes no messages: {}", served.name(), error.message());
    served.set_chat(nullptr, "its chat template cannot be used; the log of the server has the reason");
  }
}

// Its engine runs the only session.
std::unique_ptr<ServedModel> load_decoder(const ListedModel& listed, OpenModel& opened, const Said& said,
                                          const ServingFlags& flags) {
  const std::string workers = said.text(flags.workers, &ServingSettings::workers);
  if (!workers.empty() && workers != "1") {
    throw Error(ErrorCode::usage, fmt::format("{} is '{}', and '{}' generates text with one session; accepted: 1, or "
                                              "max_sequences for texts at the same time",
                                              flags.workers.empty() ? "workers" : "--workers", workers, listed.name));
  }
  if (flags.runs_in_flight && *flags.runs_in_flight != 1) {
    throw Error(ErrorCode::usage, fmt::format("--runs-in-flight is {}, and '{}' generates text with one session; "
                                              "accepted: 1, or max_sequences for texts at the same time",
                                              *flags.runs_in_flight, listed.name));
  }
  if (opened.settings.options.sandbox != Sandbox::off) {
    throw Error(ErrorCode::usage,
                fmt::format("--sandbox is '{}', and '{}' generates text, which no worker process does "
                            "yet; accepted: off",
                            opened.settings.options.sandbox == Sandbox::strict ? "strict" : "on", listed.name));
  }
  if (opened.settings.options.isolation == Isolation::process) {
    throw Error(ErrorCode::usage, fmt::format("isolation is 'process' ({}), and '{}' generates text, whose caches the "
                                              "model updates in place; accepted: thread",
                                              opened.settings.isolation_request.from, listed.name));
  }
  if (!said.text(flags.batching, &ServingSettings::batching).empty()) refuse_batching(listed.name, flags);
  const SaidOfTexts texts(said, flags);
  ServingOptions options = serving_options(said, flags, opened, true);
  options.max_batch_size = 1;
  GeneratorOptions generator;
  generator.max_sequences = texts.max_sequences.value_or(generator.max_sequences);
  generator.context_length = texts.context_length.value_or(generator.context_length);
  generator.cache_bytes = texts.cache_bytes.value_or(generator.cache_bytes);
  generator.reuses_prefixes = !flags.no_prefix_caching;
  generator.max_waiting = options.max_queue;
  generation::ModelFiles files = generation::read_model_files(opened.located.onnx_file.parent_path());
  text::Tokenizer tokenizer = embedding::open_tokenizer(files.tokenizer);
  auto engine =
      std::make_shared<generation::Engine>(opened.load_decoder(), std::move(tokenizer), std::move(files), generator);
  require_this_core(engine->runtime());
  Workers loaded;
  loaded.sessions.emplace_back(engine, &engine->runtime());
  auto served =
      std::make_unique<ServedModel>(listed.name, listed.version, std::move(loaded), opened.located.project, options);
  served->set_engine(std::move(engine), generator);
  set_chat(*served, opened.located.onnx_file.parent_path());
  served->set_family(JsonSettings(opened.located.onnx_file.parent_path() / "config.json").text("model_type"));
  served->warm_up();
  return served;
}

// Null where the model is no decoder, or lacks what text needs: it is served without texts.
std::unique_ptr<ServedModel> load_generator(const ListedModel& listed, OpenModel& opened, const Said& said,
                                            const ServingFlags& flags) {
  if (!generation::decoder_signature(opened.info)) return nullptr;
  try {
    return load_decoder(listed, opened, said, flags);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_model && error.code() != ErrorCode::not_found) throw;
    log::info("{} generates no text: {}", listed.name, error.message());
    return nullptr;
  }
}

// Clients must not name files of this machine. A file as it is would be no text of JSON.
constexpr image::Sources sources_of_clients{.bytes = false, .base64 = true, .data_url = true, .path = false};

// A tower runs an image at a time: vectors do not depend on the images that others send.
std::unique_ptr<ServedModel> load_tower(const ListedModel& listed, const OpenModel& opened, const ImageTower& tower,
                                        ServingOptions options, const WorkerRequest& request, bool threads_are_set) {
  options.max_batch_size = 1;
  options.max_batch_cost = 0;
  options.padding = nullptr;
  options.sharing = {};
  options.warm_up.clear();
  LoadSettings settings = opened.settings;
  Workers workers = load_workers(request, settings.options, threads_are_set, [&](const LoadOptions& with) {
    settings.options = with;
    return load_image_tower(opened.located, tower, settings);
  });
  return std::make_unique<ServedModel>(listed.name, listed.version, std::move(workers), std::nullopt, options);
}

// Null where the model takes no images, or makes no vectors of them: a classifier.
std::shared_ptr<const embedding::ImageEncoder> image_encoder_of(const OpenModel& opened, const ImageTower& tower,
                                                                const Runtime& session) {
  const std::vector<SignatureEntry>& outputs = session.info().signature.outputs;
  if (tower.onnx_file == opened.located.onnx_file) {
    try {
      (void)embedding::choose_image_output(outputs, tower.facts.model_type);
    } catch (const Error&) {
      return nullptr;
    }
  }
  return std::make_shared<const embedding::ImageEncoder>(
      tower.facts, image_input_of(opened.located, tower, sources_of_clients), session);
}

// Reading the files of a model that is not stored would take as long as loading it.
std::string digest_of(const LocatedModel& located) {
  return located.stored ? located.stored->digest : sha256_of(PackageFingerprints().of(located));
}

}  // namespace

std::unique_ptr<ServedModel> load_served(const ListedModel& listed, const ServingFlags& flags) {
  OpenModel opened = open_listed(listed, flags);
  const Said said(listed, flags, opened);
  if (auto generator = load_generator(listed, opened, said, flags)) {
    generator->set_digest(digest_of(opened.located));
    return generator;
  }
  SaidOfTexts(said, flags).refuse_for(listed.name, flags);
  std::optional<importer::SentenceModel> sentences = sentence_model_for(opened);
  ServingOptions options = serving_options(said, flags, opened, sentences.has_value());
  const WorkerRequest request =
      workers_asked_for(said, flags, sentences ? std::to_string(usable_processors(Machine::this_one())) : "1");
  if (sentences) {
    opened.settings.options.pooled_output = embedding::graph_pooling(*sentences, opened.info.signature);
  }
  opened.settings.options.expected_sizes = expected_sizes(opened.info.signature, said.sizes(opened));
  const bool threads_are_set = opened.settings.options.intra_threads.has_value();
  Workers loaded = load_workers(request, opened.settings.options, threads_are_set, [&](const LoadOptions& with) {
    opened.settings.options = with;
    return opened.load();
  });
  const Runtime& session = *loaded.sessions.front();
  require_this_core(session);
  const std::string batching = said.text(flags.batching, &ServingSettings::batching);
  std::shared_ptr<const embedding::SentenceEncoder> encoder;
  if (sentences) {
    encoder = encoder_of(listed.name, *std::move(sentences), session, embedding::batching_from(batching));
  }
  if (encoder) {
    bound_batches_of_texts(said, flags, *encoder, session, options);
  } else if (!batching.empty()) {
    refuse_batching(listed.name, flags);
  }
  // runtime.batch_size limits every run.
  if (opened.settings.batch_limit != 0) {
    options.max_batch_size = std::min(options.max_batch_size, static_cast<std::int64_t>(opened.settings.batch_limit));
  }
  // A larger run would be refused.
  if (const std::int64_t most = provider::max_rows_of(provider::active_profile(session.verdict()).ranges); most != 0) {
    options.max_batch_size = std::min(options.max_batch_size, most);
  }
  if (!encoder && options.max_batch_size > 1) {
    options.sharing = session.run_sharing({.sizes = options.warm_up});
  }
  auto served =
      std::make_unique<ServedModel>(listed.name, listed.version, std::move(loaded), opened.located.project, options);
  served->set_digest(digest_of(opened.located));
  if (opened.pipeline) served->set_pipeline(opened.pipeline);
  if (opened.image_input) {
    // Clients must not name files of this machine.
    opened.image_input->sources.path = false;
    served->set_image_input(*opened.image_input);
  }
  served->set_encoder(std::move(encoder));
  if (const std::optional<ImageTower> tower = image_tower_of(opened.located)) {
    const bool is_own = tower->onnx_file == opened.located.onnx_file;
    std::unique_ptr<ServedModel> own;
    if (!is_own) own = load_tower(listed, opened, *tower, options, request, threads_are_set);
    const Runtime& runtime = is_own ? served->runtime() : own->runtime();
    std::shared_ptr<const embedding::ImageEncoder> images = image_encoder_of(opened, *tower, runtime);
    served->set_image_encoder(std::move(images), std::move(own));
  }
  served->warm_up();
  return served;
}

}  // namespace gpux::server

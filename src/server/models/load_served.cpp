#include "server/models/load_served.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/format_message.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/processors.h"
#include "base/sha256.h"
#include "checkpoint/json_settings.h"
#include "checkpoint/sentence_model.h"
#include "embedding/graph_pooling.h"
#include "embedding/sentence_encoder.h"
#include "embedding/text_batching.h"
#include "generation/decoder_signature.h"
#include "generation/engine.h"
#include "gpux/error.h"
#include "isolation/load_facts.h"
#include "model/open_generator.h"
#include "model/open_image_encoder.h"
#include "model/open_model.h"
#include "model/package_fingerprint.h"
#include "project/project_check.h"
#include "provider/shape_profile.h"
#include "runtime/scheduling/padding.h"
#include "server/http/server.h"
#include "server/models/thread_plan.h"

namespace gpux::server {
namespace {

// What the flags, the list of models and gpux.yml say, in this order.
ServingRequest serving_request(const ListedModel& listed, const ServingFlags& flags, const OpenModel& opened) {
  ServingRequest request = merge(flags.serving, serving_request_of(listed, flags.models_file));
  return opened.located.project ? merge(std::move(request), serving_request_of(*opened.located.project)) : request;
}

// Where it says nothing of rows, gpux.yml's runtime.batch_size does.
SizeFacts sizes_of(const OpenModel& opened, const ServingRequest& serving) {
  SizeFacts facts = opened.sizes();
  if (serving.max_batch_size) {
    facts.max_rows = serving.max_batch_size->value;
    facts.rows_from = serving.max_batch_size->source.name;
  }
  if (serving.warm_up) facts.warm_up = serving.warm_up->value;
  return facts;
}

// Null where nothing is said, or an empty map.
std::shared_ptr<const runtime::Padding> padding_of(const ServingRequest& serving, const Signature& signature) {
  if (!serving.padding || serving.padding->value.empty()) return nullptr;
  const Source& source = serving.padding->source;
  try {
    return std::make_shared<const runtime::Padding>(
        runtime::read_padding(serving.padding->value, signature, source.name));
  } catch (const Error& error) {
    throw error.within(source.place);
  }
}

void set_restarts(const ServingRequest& serving, LoadOptions& options) {
  if (serving.stop_grace) options.stop_grace = serving.stop_grace->value;
  if (serving.max_restart_delay) options.max_restart_delay = serving.max_restart_delay->value;
}

OpenModel open_listed(const ListedModel& listed, const ServingFlags& flags) {
  const std::string config = flags.config.empty() ? listed.config.string() : flags.config;
  OpenModel opened = open_model(listed.model, config, merge(flags.load, request_of(listed)));
  opened.open_inputs();
  change_facts(opened.settings.options, [&](LoadFacts& facts) { facts.worker_name = listed.name; });
  set_restarts(flags.serving, opened.settings.options);
  return opened;
}

template <typename Value>
Value value_or(const MaybeSetting<Value>& setting, Value otherwise) {
  return setting ? setting->value : otherwise;
}

// A limit of requests that the user asked for now comes before that of the list and gpux.yml, and these before
// runtime.timeout.
std::optional<std::chrono::milliseconds> time_limit(const ServingRequest& serving, const LoadSettings& settings) {
  const auto& of_run = settings.request.timeout;
  if (!serving.timeout || (of_run && is_asked_now(of_run->source))) return settings.timeout();
  return serving.timeout->value;
}

ServingOptions serving_options(const ServingRequest& serving, const ServingFlags& flags, const OpenModel& opened,
                               bool reads_texts) {
  ServingOptions options;
  options.max_batch_size = value_or(serving.max_batch_size, reads_texts ? 1 : options.max_batch_size);
  options.max_batch_cost = value_or(serving.max_batch_cost, options.max_batch_cost);
  options.padding = padding_of(serving, opened.info.signature);
  options.max_queue_delay = value_or(serving.max_queue_delay, std::chrono::milliseconds(0));
  options.max_queue = value_or(serving.max_queue, options.max_queue);
  options.timeout = time_limit(serving, opened.settings);
  options.quick_lanes = flags.io_threads != 0 ? flags.io_threads : http::threads_by_default();
  // gRPC's threads are its own.
  if (!flags.no_grpc) options.quick_lanes *= 2;
  if (serving.warm_up) options.warm_up = serving.warm_up->value;
  return options;
}

// With as many threads as the limit of processors allows.
WorkerRequest limit_threads(const ListedModel& listed, const ServingRequest& serving, const WorkerRequest& workers,
                            OpenModel& opened) {
  LoadOptions& options = opened.settings.options;
  try {
    const ThreadPlan plan = within_processors({.workers = workers,
                                               .workers_are_set = serving.workers.has_value(),
                                               .intra_threads = options.intra_threads,
                                               .inter_threads = options.inter_threads},
                                              listed.limits.processors, usable_cores(Machine::this_one()));
    options.intra_threads = plan.intra_threads;
    return plan.workers;
  } catch (const Error& error) {
    throw error.within(fmt::format("models.{}", listed.name));
  }
}

WorkerRequest requested_workers(const ServingRequest& serving, unsigned by_default) {
  WorkerRequest request = value_or(serving.workers, WorkerRequest{.count = by_default});
  request.most = value_or(serving.max_workers, 0U);
  if (serving.runs_in_flight) request.in_flight = serving.runs_in_flight->value;
  if (serving.max_workers && request.kind != WorkerRequest::Kind::automatic && request.count > request.most) {
    throw Error(ErrorCode::usage,
                fmt::format("{} workers are asked for, and max_workers is {}", request.count, request.most));
  }
  return request;
}

// All models of a process share the ONNX Runtime that the first opened: one that was asked to run on what needs another
// would run elsewhere for as long as the server lives.
void require_this_core(const Runtime& session) {
  const Verdict& verdict = session.verdict();
  if (verdict.requested_from == "default" || verdict.tried.empty() || !verdict.tried.front().other_core) return;
  throw Error(ErrorCode::provider_unavailable,
              format_message("{} was requested ({}), and it needs another ONNX Runtime than the models before: serve "
                             "this model in a server of its own, or with {} process",
                             verdict.tried.front().id, verdict.requested_from, setting_named("isolation")));
}

// Empty where the model reads no texts.
std::optional<checkpoint::SentenceModel> sentence_model_for(const OpenModel& opened) {
  if (!opened.steps.empty()) return std::nullopt;
  const auto& inputs = opened.info.signature.inputs;
  const bool takes_tokens =
      std::any_of(inputs.begin(), inputs.end(), [](const auto& input) { return input.name == "input_ids"; });
  return takes_tokens ? checkpoint::sentence_model_of(opened.located.onnx_file) : std::nullopt;
}

// A folder may have a tokenizer and a model that uses tokens differently: null, the model is served without texts.
std::shared_ptr<const embedding::SentenceEncoder> encoder_of(const std::string& name,
                                                             checkpoint::SentenceModel sentences,
                                                             const Runtime& runtime,
                                                             std::optional<TextBatching> batching) {
  try {
    return std::make_shared<embedding::SentenceEncoder>(std::move(sentences), runtime, batching);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_model) throw;
    log::info("{} makes no vectors of texts: {}", name, error.message());
    return nullptr;
  }
}

// Texts share runs as far as their vectors stay the same, unless that is waived.
void bound_batches_of_texts(const ServingRequest& serving, const embedding::SentenceEncoder& encoder,
                            const Runtime& session, ServingOptions& options) {
  const embedding::TextSharing batching = embedding::find_text_batching(encoder, session);
  const runtime::BatchLimits& found = batching.limits;
  if (options.padding == nullptr) options.padding = batching.padding;
  options.max_batch_size = value_or(serving.max_batch_size, found.max_rows);
  options.sharing = batching.sharing;
  options.fills_rows = found.fills_rows;
  if (encoder.batching() == TextBatching::exact || !batching.sharing.shared) {
    options.max_batch_size = std::min(options.max_batch_size, found.max_rows);
  }
  options.max_batch_cost = value_or(serving.max_batch_cost, found.max_cost);
}

// A setting that is about something that the model does not do.
[[noreturn]] void refuse_as_idle(const Source& source, const std::string& about) {
  if (source.kind == Source::Kind::flag) {
    std::string key = source.name.substr(source.name.find_first_not_of('-'));
    throw Error(ErrorCode::usage, format_message("{} {}; with several models say {} of each in {}", source.name, about,
                                                 key == "batching" ? key : "it", setting_named("models")));
  }
  throw Error(ErrorCode::invalid_config, fmt::format("{} {}", source.name, about));
}

[[noreturn]] void refuse_batching(const std::string& name, const Source& source) {
  refuse_as_idle(source, fmt::format("is about vectors of texts, and '{}' makes none", name));
}

// The settings that only a model that generates text has.
void refuse_generation_settings(const std::string& name, const ServingRequest& serving) {
  const auto refuse = [&](const auto& setting) {
    if (setting) {
      refuse_as_idle(setting->source, fmt::format("is about generated texts, and '{}' generates none", name));
    }
  };
  refuse(serving.max_sequences);
  refuse(serving.context_length);
  refuse(serving.cache_bytes);
}

void refuse_draft(const std::string& name, const ServingFlags& flags) {
  if (flags.draft.empty()) return;
  throw Error(ErrorCode::usage,
              format_message("{} is about generated texts, and '{}' generates none", setting_named("draft"), name));
}

// So that the first request for a chat is not taken for a slow one.
void measure_template(const TextGeneration& generation) {
  const auto begin = RenderPace::Clock::now();
  const ChatMessage greeting{.role = "user", .content = "a"};
  // What the template refuses is the matter of who sends it.
  try {
    (void)generation.chat.prompt()->text(std::span(&greeting, 1));
  } catch (const Error&) {
  }
  const auto end = RenderPace::Clock::now();
  generation.render_pace->note(end - begin, end);
}

void set_chat(const std::string& name, generation::ModelChat chat, TextGeneration& generation) {
  if (const std::optional<Error>& problem = chat.problem(); problem && chat.has_template()) {
    if (problem->code() != ErrorCode::invalid_model) throw Error(*problem);
    log::warning("{} takes no messages: {}", name, problem->message());
  }
  generation.chat = std::move(chat);
  if (generation.chat.prompt() != nullptr) measure_template(generation);
}

void refuse_runs_in_flight(const std::string& name, const ServingRequest& serving) {
  if (!serving.runs_in_flight || serving.runs_in_flight->value == 1) return;
  throw Error(ErrorCode::usage, fmt::format("{} is '{}', and a session of '{}', which generates text, has one run at a "
                                            "time; accepted: 1, or max_sequences for texts at the same time",
                                            serving.runs_in_flight->source.name, serving.runs_in_flight->value, name));
}

// Each engine runs a session of its own.
ModelParts load_decoder(const ListedModel& listed, OpenModel& opened, const ServingRequest& serving,
                        const ServingFlags& flags) {
  refuse_runs_in_flight(listed.name, serving);
  if (serving.batching) refuse_batching(listed.name, serving.batching->source);
  ServingOptions options = serving_options(serving, flags, opened, true);
  options.max_batch_size = 1;
  GeneratorOptions generator;
  generator.max_sequences = value_or(serving.max_sequences, generator.max_sequences);
  generator.context_length = value_or(serving.context_length, generator.context_length);
  generator.cache_bytes = value_or(serving.cache_bytes, generator.cache_bytes);
  generator.reuses_prefixes = !flags.no_prefix_caching;
  generator.prompt_lookup = !flags.no_prompt_lookup;
  generator.draft = flags.draft;
  generator.cache_precision = flags.cache_precision;
  generator.prompt_cache = flags.prompt_cache;
  generator.prompt_cache_bytes = flags.prompt_cache_bytes;
  generator.max_waiting = options.max_queue;
  const bool threads_are_set = opened.settings.options.intra_threads.has_value();
  const WorkerRequest request = limit_threads(listed, serving, requested_workers(serving, 1), opened);
  OpenGenerator open = open_generator(opened, flags.draft, merge(flags.load, request_of(listed)));
  ModelParts parts{.name = listed.name, .version = listed.version};
  parts.session.workers = load_owners(request, opened.settings.options, threads_are_set, [&](const LoadOptions& with) {
    open.model.settings.options = with;
    std::shared_ptr<generation::Engine> engine = open.load(generator);
    parts.generation.engines.push_back(engine);
    const Runtime& session = engine->runtime();
    return std::shared_ptr<const Runtime>(std::move(engine), &session);
  });
  require_this_core(*parts.session.workers.sessions.front());
  parts.project = opened.located.project;
  parts.session.options = std::move(options);
  parts.generation.options = generator;
  set_chat(listed.name, open.read_chat(), parts.generation);
  parts.generation.family = JsonSettings(opened.located.onnx_file.parent_path() / "config.json").text("model_type");
  warm_up(parts);
  return parts;
}

// Empty where the model is no decoder, or lacks what text needs: it is served without texts.
std::optional<ModelParts> load_generator(const ListedModel& listed, OpenModel& opened, const ServingRequest& serving,
                                         const ServingFlags& flags) {
  if (!opened.steps.empty() || !generation::decoder_signature(opened.info)) return std::nullopt;
  try {
    return load_decoder(listed, opened, serving, flags);
  } catch (const Error& error) {
    const bool is_otherwise_served = error.code() == ErrorCode::invalid_model || error.code() == ErrorCode::not_found;
    if (!is_otherwise_served || !flags.draft.empty()) throw;
    log::info("{} generates no text: {}", listed.name, error.message());
    return std::nullopt;
  }
}

// Clients must not name files of this machine. A file as it is would be no text of JSON.
constexpr image::Sources sources_of_clients{.bytes = false, .base64 = true, .data_url = true, .path = false};

// A tower runs an image at a time: vectors do not depend on the images that others send.
SessionParts load_tower(const OpenModel& opened, const ImageTower& tower, ServingOptions options,
                        const WorkerRequest& request, bool threads_are_set) {
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
  return {std::move(workers), std::move(options)};
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

void limit_batches(const OpenModel& opened, const Runtime& session, ServingOptions& options) {
  // runtime.batch_size limits every run.
  if (opened.settings.batch_limit != 0) {
    options.max_batch_size = std::min(options.max_batch_size, static_cast<std::int64_t>(opened.settings.batch_limit));
  }
  // A larger run would be refused.
  if (const std::int64_t most = provider::max_rows_of(provider::active_profile(session.verdict()).ranges); most != 0) {
    options.max_batch_size = std::min(options.max_batch_size, most);
  }
}

// What becomes of the texts and images that clients send.
void add_inputs(const OpenModel& opened, ModelParts& parts) {
  parts.project = opened.located.project;
  parts.pipeline = opened.pipeline;
  parts.image_input = opened.image_input;
  // Clients must not name files of this machine.
  if (parts.image_input) parts.image_input->sources.path = false;
}

ModelParts load_opened(const ListedModel& listed, const ServingFlags& flags) {
  OpenModel opened = open_listed(listed, flags);
  const ServingRequest serving = serving_request(listed, flags, opened);
  if (auto generator = load_generator(listed, opened, serving, flags)) {
    generator->digest = digest_of(opened.located);
    return *std::move(generator);
  }
  refuse_generation_settings(listed.name, serving);
  refuse_draft(listed.name, flags);
  std::optional<checkpoint::SentenceModel> sentences = sentence_model_for(opened);
  ServingOptions options = serving_options(serving, flags, opened, sentences.has_value());
  const bool threads_are_set = opened.settings.options.intra_threads.has_value();
  const WorkerRequest request = limit_threads(
      listed, serving, requested_workers(serving, sentences ? usable_processors(Machine::this_one()) : 1), opened);
  // Threads that read requests would compute beside them, and as urgently as those of other models.
  if (listed.limits.processors != 0 || listed.nice != 0) options.quick_lanes = 0;
  if (sentences) {
    opened.settings.options.pooled_output = embedding::graph_pooling(*sentences, opened.info.signature);
  }
  opened.settings.options.expected_sizes = expected_sizes(opened.info.signature, sizes_of(opened, serving));
  Workers loaded = load_workers(request, opened.settings.options, threads_are_set, [&](const LoadOptions& with) {
    opened.settings.options = with;
    return opened.load();
  });
  const Runtime& session = *loaded.sessions.front();
  require_this_core(session);
  std::optional<TextBatching> batching;
  if (serving.batching) batching = serving.batching->value;
  std::shared_ptr<const embedding::SentenceEncoder> encoder;
  if (sentences) {
    encoder = encoder_of(listed.name, *std::move(sentences), session, batching);
  }
  if (encoder) {
    bound_batches_of_texts(serving, *encoder, session, options);
  } else if (serving.batching) {
    refuse_batching(listed.name, serving.batching->source);
  }
  limit_batches(opened, session, options);
  if (!encoder && options.max_batch_size > 1) {
    options.sharing = session.run_sharing({.sizes = options.warm_up});
  }
  ModelParts parts{.name = listed.name, .version = listed.version, .digest = digest_of(opened.located)};
  add_inputs(opened, parts);
  parts.encoder = std::move(encoder);
  const bool is_ensemble = !opened.steps.empty();
  if (const auto tower = is_ensemble ? std::nullopt : image_tower_of(opened.located)) {
    const Runtime* images = &session;
    if (tower->onnx_file != opened.located.onnx_file) {
      const SessionParts& own =
          parts.image_tower.emplace(load_tower(opened, *tower, options, request, threads_are_set));
      images = own.workers.sessions.front().get();
    }
    parts.image_encoder = image_encoder_of(opened, *tower, *images);
  }
  parts.session = {std::move(loaded), std::move(options)};
  warm_up(parts);
  return parts;
}

}  // namespace

ModelParts load_served(const ListedModel& listed, const ServingFlags& flags) {
  ModelParts parts = load_opened(listed, flags);
  parts.limits = listed.limits;
  return parts;
}

}  // namespace gpux::server

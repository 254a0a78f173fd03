#include "cli/served_models.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "base/home.h"
#include "base/log.h"
#include "base/machine.h"
#include "cli/open_model.h"
#include "embedding/sentence_encoder.h"
#include "embedding/sentence_model.h"
#include "embedding/text_batching.h"
#include "gpux/error.h"
#include "model/models_file.h"
#include "model/project_check.h"
#include "model/storage_error.h"
#include "runtime/padding.h"
#include "server/http/server.h"

namespace gpux::cli {
namespace {

namespace fs = std::filesystem;

struct Argument {
  std::string name, model;  // name is empty where the model's own is meant
};

Argument read_argument(const std::string& text) {
  // A path that exists is that path, whatever its name holds.
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || fs::exists(text)) return {{}, text};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

// The first that speaks: a flag, a list of models, gpux.yml.
template <typename T>
std::optional<T> first_of(const std::optional<T>& first, const std::optional<T>& second) {
  return first ? first : second;
}

// All models of a process share the ONNX Runtime that the first opened: one that was asked to run on what needs another
// would run elsewhere for as long as the server lives.
void require_this_core(const Runtime& session) {
  const Verdict& verdict = session.verdict();
  if (verdict.requested_from == "default" || verdict.tried.empty() || !verdict.tried.front().other_core) return;
  throw Error(ErrorCode::provider_unavailable,
              fmt::format("{} was asked for ({}), and it needs another ONNX Runtime than the models before: serve this "
                          "model in a server of its own",
                          verdict.tried.front().id, verdict.requested_from));
}

// Null where nothing is said, or an empty map.
std::shared_ptr<const runtime::Padding> padding_of(const ListedModel& listed, const OpenModel& opened,
                                                   const std::string& models_file) {
  const auto& project = opened.located.project;
  const bool is_listed = listed.serving.padding.has_value();
  const auto setting = first_of(listed.serving.padding, project ? project->serving.padding : std::nullopt);
  if (!setting || setting->empty()) return nullptr;
  const std::string key = is_listed ? fmt::format("models.{}.padding", listed.name) : "serving.padding";
  try {
    return std::make_shared<const runtime::Padding>(runtime::read_padding(*setting, opened.info.signature, key));
  } catch (const Error& error) {
    throw error.within(is_listed ? models_file : project->where(key));
  }
}

// Empty where the model reads no texts.
std::optional<embedding::SentenceModel> sentence_model_for(const OpenModel& opened) {
  const auto& inputs = opened.info.signature.inputs;
  const bool takes_tokens =
      std::any_of(inputs.begin(), inputs.end(), [](const auto& input) { return input.name == "input_ids"; });
  return takes_tokens ? embedding::sentence_model_of(opened.located.onnx_file) : std::nullopt;
}

// A tokenizer may lie beside a model that makes something else of its tokens: null, it is served without.
std::shared_ptr<const embedding::SentenceEncoder> encoder_of(const std::string& name,
                                                             embedding::SentenceModel sentences, const Runtime& runtime,
                                                             embedding::Batching batching) {
  try {
    return std::make_shared<embedding::SentenceEncoder>(std::move(sentences), runtime, batching);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_model) throw;
    log::info("{} makes no vectors of texts: {}", name, error.message());
    return nullptr;
  }
}

std::unique_ptr<server::ServedModel> load_served(const ListedModel& listed, const ServeFlags& flags) {
  LoadFlags load = flags.load;
  if (load.provider.empty() && !listed.provider.empty()) {
    load.provider = listed.provider;
    load.provider_from = "the list of models";
  }
  if (load.strict.empty() && listed.strict) {
    load.strict = *listed.strict == Strictness::nodes ? "nodes" : *listed.strict == Strictness::off ? "false" : "true";
  }
  const std::string config = flags.config.empty() ? listed.config.string() : flags.config;
  OpenModel opened = open_model(listed.model, config, load, flags.timeout);
  opened.open_inputs();
  const ServingSettings own = opened.located.project ? opened.located.project->serving : ServingSettings{};
  const ServingSettings& said = listed.serving;

  server::ServingOptions options;
  // runtime.batch_size bounds a run, whoever asks for it.
  const auto batch = first_of(flags.max_batch_size, first_of(said.batch_size, own.batch_size));
  std::optional<embedding::SentenceModel> sentences = sentence_model_for(opened);
  options.max_batch_size = batch.value_or(sentences ? 1 : options.max_batch_size);
  const auto cost = first_of(flags.max_batch_cost, first_of(said.max_batch_cost, own.max_batch_cost));
  options.max_batch_cost = cost.value_or(options.max_batch_cost);
  options.padding = padding_of(listed, opened, flags.models_file);
  options.max_queue_delay =
      flags.max_queue_delay.empty()
          ? first_of(said.max_queue_delay, own.max_queue_delay).value_or(std::chrono::milliseconds(0))
          : duration_of(flags.max_queue_delay, "--max-queue-delay");
  options.max_queue = flags.max_queue.value_or(first_of(said.max_queue, own.max_queue).value_or(1024));
  const bool timeout_is_flag = !flags.timeout.empty() || !environment_variable("GPUX_TIMEOUT").empty();
  options.timeout = timeout_is_flag ? opened.settings.timeout
                                    : first_of(first_of(said.timeout, own.timeout), opened.settings.timeout);
  options.quick_lanes = flags.io_threads != 0 ? flags.io_threads : http::threads_by_default();
  // gRPC's threads are its own.
  if (!flags.no_grpc) options.quick_lanes *= 2;
  options.warm_up = said.warm_up.empty() ? own.warm_up : said.warm_up;

  std::string workers = flags.workers;
  if (workers.empty()) {
    workers = first_of(said.workers, own.workers).value_or(sentences ? std::to_string(usable_processors()) : "1");
  }
  server::WorkerRequest request = server::worker_request_from(workers, flags.workers.empty() ? "workers" : "--workers");
  const std::optional<unsigned> most = first_of(flags.max_workers, first_of(said.max_workers, own.max_workers));
  request.most = most.value_or(0);
  if (most && request.kind == server::WorkerRequest::Kind::count && request.count > *most) {
    throw Error(ErrorCode::usage, fmt::format("{} workers are asked for, and max_workers is {}", request.count, *most));
  }
  const bool threads_are_set = opened.settings.options.intra_threads.has_value();
  server::Workers loaded =
      server::load_workers(request, opened.settings.options, threads_are_set, [&](const LoadOptions& with) {
        opened.settings.options = with;
        return opened.load();
      });
  const Runtime& session = *loaded.sessions.front();
  require_this_core(session);
  const std::string batching =
      flags.batching.empty() ? first_of(said.batching, own.batching).value_or("") : flags.batching;
  std::shared_ptr<const embedding::SentenceEncoder> encoder;
  if (sentences) {
    encoder = encoder_of(listed.name, *std::move(sentences), session,
                         embedding::batching_from(batching).value_or(embedding::Batching::exact));
  }
  if (encoder) {
    const runtime::BatchLimits found = embedding::find_batch_limits(*encoder, session);
    options.max_batch_size = batch.value_or(found.max_rows);
    if (encoder->batching() == embedding::Batching::exact) {
      options.max_batch_size = std::min(options.max_batch_size, found.max_rows);
    }
    options.max_batch_cost = cost.value_or(found.max_cost);
  } else if (!batching.empty()) {
    throw Error(flags.batching.empty() ? ErrorCode::invalid_config : ErrorCode::usage,
                fmt::format("{} is about vectors of texts, and '{}' makes none",
                            flags.batching.empty() ? "serving.batching" : "--batching", listed.name));
  }
  if (opened.settings.batch_limit != 0) {
    options.max_batch_size = std::min(options.max_batch_size, static_cast<std::int64_t>(opened.settings.batch_limit));
  }
  auto served = std::make_unique<server::ServedModel>(listed.name, listed.version, std::move(loaded),
                                                      std::move(opened.located.project), options);
  if (opened.pipeline) served->set_pipeline(opened.pipeline);
  if (opened.picture) {
    // What lies on this machine is not for clients to name.
    opened.picture->sources.path = false;
    served->set_picture(*opened.picture);
  }
  served->set_encoder(std::move(encoder));
  served->warm_up();
  return served;
}

void append_file(std::string& out, const fs::path& file) {
  std::error_code error;
  const auto time = fs::last_write_time(file, error);
  const auto size = error ? 0 : fs::file_size(file, error);
  out += fmt::format("{}|{}|{}\n", file.string(), error ? 0 : time.time_since_epoch().count(), size);
}

// Every file of the folder by name, size and time: external data and gpux.yml count as well as the model.
std::string fingerprint_of(const fs::path& onnx_file, const fs::path& project_file) {
  std::string out;
  append_file(out, onnx_file);
  if (!project_file.empty()) append_file(out, project_file);
  std::vector<fs::path> beside;
  std::error_code error;
  for (fs::directory_iterator i(onnx_file.parent_path(), error), end; !error && i != end; i.increment(error)) {
    if (i->is_regular_file(error) && i->path().stem().string().starts_with(onnx_file.stem().string())) {
      beside.push_back(i->path());
    }
  }
  std::sort(beside.begin(), beside.end());
  for (const fs::path& file : beside) append_file(out, file);
  return out;
}

server::ModelSource source_of(ListedModel listed, const LocatedModel& located, const ServeFlags& flags) {
  if (listed.name.empty()) listed.name = located.name;
  if (listed.version.empty()) listed.version = located.version;
  server::ModelSource source;
  source.name = listed.name;
  source.version = listed.version;
  source.pinned = listed.pinned;
  source.load = [listed = std::move(listed), flags] { return load_served(listed, flags); };
  source.fingerprint = [file = located.onnx_file, project = located.project ? located.project->file : fs::path()] {
    return fingerprint_of(file, project);
  };
  return source;
}

server::ModelSource from_listed(const ListedModel& listed, const ServeFlags& flags, const Store& store) {
  const std::string config = flags.config.empty() ? listed.config.string() : flags.config;
  return source_of(listed, locate(listed.model, store, config.empty() ? std::nullopt : std::optional<fs::path>(config)),
                   flags);
}

server::ModelSource from_argument(const std::string& text, const ServeFlags& flags, const Store& store) {
  const Argument argument = read_argument(text);
  ListedModel listed;
  listed.name = argument.name;
  listed.model = argument.model;
  return from_listed(listed, flags, store);
}

std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (fs::directory_iterator i(folder, error), end; !error && i != end; i.increment(error)) {
    if (i->is_directory() && !i->path().filename().string().starts_with('.')) folders.push_back(i->path());
  }
  if (error) throw_storage_error("read the folder", folder, error.value());
  std::sort(folders.begin(), folders.end());
  return folders;
}

bool is_version(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

void add_repository(const ServeFlags& flags, const Store& store, std::vector<server::ModelSource>& sources) {
  for (const fs::path& folder : folders_in(flags.repository)) {
    std::string latest;
    for (const fs::path& version : folders_in(folder)) {
      const std::string name = version.filename().string();
      if (is_version(name) && (latest.empty() || server::version_less(latest, name))) latest = name;
    }
    const fs::path place = latest.empty() ? folder : folder / latest;
    std::error_code error;
    const fs::path file = place / "model.onnx";
    ListedModel listed;
    listed.name = folder.filename().string();
    listed.version = latest;
    listed.model = fs::exists(file, error) && !fs::exists(place / "gpux.yml", error) ? file.string() : place.string();
    try {
      sources.push_back(source_of(listed, locate(listed.model, store), flags));
      sources.back().required = false;
    } catch (const Error& failure) {
      // One folder that cannot be read is that model's misfortune, not the server's.
      server::ModelSource source;
      source.name = folder.filename().string();
      source.version = latest;
      source.required = false;
      source.load = [failure]() -> std::unique_ptr<server::ServedModel> { throw Error(failure); };
      sources.push_back(std::move(source));
    }
  }
}

}  // namespace

std::chrono::milliseconds duration_of(const std::string& text, const char* flag) {
  if (text == "0" || text == "0s" || text == "0ms") return std::chrono::milliseconds(0);
  const auto duration = duration_from(text);
  if (!duration) {
    throw Error(ErrorCode::usage, fmt::format("{} is '{}'; accepted: 0, or a time like 5s or 500ms", flag, text));
  }
  return *duration;
}

std::vector<server::ModelSource> served_models(const ServeFlags& flags) {
  const Store store = open_store();
  std::vector<server::ModelSource> sources;
  for (const std::string& text : flags.models) sources.push_back(from_argument(text, flags, store));
  if (!flags.models_file.empty()) {
    for (const ListedModel& listed : read_models_file(flags.models_file).models) {
      sources.push_back(from_listed(listed, flags, store));
    }
  }
  if (!flags.repository.empty()) add_repository(flags, store, sources);
  std::set<std::pair<std::string, std::string>> known;
  for (const server::ModelSource& source : sources) {
    if (known.emplace(source.name, source.version).second) continue;
    throw Error(ErrorCode::usage, fmt::format("two models are called '{}' and have version {}: give one another name "
                                              "with NAME=MODEL",
                                              source.name, source.version));
  }
  return sources;
}

ListenAddress listen_address(const ServeFlags& flags, const server::ModelRepository& repository) {
  std::optional<std::string> host;
  std::optional<std::uint16_t> port;
  const auto agree = [](auto& known, const auto& said, bool decided, const char* key) {
    if (decided || !said) return;
    if (known && *known != *said) {
      throw Error(ErrorCode::invalid_config,
                  fmt::format("models say {0} {1} and {2}: decide with --{0}", key, *known, *said));
    }
    known = said;
  };
  for (const auto& model : repository.models()) {
    if (model->project() == nullptr) continue;
    agree(host, model->project()->serving.host, !flags.host.empty(), "host");
    agree(port, model->project()->serving.port, flags.port.has_value(), "port");
  }
  return {flags.host.empty() ? host.value_or("127.0.0.1") : flags.host, flags.port.value_or(port.value_or(8080))};
}

std::string default_model(const ServeFlags& flags) {
  if (!flags.default_model.empty() || flags.models_file.empty()) return flags.default_model;
  return read_models_file(flags.models_file).default_model;
}

}  // namespace gpux::cli

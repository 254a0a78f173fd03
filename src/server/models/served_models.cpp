#include "server/models/served_models.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "base/failure_of.h"
#include "base/files.h"
#include "base/format_message.h"
#include "base/in_quotes.h"
#include "base/log.h"
#include "base/spelling.h"
#include "base/storage_error.h"
#include "gpux/error.h"
#include "model/open_model.h"
#include "project/models_file.h"
#include "project/project_check.h"
#include "server/models/load_served.h"
#include "server/models/model_weight.h"
#include "server/models/version_order.h"

namespace gpux::server {
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

// What a list of models says about one, as text: a change of it is a change of the model.
std::string settings_of(const ListedModel& listed) {
  const ServingSettings& serving = listed.serving;
  std::string out = fmt::format("{}|{}|{}|{}|{}|{}|{}", listed.model, listed.version, listed.provider,
                                listed.config.string(), listed.strict ? static_cast<int>(*listed.strict) : -1,
                                listed.isolation ? static_cast<int>(*listed.isolation) : -1, listed.pinned);
  const auto add = [&](const auto& value) {
    out += '|';
    if (value) out += fmt::format("{}", *value);
  };
  add(serving.batch_size);
  add(serving.max_batch_cost);
  add(serving.batching);
  add(serving.batch_axis ? std::optional(static_cast<int>(*serving.batch_axis)) : std::nullopt);
  add(serving.max_queue);
  add(serving.max_sequences);
  add(serving.context_length);
  add(serving.cache_bytes);
  add(serving.workers);
  add(serving.max_workers);
  for (const auto& time : {serving.max_queue_delay, serving.timeout}) {
    add(time ? std::optional(time->count()) : std::nullopt);
  }
  out += fmt::format("|nice={}", listed.nice);
  for (const auto& [limit, value] : given_limits(listed.limits)) out += fmt::format("|{}={}", limit, value);
  if (serving.padding) {
    for (const auto& [input, number] : *serving.padding) out += fmt::format("|{}={}", input, number);
  }
  for (const auto& run : serving.warm_up) {
    out += "|run";
    for (const auto& [dimension, size] : run) out += fmt::format("|{}={}", dimension, size);
  }
  return out + "\n";
}

void require_name(const TritonConfig& config, const std::string& name, const std::string& place) {
  if (config.name.empty() || config.name == name) return;
  throw Error(ErrorCode::invalid_config, fmt::format("{}: name is {}, and the model is called {}", place,
                                                     in_quotes(config.name), in_quotes(name)));
}

ModelParts load_configured(const ListedModel& listed, const ServingFlags& flags, const TritonConfig& config,
                           const std::string& place, bool is_in_repository) {
  if (!is_in_repository && (config.versions || !config.model_file.empty())) {
    throw Error(ErrorCode::invalid_config,
                fmt::format("{}: version_policy and default_model_filename are for models of --repository that have a "
                            "config.pbtxt",
                            place));
  }
  ModelParts parts = load_served(listed, flags);
  require_match(config, parts.session.workers.sessions.front()->info().signature, place);
  if (!config.without_effect.empty()) {
    log::info("{}: {} of its configuration has no effect", listed.name, join(config.without_effect));
  }
  return parts;
}

// One folder that cannot be read costs that model alone.
ModelSource failed_source(const std::string& name, const std::string& version, const Error& failure) {
  ModelSource source;
  source.name = name;
  source.version = version;
  source.required = false;
  source.load = [failure]() -> ModelParts { throw Error(failure); };
  source.fingerprint = [failure] { return failure.message(); };
  return source;
}

}  // namespace

std::optional<std::string> ServedModels::configure(const std::string& name, const std::optional<std::string>& json) {
  std::optional<Configured> next;
  if (json) {
    const std::string place = "parameters.config";
    next = Configured{parse_triton_config(*json, TritonForm::json, place), *json, place};
    require_name(next->config, name, place);
    if (!next->config.provider.empty() && flags_.load.provider) {
      throw Error(ErrorCode::invalid_config,
                  fmt::format("{}: instance_group: the provider is that of {}, which counts for all models", place,
                              flags_.load.provider->source.name));
    }
  }
  const std::lock_guard lock(mutex_);
  std::optional<std::string> before;
  if (const auto known = configured_.find(name); known != configured_.end()) before = known->second.text;
  if (next) {
    configured_.insert_or_assign(name, *std::move(next));
  } else {
    configured_.erase(name);
  }
  return before;
}

std::optional<ServedModels::Configured> ServedModels::configured_in(const fs::path& folder) const {
  if (const auto said = configured_.find(folder.filename().string()); said != configured_.end()) return said->second;
  const fs::path file = folder / "config.pbtxt";
  std::error_code error;
  if (!fs::exists(file, error)) return std::nullopt;
  constexpr std::uint64_t most_bytes = std::uint64_t{1} << 20;
  Configured configured{{}, read_file(file, most_bytes), file.string()};
  configured.config = parse_triton_config(configured.text, TritonForm::text, configured.place);
  require_name(configured.config, folder.filename().string(), configured.place);
  return configured;
}

ModelSource ServedModels::source_of(ListedModel listed, const LocatedModel& located, const Configured* configured) {
  if (listed.name.empty()) listed.name = located.name;
  if (listed.version.empty()) listed.version = located.version;
  const bool is_in_repository = configured != nullptr;
  if (const auto said = configured_.find(listed.name); said != configured_.end()) configured = &said->second;
  std::shared_ptr<const Configured> own;
  if (configured != nullptr) {
    own = std::make_shared<const Configured>(*configured);
    listed = with_config(std::move(listed), own->config);
  }
  ModelSource source;
  source.name = listed.name;
  source.version = listed.version;
  source.pinned = listed.pinned;
  source.nice = listed.nice;
  if (const auto& stored = located.stored) {
    source.aliases.names.push_back(stored->reference.text());
    if (stored->reference.tag == "latest") source.aliases.names.push_back(stored->reference.name);
    source.aliases.digest = stored->digest;
  }
  source.fingerprint = [fingerprints = fingerprints_, located,
                        settings = settings_of(listed) + (own ? own->text : std::string())] {
    const std::lock_guard lock(fingerprints->mutex);
    return settings + fingerprints->files.of(located);
  };
  source.load = [listed = std::move(listed), flags = flags_, own, is_in_repository] {
    return own ? load_configured(listed, flags, own->config, own->place, is_in_repository) : load_served(listed, flags);
  };
  return source;
}

ModelSource ServedModels::lost_source(const ListedModel& listed, const std::string& name, const std::string& version,
                                      const Error& reason) const {
  ModelSource source;
  source.name = name;
  source.version = version;
  source.pinned = listed.pinned;
  source.nice = listed.nice;
  // Looked for once more: it may have come back since.
  source.load = [listed, name, version, flags = flags_, reason]() {
    ListedModel named = listed;
    named.name = name;
    if (version.empty()) throw Error(reason);
    named.version = version;
    return load_served(named, flags);
  };
  source.fingerprint = [reason] { return reason.message(); };
  source.unusable = reason;
  return source;
}

ModelSource ServedModels::from_listed(const ListedModel& listed, const Store& store) {
  const std::string config = flags_.config.empty() ? listed.config.string() : flags_.config;
  // A path that a list gives is absolute only while there is something.
  const std::string& key = listed.name.empty() ? listed.model : listed.name;
  try {
    ModelSource source =
        source_of(listed, locate(listed.model, store, config.empty() ? std::nullopt : std::optional<fs::path>(config)));
    last_names_[key] = {source.name, source.version};
    return source;
  } catch (const Error& error) {
    const auto last = last_names_.find(key);
    if (last != last_names_.end()) return lost_source(listed, last->second.first, last->second.second, error);
    return lost_source(listed, listed.name.empty() ? listed.model : listed.name, listed.version, error);
  }
}

ModelSource ServedModels::from_repository(const fs::path& folder, const std::string& version, const Store& store,
                                          const Configured* configured) {
  ListedModel listed;
  listed.name = folder.filename().string();
  listed.version = version;
  ModelSource source;
  try {
    std::error_code error;
    const fs::path place = version.empty() ? folder : folder / version;
    const std::string named = configured == nullptr ? std::string() : configured->config.model_file;
    const fs::path file = place / (named.empty() ? "model.onnx" : named);
    listed.model = fs::exists(file, error) && !fs::exists(place / "gpux.yml", error) ? file.string() : place.string();
    source = source_of(listed, locate(listed.model, store), configured);
  } catch (const Error& failure) {
    return failed_source(listed.name, listed.version, failure);
  }
  source.required = false;
  return source;
}

void ServedModels::add_repository(const Store& store, std::vector<ModelSource>& sources) {
  for (const fs::path& folder : folders_in(fs::absolute(flags_.repository))) {
    std::error_code error;
    // What is left of a model that has been taken out, or the beginning of one.
    if (fs::is_empty(folder, error)) continue;
    std::vector<std::string> there;
    try {
      for (const fs::path& version : folders_in(folder)) {
        if (is_version(version.filename().string())) there.push_back(version.filename().string());
      }
    } catch (const Error&) {
      there.clear();  // the source of the folder itself says why
    }
    std::optional<Configured> configured;
    const std::optional<Error> unusable = failure_of([&] { configured = configured_in(folder); });
    // What the flag says counts before what a folder says.
    VersionPolicy policy = flags_.version_policy;
    if (configured && policy == VersionPolicy()) policy = configured->config.versions.value_or(policy);
    std::vector<std::string> served = served_versions(there, policy);
    // A folder without versions is a model, or the reason why it is none.
    if (there.empty()) served.emplace_back();
    if (!there.empty() && served.empty()) {
      log::warning("model {} has none of the versions that are to be served: there are {}", folder.filename().string(),
                   join(there));
    }
    for (const std::string& version : served) {
      sources.push_back(unusable ? failed_source(folder.filename().string(), version, *unusable)
                                 : from_repository(folder, version, store, configured ? &*configured : nullptr));
    }
  }
}

// Without a look at their files: what is wrong with one shows when it is loaded.
void ServedModels::add_stored(const Store& store, std::vector<ModelSource>& sources) const {
  for (const StoredModel& stored : store.list()) {
    ListedModel listed;
    listed.model = stored.reference.text();
    listed.name = stored.reference.tag == "latest" ? stored.reference.name : listed.model;
    listed.version = stored.package.version;
    ModelSource source;
    source.name = listed.name;
    source.version = listed.version;
    source.required = false;
    source.on_demand = true;
    source.size_bytes = stored.package.total_bytes();
    source.aliases = {.names = {listed.model}, .digest = stored.digest};
    source.fingerprint = [digest = stored.digest] { return digest; };
    if (const auto said = configured_.find(listed.name); said != configured_.end()) {
      const auto own = std::make_shared<const Configured>(said->second);
      source.fingerprint = [digest = stored.digest, own] { return digest + own->text; };
      source.load = [listed = with_config(listed, own->config), flags = flags_, own] {
        return load_configured(listed, flags, own->config, own->place, false);
      };
    } else {
      source.load = [listed, flags = flags_] { return load_served(listed, flags); };
    }
    sources.push_back(std::move(source));
  }
}

std::vector<ModelSource> ServedModels::look() {
  const std::lock_guard lock(mutex_);
  const Store store = open_store();
  std::vector<ModelSource> sources;
  for (const std::string& text : flags_.models) {
    const Argument argument = read_argument(text);
    ListedModel listed;
    listed.name = argument.name;
    listed.model = argument.model;
    sources.push_back(from_listed(listed, store));
  }
  if (!flags_.models_file.empty()) {
    std::vector<ListedModel> all = read_models_file(flags_.models_file).models;
    std::uint32_t largest = default_weight;
    for (const ListedModel& listed : all) largest = std::max(largest, listed.weight.value_or(default_weight));
    for (ListedModel& listed : all) {
      listed.nice = nice_of(listed.weight.value_or(default_weight), largest);
      const auto pulled = flags_.pulled_models.find(listed.model);
      if (pulled != flags_.pulled_models.end()) listed.model = pulled->second;
      sources.push_back(from_listed(listed, store));
    }
  }
  if (!flags_.repository.empty()) add_repository(store, sources);
  if (flags_.serves_store) add_stored(store, sources);
  std::set<std::pair<std::string, std::string>> known;
  for (const ModelSource& source : sources) {
    if (known.emplace(source.name, source.version).second) continue;
    throw Error(ErrorCode::usage, fmt::format("two models are called '{}' and have version {}: give one another name "
                                              "with NAME=MODEL",
                                              source.name, source.version));
  }
  return sources;
}

ListenAddress listen_address(const ServingFlags& flags, const ModelRepository& repository) {
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

std::string check_worker_flags(const ServingFlags& flags, const ModelRepository& repository) {
  std::vector<std::string> given;
  if (flags.serving.stop_grace) given.emplace_back("--stop-grace");
  if (flags.serving.max_restart_delay) given.emplace_back("--max-restart-delay");
  if (given.empty()) return {};
  std::vector<std::string> here;
  bool has_workers = false;
  for (const auto& model : repository.models()) {
    if (model->worker_processes().empty()) {
      here.push_back(model->name());
    } else {
      has_workers = true;
    }
  }
  if (here.empty()) return {};
  const std::string verb = given.size() == 1 ? "is" : "are";
  if (!has_workers) {
    throw Error(ErrorCode::usage, format_message("{} {} about worker processes: add {} process", join(given), verb,
                                                 setting_named("isolation")));
  }
  return fmt::format("{} {} about worker processes: no effect on {}, which {} in this process", join(given), verb,
                     join(here), here.size() == 1 ? "runs" : "run");
}

std::string default_model(const ServingFlags& flags) {
  if (!flags.default_model.empty() || flags.models_file.empty()) return flags.default_model;
  return read_models_file(flags.models_file).default_model;
}

}  // namespace gpux::server

#include "server/models/served_models.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "base/format_message.h"
#include "base/log.h"
#include "base/spelling.h"
#include "base/storage_error.h"
#include "gpux/error.h"
#include "model/open_model.h"
#include "project/models_file.h"
#include "project/project_check.h"
#include "server/models/load_served.h"
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
  add(serving.workers);
  add(serving.max_workers);
  for (const auto& time : {serving.max_queue_delay, serving.timeout}) {
    add(time ? std::optional(time->count()) : std::nullopt);
  }
  if (serving.padding) {
    for (const auto& [input, number] : *serving.padding) out += fmt::format("|{}={}", input, number);
  }
  for (const auto& run : serving.warm_up) {
    out += "|run";
    for (const auto& [dimension, size] : run) out += fmt::format("|{}={}", dimension, size);
  }
  return out + "\n";
}

}  // namespace

ModelSource ServedModels::source_of(ListedModel listed, const LocatedModel& located) {
  if (listed.name.empty()) listed.name = located.name;
  if (listed.version.empty()) listed.version = located.version;
  ModelSource source;
  source.name = listed.name;
  source.version = listed.version;
  source.pinned = listed.pinned;
  if (const auto& stored = located.stored) {
    source.aliases.names.push_back(stored->reference.text());
    if (stored->reference.tag == "latest") source.aliases.names.push_back(stored->reference.name);
    source.aliases.digest = stored->digest;
  }
  source.fingerprint = [fingerprints = fingerprints_, located, settings = settings_of(listed)] {
    const std::lock_guard lock(fingerprints->mutex);
    return settings + fingerprints->files.of(located);
  };
  source.load = [listed = std::move(listed), flags = flags_] { return load_served(listed, flags); };
  return source;
}

ModelSource ServedModels::lost_source(const ListedModel& listed, const std::string& name, const std::string& version,
                                      const Error& reason) const {
  ModelSource source;
  source.name = name;
  source.version = version;
  source.pinned = listed.pinned;
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

ModelSource ServedModels::from_repository(const fs::path& folder, const std::string& version, const Store& store) {
  ListedModel listed;
  listed.name = folder.filename().string();
  listed.version = version;
  ModelSource source;
  try {
    std::error_code error;
    const fs::path place = version.empty() ? folder : folder / version;
    const fs::path file = place / "model.onnx";
    listed.model = fs::exists(file, error) && !fs::exists(place / "gpux.yml", error) ? file.string() : place.string();
    source = source_of(listed, locate(listed.model, store));
  } catch (const Error& failure) {
    // One folder that cannot be read costs that model alone.
    source.name = listed.name;
    source.version = listed.version;
    source.load = [failure]() -> ModelParts { throw Error(failure); };
    source.fingerprint = [failure] { return failure.message(); };
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
    std::vector<std::string> served = served_versions(there, flags_.version_policy);
    // A folder without versions is a model, or the reason why it is none.
    if (there.empty()) served.emplace_back();
    if (!there.empty() && served.empty()) {
      log::warning("model {} has none of the versions of --version-policy: there are {}", folder.filename().string(),
                   join(there));
    }
    for (const std::string& version : served) sources.push_back(from_repository(folder, version, store));
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
    source.load = [listed, flags = flags_] { return load_served(listed, flags); };
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
    for (ListedModel& listed : read_models_file(flags_.models_file).models) {
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

#include "cli/served_models.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "cli/load_served.h"
#include "cli/open_model.h"
#include "gpux/error.h"
#include "model/models_file.h"
#include "model/project_check.h"
#include "model/storage_error.h"

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
  for (const fs::path& folder : folders_in(fs::absolute(flags.repository))) {
    std::string latest;
    for (const fs::path& version : folders_in(folder)) {
      const std::string name = version.filename().string();
      if (is_version(name) && (latest.empty() || server::version_less(latest, name))) latest = name;
    }
    std::error_code error;
    // What is left of a model that has been taken out, or the beginning of one.
    if (fs::is_empty(folder, error)) continue;
    const fs::path place = latest.empty() ? folder : folder / latest;
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
      source.fingerprint = [failure] { return failure.message(); };
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

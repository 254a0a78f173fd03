#include "cli/served_models.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "cli/open_model.h"
#include "gpux/error.h"
#include "model/project_check.h"
#include "model/storage_error.h"
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

std::unique_ptr<server::ServedModel> load_served(const std::string& model, const std::string& name,
                                                 const std::string& version, const ServeFlags& flags) {
  OpenModel opened = open_model(model, flags.config, flags.load, flags.timeout);
  server::ServingOptions options{.max_batch_size = flags.max_batch_size,
                                 .max_queue_delay = duration_of(flags.max_queue_delay, "--max-queue-delay"),
                                 .max_queue = flags.max_queue,
                                 .timeout = opened.settings.timeout,
                                 .quick_lanes = flags.io_threads != 0 ? flags.io_threads : http::threads_by_default()};
  if (opened.settings.batch_limit != 0) {
    options.max_batch_size = std::min(options.max_batch_size, static_cast<std::int64_t>(opened.settings.batch_limit));
  }
  auto served =
      std::make_unique<server::ServedModel>(name, version, opened.load(), std::move(opened.located.project), options);
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

server::ModelSource source_of(const std::string& model, std::string name, std::string version,
                              const LocatedModel& located, const ServeFlags& flags) {
  server::ModelSource source;
  source.name = std::move(name);
  source.version = std::move(version);
  source.load = [model, name = source.name, version = source.version, flags] {
    return load_served(model, name, version, flags);
  };
  source.fingerprint = [file = located.onnx_file, project = located.project ? located.project->file : fs::path()] {
    return fingerprint_of(file, project);
  };
  return source;
}

server::ModelSource from_argument(const std::string& text, const ServeFlags& flags, const Store& store) {
  const Argument argument = read_argument(text);
  const LocatedModel located =
      locate(argument.model, store, flags.config.empty() ? std::nullopt : std::optional<fs::path>(flags.config));
  return source_of(argument.model, argument.name.empty() ? located.name : argument.name, located.version, located,
                   flags);
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
    const std::string model =
        fs::exists(file, error) && !fs::exists(place / "gpux.yml", error) ? file.string() : place.string();
    try {
      const LocatedModel located = locate(model, store);
      sources.push_back(
          source_of(model, folder.filename().string(), latest.empty() ? located.version : latest, located, flags));
    } catch (const Error& failure) {
      // One folder that cannot be read is that model's misfortune, not the server's.
      server::ModelSource source;
      source.name = folder.filename().string();
      source.version = latest;
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

}  // namespace gpux::cli

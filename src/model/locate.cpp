#include "model/locate.h"

#include <algorithm>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/format_message.h"
#include "base/in_quotes.h"
#include "base/spelling.h"
#include "base/storage_error.h"
#include "checkpoint/exported_files.h"
#include "checkpoint/image_project.h"
#include "gpux/error.h"
#include "project/trust_policy.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;

bool is_project_file(const fs::path& path) {
  return path.extension() == ".yml" || path.extension() == ".yaml";
}

bool looks_like_a_path(std::string_view argument) {
  return argument == "." || argument == ".." || argument.starts_with("./") || argument.starts_with("../") ||
         argument.starts_with('/') || argument.starts_with('~') || argument.ends_with('/') ||
         argument.find('\\') != std::string_view::npos || argument.ends_with(".onnx") || argument.ends_with(".yml") ||
         argument.ends_with(".yaml");
}

bool is_there(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::none) throw_storage_error("look at", path, error.value());
  return fs::exists(status);
}

LocatedModel located(ProjectFile project, fs::path onnx_file) {
  LocatedModel model;
  model.onnx_file = std::move(onnx_file);
  model.name = project.name;
  model.version = project.version;
  model.project = std::move(project);
  return model;
}

std::vector<LocatedModel> locate_steps(const ProjectFile& project, const DeclaredEnsemble& ensemble,
                                       const Store& store) {
  std::vector<LocatedModel> steps;
  for (const DeclaredStep& step : ensemble.steps) {
    try {
      steps.push_back(locate(step.model, store));
    } catch (const Error& error) {
      throw error.within(fmt::format("{}: step '{}'", project.where(step.position), step.name));
    }
    if (steps.back().steps.empty()) continue;
    throw Error(ErrorCode::invalid_config, fmt::format("{}: step '{}' is an ensemble itself; a model is accepted",
                                                       project.where(step.position), step.name));
  }
  return steps;
}

LocatedModel from_project_file(const fs::path& file, const Store& store) {
  ProjectFile project = read_project_file(file);
  if (project.ensemble) {
    std::vector<LocatedModel> steps = locate_steps(project, *project.ensemble, store);
    LocatedModel model = located(std::move(project), file);
    model.steps = std::move(steps);
    return model;
  }
  if (!is_there(project.source)) {
    throw Error(ErrorCode::not_found, format_message("{}: 'model.source' names '{}', which is not there",
                                                     project.where("model.source"), file_at(project.source)));
  }
  if (!project.image_tower.empty() && !is_there(project.image_tower)) {
    throw Error(ErrorCode::not_found, format_message("{}: 'model.image_tower' names '{}', which is not there",
                                                     project.where("model.image_tower"), file_at(project.image_tower)));
  }
  fs::path source = project.source;
  return located(std::move(project), std::move(source));
}

// The gpux.yml of a model that is named elsewhere.
ProjectFile read_model_file(const fs::path& file) {
  ProjectFile project = read_project_file(file);
  if (!project.ensemble) return project;
  throw Error(ErrorCode::usage,
              fmt::format("{} is the file of an ensemble, which names its models itself", in_quotes(file.string())));
}

LocatedModel from_onnx_file(const fs::path& file, const std::optional<fs::path>& config) {
  if (config) return located(read_model_file(*config), file);
  LocatedModel model;
  model.onnx_file = file;
  model.name = file.stem().string();
  model.version = "1.0.0";
  return model;
}

std::vector<fs::path> onnx_files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator i(folder, error), end; !error && i != end; i.increment(error)) {
    if (i->path().extension() == ".onnx") files.push_back(i->path());
  }
  if (error) throw_storage_error("read the folder", folder, error.value());
  std::sort(files.begin(), files.end());
  return files;
}

/// Ends a message about a path where a stored model has the same name, which the path hides.
std::string stored_hint(const fs::path& path, const Store& store) {
  try {
    const Reference name = parse_reference(path.string());
    if (store.find(name)) return fmt::format("; to run the stored model write '{}'", name.text());
  } catch (const Error&) {
    return {};
  }
  return {};
}

// Several ONNX files of a folder, of which none is clearly the model.
std::string found_of(const std::vector<std::string>& names) {
  if (names.empty()) return "no ONNX file";
  constexpr std::size_t limit_listed = 12;
  const std::span<const std::string> listed = std::span(names).first(std::min(limit_listed, names.size()));
  std::string found = fmt::format("{}, {}", counted(names.size(), "ONNX file"), join(listed));
  if (listed.size() < names.size()) found += fmt::format(" and {} more", names.size() - listed.size());
  const auto is_part = [&](std::string_view part) {
    return std::ranges::any_of(names, [&](const std::string& name) { return fs::path(name).stem() == part; });
  };
  if (is_part("encoder_model") && is_part("decoder_model")) {
    return found + ": an encoder and a decoder, which do not run as one model; name one of them";
  }
  return found + ": name one of them";
}

LocatedModel from_folder(const fs::path& folder, const Store& store, const std::optional<fs::path>& config) {
  if (config)
    return from_project_file(config->is_relative() && is_there(folder / *config) ? folder / *config : *config, store);
  if (const auto project_file = project_file_in(folder)) return from_project_file(*project_file, store);
  if (const auto project = checkpoint::read_image_project(folder)) {
    // As gpux import would write it.
    ProjectFile parsed = parse_project_file(checkpoint::project_text(*project), folder / project_file_name);
    fs::path source = parsed.source;
    return located(std::move(parsed), std::move(source));
  }
  std::vector<fs::path> files = onnx_files_in(folder);
  // Where Hugging Face's folders keep it.
  if (files.empty() && is_there(folder / "onnx/model.onnx")) files.push_back(folder / "onnx/model.onnx");
  if (files.size() != 1) {
    const std::vector<std::string> names = exported_files_in(folder);
    const bool is_checkpoint = names.empty() && is_there(folder / "config.json") && is_there(folder / "tokenizer.json");
    throw Error(ErrorCode::not_found,
                format_message("the folder '{}' has no gpux.yml and {}{}{}", file_at(folder), found_of(names),
                               is_checkpoint ? "; 'gpux import' imports a Hugging Face folder" : "",
                               stored_hint(folder, store)));
  }
  LocatedModel model = from_onnx_file(files.front(), std::nullopt);
  model.name = fs::weakly_canonical(folder).filename().string();
  model.note = fmt::format("no gpux.yml in {}: using its only ONNX file, {}", in_quotes(folder.string()),
                           in_quotes(files.front().lexically_relative(folder).string()));
  return model;
}

LocatedModel from_store(const Reference& name, const Store& store, const std::optional<fs::path>& config) {
  StoredModel stored = find_stored(name, store);
  if (!stored.pulled_from.empty()) require_trusted(read_trust_policy(store.root()), stored);
  const fs::path folder = store.materialize(stored);
  LocatedModel model;
  const bool has_project = stored.package.find(project_file_name) != nullptr;
  if (config) {
    model = located(read_model_file(*config), {});
  } else if (has_project) {
    ProjectFile project = read_project_file(folder / project_file_name, author_of(stored.pulled_from));
    require_portable(project);
    model = located(std::move(project), {});
  }
  model.onnx_file = folder / stored.package.model_file;
  model.package_folder = folder;
  model.name = stored.package.name;
  model.version = stored.package.version;
  model.provider = stored.package.provider;
  model.pulled_from = stored.pulled_from;
  model.stored = std::move(stored);
  return model;
}

// The digits of an id, which reads as a name; empty where it can be none.
std::string id_in(const Reference& name) {
  return std::string(id_digits(name.tag == "latest" ? name.name : name.text()));
}

std::optional<StoredModel> find_by_id(const std::string& id, const Store& store) {
  std::optional<StoredModel> found;
  for (StoredModel& model : store.list()) {
    if (!model.digest.starts_with(id) || (found && found->digest == model.digest)) continue;
    if (found) {
      throw Error(ErrorCode::usage, fmt::format("the id '{}' means {} and {}: give more of its digits, or a name", id,
                                                found->reference.text(), model.reference.text()));
    }
    found = std::move(model);
  }
  // By its name, which tells a damaged one.
  return found ? store.find(found->reference) : std::nullopt;
}

bool is_misspelt_project_file(const std::string& name) {
  if (name == project_file_name) return false;
  const std::string lowered = lower(name);
  const std::string_view visible = std::string_view(lowered).substr(lowered.starts_with('.') ? 1 : 0);
  return visible == "gpux.yml" || visible == "gpux.yaml";
}

// ORG/NAME, as models are called on the Hugging Face hub.
bool looks_like_a_repository(std::string_view argument) {
  const std::size_t slash = argument.find('/');
  if (slash == std::string_view::npos || argument.ends_with(".onnx")) return false;
  const auto is_word = [](std::string_view word) {
    const auto is_letter = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    };
    return !word.empty() && is_letter(word.front()) && std::all_of(word.begin(), word.end(), [&](char c) {
      return is_letter(c) || c == '.' || c == '_' || c == '-';
    });
  };
  return is_word(argument.substr(0, slash)) && is_word(argument.substr(slash + 1));
}

std::string hub_hint(std::string_view argument) {
  return fmt::format("; for a model of the Hugging Face hub, write 'hf.co/{}'", argument);
}

}  // namespace

std::optional<fs::path> project_file_in(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator i(folder, error), end; !error && i != end; i.increment(error)) {
    const std::string name = i->path().filename().string();
    if (!is_misspelt_project_file(name)) continue;
    const bool is_beside = is_there(folder / project_file_name);
    throw Error(ErrorCode::invalid_config,
                fmt::format("{} is not read: the file is called gpux.yml; {}", in_quotes(i->path().string()),
                            is_beside ? "remove it, or move its content to the gpux.yml next to it" : "rename it"));
  }
  if (error) throw_storage_error("read the folder", folder, error.value());
  fs::path file = folder / project_file_name;
  if (!is_there(file)) return std::nullopt;
  return file;
}

StoredModel find_stored(const Reference& name, const Store& store) {
  if (std::optional<StoredModel> found = store.find(name)) return *std::move(found);
  if (const std::string id = id_in(name); !id.empty()) {
    if (std::optional<StoredModel> found = find_by_id(id, store)) return *std::move(found);
  }
  constexpr std::size_t limit_listed = 10;
  std::vector<std::string> names;
  for (const StoredModel& model : store.list()) names.push_back(model.reference.text());
  std::string message = fmt::format("no model '{}' is stored here", name.text());
  const std::string near(nearest(name.text(), names));
  const std::size_t count = names.size();
  names.resize(std::min(count, limit_listed));
  if (count == 0) {
    message += "; the store is empty: 'gpux build' stores a model";
  } else {
    message += fmt::format("; there are {}", join(names));
    if (count > limit_listed) message += fmt::format(" and {} more ('gpux images' lists all)", count - limit_listed);
    if (!near.empty()) message += fmt::format("; did you mean '{}'?", near);
  }
  throw Error(ErrorCode::not_found, message);
}

void require_one_model(const LocatedModel& located, std::string_view command) {
  if (located.steps.empty()) return;
  throw Error(ErrorCode::usage,
              fmt::format("'{}' is an ensemble: run, inspect, bench and serve accept it, and {} takes one model",
                          located.name, command));
}

LocatedModel locate(std::string_view argument, const Store& store, const std::optional<fs::path>& config) {
  if (argument.empty()) throw Error(ErrorCode::usage, "the model is ''; an ONNX file, a folder or a name is accepted");
  if (argument.find("://") != std::string_view::npos) {
    throw Error(ErrorCode::usage, fmt::format("{} is an address; download it and name the file", in_quotes(argument)));
  }
  const fs::path path(argument);
  if (argument.find('\0') == std::string_view::npos && argument.size() < 4096 && is_there(path)) {
    if (fs::is_directory(path)) return from_folder(path, store, config);
    if (is_project_file(path)) return from_project_file(path, store);
    return from_onnx_file(path, config);
  }
  if (looks_like_a_path(argument)) {
    throw Error(ErrorCode::not_found, fmt::format("there is no file or folder {}", in_quotes(argument)));
  }
  const std::string problem = fmt::format("there is no file or folder {}", in_quotes(argument));
  Reference name;
  try {
    name = parse_reference(argument);
  } catch (const Error& error) {
    if (looks_like_a_repository(argument)) throw Error(ErrorCode::not_found, problem + hub_hint(argument));
    // README.md is the name of a file, and nothing else.
    const bool is_file_name = path.has_extension() && argument.find_first_of(" :") == std::string_view::npos;
    if (is_file_name) throw Error(ErrorCode::not_found, problem);
    throw error.within(problem);
  }
  try {
    return from_store(name, store, config);
  } catch (const Error& error) {
    // Names may hold slashes, but who writes one mostly means a path.
    if (error.code() != ErrorCode::not_found || argument.find('/') == std::string_view::npos) throw;
    if (!looks_like_a_repository(argument)) throw error.within(problem);
    throw error.within(problem).followed_by({hub_hint(argument)});
  }
}

}  // namespace gpux

#include "model/package_fingerprint.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <sys/stat.h>

#include "checkpoint/json_settings.h"
#include "checkpoint/module_list.h"
#include "checkpoint/sentence_model.h"
#include "checkpoint/transformer_settings.h"
#include "gpux/error.h"
#include "gpux/model_inspector.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;

// What tokenizers, pipelines and encoders read beside tokenizer.json.
constexpr std::array<const char*, 9> settings_files{
    "added_tokens.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "config.json",
    "modules.json",
    "vocab.txt",
    "config_sentence_transformers.json",
    "preprocessor_config.json",
};

std::string stamp_of(const fs::path& file) {
  struct stat status {};

  if (::stat(file.c_str(), &status) != 0) return "none";
  return fmt::format("{}.{}.{}.{}", status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

void append_file(std::string& out, const fs::path& file) {
  out += fmt::format("{}|{}\n", file.string(), stamp_of(file));
}

// Of sentence-transformers' modules: 1_Pooling, 2_Dense.
std::vector<fs::path> module_folders_of(const fs::path& folder) {
  std::vector<fs::path> folders;
  try {
    const JsonSettings modules(folder / "modules.json", JsonSettings::Json::value_t::array);
    for (const checkpoint::Module& module : checkpoint::read_modules(modules)) {
      if (!module.folder.empty()) folders.push_back(folder / module.folder);
    }
  } catch (const Error&) {
    folders.clear();  // half written, perhaps; the load reports what is wrong
  }
  return folders;
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator i(folder, error), end; !error && i != end; i.increment(error)) {
    entries.push_back(i->path());
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

void append_settings(std::string& out, const fs::path& folder) {
  for (const char* name : settings_files) append_file(out, folder / name);
  for (const char* name : checkpoint::transformer_settings_files) append_file(out, folder / name);
  for (const fs::path& module : module_folders_of(folder)) {
    for (const fs::path& file : entries_of(module)) append_file(out, file);
  }
}

}  // namespace

void PackageFingerprints::append_onnx(std::string& out, const fs::path& file) {
  append_file(out, file);
  const std::string stamp = stamp_of(file);
  ExternalData& known = external_data_[file];
  if (known.stamp != stamp) {
    std::vector<fs::path> files;
    try {
      for (const ExternalFile& one : ModelInspector::inspect(file).external_files) {
        files.push_back(file.parent_path() / one.location);
        // Where the model is a link, as in download caches, its data may be next to the link or next to its target.
        std::error_code error;
        const fs::path behind = fs::canonical(file, error);
        if (!error && behind != file) files.push_back(behind.parent_path() / one.location);
      }
    } catch (const Error&) {
      files.clear();  // half written, perhaps; the load reports what is wrong
    }
    known = {stamp, std::move(files)};
  }
  for (const fs::path& external : known.files) append_file(out, external);
}

std::string PackageFingerprints::of(const LocatedModel& model) {
  std::string out;
  if (model.project) append_file(out, model.project->file);
  for (const LocatedModel& step : model.steps) out += of(step);
  if (!model.steps.empty()) return out;
  if (model.stored) return out + model.stored->digest;
  append_onnx(out, model.onnx_file);
  const fs::path folder = model.onnx_file.parent_path();
  append_settings(out, folder);
  const fs::path tokenizer_folder = checkpoint::tokenizer_folder_of(model.onnx_file).value_or(folder);
  if (tokenizer_folder != folder) append_settings(out, tokenizer_folder);
  if (!model.project) return out;
  for (const std::string& name : model.project->files) append_file(out, model.project->folder() / name);
  for (const fs::path& step : {model.project->before, model.project->after}) {
    if (!step.empty()) append_onnx(out, step);
  }
  if (const auto& tokenizer = model.project->text.tokenizer) {
    std::error_code error;
    append_file(out, *tokenizer);
    if (fs::is_directory(*tokenizer, error)) append_settings(out, *tokenizer);
  }
  return out;
}

}  // namespace gpux

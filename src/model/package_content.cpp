#include "model/package_content.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/format_message.h"
#include "base/in_quotes.h"
#include "gpux/error.h"
#include "onnx/model_file.h"

namespace gpux {
namespace {

namespace fs = std::filesystem;

class Collector {
 public:
  explicit Collector(PackageContent& content) : content_(content) {}

  void add(const fs::path& source, const std::string& name) {
    const bool known = std::any_of(content_.files.begin(), content_.files.end(),
                                   [&](const PackageFile& file) { return file.name == name; });
    if (!known) content_.files.push_back({source, name});
  }

  void add_onnx(const fs::path& source, const std::string& name) {
    add(source, name);
    for (const ExternalFile& file : onnx::inspect(source).external_files) {
      add(external_source(source, file.location),
          (fs::path(name).parent_path() / file.location).lexically_normal().generic_string());
    }
  }

 private:
  // Where the model is a link, as in download caches, its data may lie beside either end.
  static fs::path external_source(const fs::path& model, const std::string& location) {
    std::error_code error;
    fs::path beside = model.parent_path() / location;
    if (fs::exists(beside, error)) return beside;
    fs::path behind = fs::canonical(model, error).parent_path() / location;
    if (!error && fs::exists(behind, error)) return behind;
    throw Error(ErrorCode::invalid_model,
                format_message("'{}' keeps weights in '{}', which is not there", file_at(model), file_at(beside)));
  }

  PackageContent& content_;
};

/// The source's name in the package: as it lies below the project's folder, else its file name.
std::string model_name(const LocatedModel& model) {
  if (model.project && !model.stored) {
    const fs::path onnx_file = fs::absolute(model.onnx_file).lexically_normal();
    const std::string relative = onnx_file.lexically_relative(model.project->folder()).generic_string();
    if (is_inside_package(relative)) return relative;
  }
  return model.onnx_file.filename().string();
}

void add_project(const ProjectFile& project, PackageContent& content, Collector& collector) {
  require_portable(project);
  content.description = project.description;
  content.metadata = project.metadata;
  for (const std::string& name : project.files) {
    const fs::path source = project.folder() / name;
    std::error_code error;
    if (!fs::is_regular_file(source, error)) {
      throw Error(ErrorCode::not_found, format_message("{}: 'model.files' names '{}', which is no file there",
                                                       project.where("model.files"), file_at(source)));
    }
    if (source.extension() == ".onnx") {
      collector.add_onnx(source, name);
    } else {
      collector.add(source, name);
    }
  }
  for (const fs::path& step : {project.before, project.after, project.image_tower}) {
    if (!step.empty()) collector.add_onnx(step, step.lexically_relative(project.folder()).generic_string());
  }
  collector.add(project.file, std::string(project_file_name));
}

}  // namespace

PackageContent package_content(const LocatedModel& model, const MaybeSetting<std::string>& provider) {
  PackageContent content;
  content.name = model.name;
  content.version = model.version;
  content.model_file = model_name(model);
  if (provider) content.provider = provider->value;
  Collector collector(content);
  collector.add_onnx(model.onnx_file, content.model_file);
  if (model.project) add_project(*model.project, content, collector);
  return content;
}

void add_onnx_file(PackageContent& content, const fs::path& source, const std::string& name) {
  // As a package of its own first: what it would hide is not to go missing.
  PackageContent own;
  Collector(own).add_onnx(source, name);
  for (PackageFile& file : own.files) {
    const bool is_taken =
        std::ranges::any_of(content.files, [&](const auto& other) { return other.name == file.name; });
    if (is_taken) {
      throw Error(ErrorCode::invalid_config,
                  fmt::format("two files of the package would be called {}", in_quotes(file.name)));
    }
    content.files.push_back(std::move(file));
  }
}

}  // namespace gpux

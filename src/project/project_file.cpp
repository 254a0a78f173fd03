#include "project/project_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <unordered_set>

#include <fmt/format.h>

#include "base/files.h"
#include "base/format_message.h"
#include "base/home.h"
#include "base/in_quotes.h"
#include "base/memory_size.h"
#include "base/spelling.h"
#include "gpux/error.h"
#include "project/declared_type.h"
#include "project/image_settings.h"
#include "project/package_keys.h"
#include "project/project_check.h"
#include "project/project_schema.h"
#include "project/variables.h"
#include "store/package_manifest.h"

namespace gpux {
namespace {

using yaml::TreeNode;

constexpr std::uint64_t limit_file_bytes = std::uint64_t{1} << 20;
constexpr std::size_t limit_expanded_bytes = std::size_t{8} << 20;

/// The value under a path of keys, or null where it is not given.
const TreeNode* at(const TreeNode& node, std::initializer_list<std::string_view> path) {
  const TreeNode* found = &node;
  for (const std::string_view key : path) {
    found = found->find(key);
    if (found == nullptr || found->kind == TreeNode::Kind::null) return nullptr;
  }
  return found;
}

std::string text_at(const TreeNode& node, std::initializer_list<std::string_view> path,
                    std::string_view otherwise = {}) {
  const TreeNode* found = at(node, path);
  return found == nullptr ? std::string(otherwise) : found->text;
}

std::optional<std::int64_t> integer_at(const TreeNode& node, std::initializer_list<std::string_view> path) {
  const TreeNode* found = at(node, path);
  return found == nullptr ? std::nullopt : integer_from(found->text);
}

std::optional<std::uint32_t> count_at(const TreeNode& node, std::initializer_list<std::string_view> path) {
  const std::optional<std::int64_t> value = integer_at(node, path);
  if (!value) return std::nullopt;
  return static_cast<std::uint32_t>(*value);
}

std::vector<std::pair<std::string, std::string>> text_map(const TreeNode* node) {
  std::vector<std::pair<std::string, std::string>> map;
  if (node == nullptr) return map;
  for (const yaml::Entry& entry : node->entries) map.emplace_back(entry.key, entry.value->text);
  return map;
}

/// Fills a ProjectFile from a tree that agrees with the schema, and adds what the schema cannot say to the problems.
class Binder {
 public:
  Binder(const TreeNode& root, ProjectFile& project, ProblemList& problems)
      : root_(root), project_(project), problems_(problems), folder_(project.folder()) {}

  void bind() {
    project_.name = text_at(root_, {"name"});
    if (project_.name.empty()) problems_.add(project_.positions["name"], "'name' is empty; a name is accepted");
    project_.version = text_at(root_, {"version"}, project_.version);
    project_.description = text_at(root_, {"description"});
    project_.model_version = text_at(root_, {"model", "version"});
    project_.metadata = text_map(at(root_, {"metadata"}));
    bind_source();
    project_.inputs = declared_values("inputs");
    project_.outputs = declared_values("outputs");
    bind_runtime();
    if (const TreeNode* serving = at(root_, {"serving"})) project_.serving = read_serving(*serving);
    if (const TreeNode* node = at(root_, {"preprocessing"})) project_.image_recipe = read_recipe(*node, problems_);
    bind_text();
    bind_zero_shot();
  }

 private:
  std::filesystem::path absolute(const std::string& path) const { return (folder_ / path).lexically_normal(); }

  void bind_text() {
    DeclaredText& text = project_.text;
    const auto choice = [&](std::initializer_list<std::string_view> path) -> std::optional<std::string> {
      const TreeNode* node = at(root_, path);
      return node == nullptr ? std::nullopt : std::optional<std::string>(node->text);
    };
    const auto count = [&](std::initializer_list<std::string_view> path) -> std::optional<std::size_t> {
      const TreeNode* node = at(root_, path);
      const auto number = node == nullptr ? std::nullopt : integer_from(node->text);
      return number ? std::optional<std::size_t>(static_cast<std::size_t>(*number)) : std::nullopt;
    };
    text.task = choice({"task"});
    if (const auto tokenizer = choice({"preprocessing", "tokenizer"})) bind_tokenizer(*tokenizer);
    text.max_tokens = count({"preprocessing", "max_length"});
    if (const auto padding = choice({"preprocessing", "padding"})) text.fills_up = *padding == "max_length";
    if (const auto side = choice({"preprocessing", "truncation_side"})) text.truncate_left = *side == "left";
    text.pair_truncation = choice({"preprocessing", "pair_truncation"});
    text.aggregation = choice({"postprocessing", "aggregation"});
    bind_step("preprocessing", project_.before);
    bind_step("postprocessing", project_.after);
    text.max_answer_tokens = count({"postprocessing", "max_answer_length"});
  }

  void bind_zero_shot() {
    const TreeNode* node = at(root_, {"zero_shot"});
    if (node == nullptr) return;
    if (project_.image_tower.empty()) {
      problems_.add(node->position, "'zero_shot' requires 'model.image_tower'");
      return;
    }
    ZeroShotSettings settings;
    settings.logit_scale = number_at(*node, "logit_scale", settings.logit_scale);
    settings.logit_bias = number_at(*node, "logit_bias", settings.logit_bias);
    if (text_at(*node, {"activation"}) == "sigmoid") settings.activation = Activation::sigmoid;
    settings.label_template = text_at(*node, {"template"}, settings.label_template);
    if (settings.label_template.find("{}") == std::string::npos) {
      problems_.add(at(*node, {"template"})->position,
                    fmt::format("'zero_shot.template' is {}; a text with {{}} in place of the label is accepted",
                                in_quotes(settings.label_template)));
    }
    project_.zero_shot = std::move(settings);
  }

  double number_at(const TreeNode& node, std::string_view key, double otherwise) {
    const TreeNode* given = at(node, {key});
    if (given == nullptr) return otherwise;
    const auto number = given->kind == TreeNode::Kind::scalar ? number_from(given->text) : std::nullopt;
    if (number && std::isfinite(*number)) return *number;
    problems_.add(given->position, fmt::format("'zero_shot.{}' takes one finite number", key));
    return otherwise;
  }

  void bind_image_tower() {
    const TreeNode* node = at(root_, {"model", "image_tower"});
    if (node == nullptr) return;
    const std::string name = std::filesystem::path(node->text).lexically_normal().generic_string();
    if (is_inside_package(name) && name.ends_with(".onnx")) {
      project_.image_tower = absolute(name);
      return;
    }
    problems_.add(node->position,
                  fmt::format("'model.image_tower' is {}; an .onnx file inside this file's folder is accepted",
                              in_quotes(node->text)));
  }

  // A model inside this file's folder.
  void bind_step(std::string_view part, std::filesystem::path& step) {
    const TreeNode* node = at(root_, {part, "custom"});
    if (node == nullptr) return;
    const std::string name = std::filesystem::path(node->text).lexically_normal().generic_string();
    if (!is_inside_package(name) || !name.ends_with(".onnx")) {
      problems_.add(node->position,
                    fmt::format("'{}.custom' is {}; an .onnx file inside this file's folder is accepted", part,
                                in_quotes(node->text)));
      return;
    }
    step = absolute(node->text);
  }

  void bind_tokenizer(const std::string& path) {
    const std::string name = std::filesystem::path(path).lexically_normal().generic_string();
    if (path.empty() || (name != "." && name != "./" && !is_inside_package(name))) {
      problems_.add(project_.positions["preprocessing.tokenizer"],
                    fmt::format("'preprocessing.tokenizer' is {}; a tokenizer.json, or a folder with one, inside this "
                                "file's folder is accepted",
                                in_quotes(path)));
      return;
    }
    project_.text.tokenizer = absolute(path);
  }

  void bind_source() {
    const TreeNode& source = *at(root_, {"model", "source"});
    const bool is_reference = source.text.find("://") != std::string::npos || source.text.starts_with("hf.co/") ||
                              source.text.starts_with("hf:");
    if (is_reference) {
      problems_.add(source.position,
                    fmt::format("'model.source' is {}; fetching a model is not supported here: "
                                "gpux pull stores one, and 'gpux run NAME' runs it; the path of a file is accepted",
                                in_quotes(source.text)));
    } else if (source.text.empty()) {
      problems_.add(source.position, "'model.source' is ''; the path of an ONNX file is accepted");
    }
    project_.source = absolute(source.text);
    bind_image_tower();
    if (const TreeNode* files = at(root_, {"model", "files"})) bind_files(*files);
  }

  void bind_files(const TreeNode& files) {
    for (const auto& item : files.items) {
      const std::string name = std::filesystem::path(item->text).lexically_normal().generic_string();
      if (is_inside_package(name)) {
        project_.files.push_back(name);
      } else {
        problems_.add(item->position,
                      fmt::format("{} in 'model.files' is not inside this file's folder", in_quotes(item->text)));
      }
    }
  }

  std::optional<std::vector<DeclaredValue>> declared_values(std::string_view key) {
    const TreeNode* node = at(root_, {key});
    if (node == nullptr) return std::nullopt;
    std::vector<DeclaredValue> values;
    for (const auto& item : node->items)
      values.push_back(declared_value(*item, text_at(*item, {"name"}), item->position));
    for (const yaml::Entry& entry : node->entries) {
      values.push_back(declared_value(*entry.value, entry.key, entry.key_position));
    }
    std::unordered_set<std::string_view> names;
    for (const DeclaredValue& value : values) {
      if (value.name.empty()) problems_.add(value.position, fmt::format("a name in '{}' is empty", key));
      if (names.insert(value.name).second) continue;
      problems_.add(value.position, fmt::format("{} stands in '{}' a second time", in_quotes(value.name), key));
    }
    return values;
  }

  DeclaredValue declared_value(const TreeNode& node, std::string name, yaml::Position position) {
    DeclaredValue value;
    value.name = std::move(name);
    value.position = position;
    if (node.kind == TreeNode::Kind::scalar) {
      value.type = value_type_from(node.text).value_or(ValueType{});
      return value;
    }
    value.type = value_type_from(text_at(node, {"type"})).value_or(ValueType{});
    bind_shape(node, value);
    if (const TreeNode* required = at(node, {"required"})) value.required = boolean_from(required->text);
    value.description = text_at(node, {"description"});
    bind_labels(node, value);
    return value;
  }

  void bind_shape(const TreeNode& node, DeclaredValue& value) {
    const TreeNode* shape = at(node, {"shape"});
    if (shape == nullptr) return;
    if (value.type.kind != ValueKind::tensor && value.type.kind != ValueKind::sparse_tensor) {
      problems_.add(shape->position, fmt::format("{} has a shape, but is declared {}; only tensors have shapes",
                                                 in_quotes(value.name), to_string(value.type)));
      return;
    }
    std::vector<Dimension> dimensions;
    for (const auto& item : shape->items) dimensions.push_back(dimension_from(*item).value_or(Dimension{}));
    value.type.dimensions = std::move(dimensions);
  }

  void bind_labels(const TreeNode& node, DeclaredValue& value) {
    if (const TreeNode* labels = at(node, {"labels"})) {
      for (const auto& item : labels->items) value.labels.push_back(item->text);
    }
    const std::string activation = text_at(node, {"activation"});
    if (activation == "softmax") value.activation = Activation::softmax;
    if (activation == "sigmoid") value.activation = Activation::sigmoid;
    value.top_k = integer_at(node, {"top_k"});
    for (const std::string_view key : {"activation", "top_k"}) {
      const TreeNode* given = at(node, {key});
      if (given == nullptr || !value.labels.empty()) continue;
      problems_.add(given->position,
                    fmt::format("{} has '{}' without labels, which it would apply to", in_quotes(value.name), key));
    }
  }

  void bind_runtime() {
    RuntimeSettings& runtime = project_.runtime;
    if (const TreeNode* backend = at(root_, {"runtime", "gpu", "backend"})) runtime.backend = backend->text;
    if (const TreeNode* memory = at(root_, {"runtime", "gpu", "memory"})) {
      runtime.memory_limit_bytes = parse_memory_size(memory->text);
    }
    runtime.device = count_at(root_, {"runtime", "gpu", "device"});
    bind_providers();
    bind_libraries();
    bind_custom_operators();
    if (const TreeNode* strict = at(root_, {"runtime", "strict"})) {
      const bool on = boolean_from(strict->text).value_or(false);
      runtime.strict = strict->text == "nodes" ? Strictness::nodes : on ? Strictness::provider : Strictness::off;
    }
    if (const TreeNode* timeout = at(root_, {"runtime", "timeout"})) runtime.timeout = duration_from(timeout->text);
    runtime.intra_threads = count_at(root_, {"runtime", "threads", "intra"});
    runtime.inter_threads = count_at(root_, {"runtime", "threads", "inter"});
    if (const TreeNode* precision = at(root_, {"runtime", "precision"})) runtime.precision = precision->text;
    if (const TreeNode* level = at(root_, {"runtime", "optimization_level"})) {
      runtime.optimization = optimization_from(level->text);
    }
    runtime.batch_size = integer_at(root_, {"runtime", "batch_size"});
    if (const TreeNode* isolation = at(root_, {"runtime", "isolation"})) {
      runtime.isolation = isolation->text == "process" ? Isolation::process : Isolation::thread;
    }
    bind_profile();
  }

  void bind_providers() {
    const TreeNode* node = at(root_, {"runtime", "providers"});
    if (node == nullptr) return;
    std::vector<DeclaredProvider>& providers = project_.runtime.providers;
    if (node->kind == TreeNode::Kind::scalar) {
      for (const std::string& name : split(node->text, ',')) providers.push_back({name, {}, {}, node->position});
    }
    for (const auto& item : node->items) providers.push_back(declared_provider(*item));
    if (providers.empty()) problems_.add(node->position, "'runtime.providers' is an empty list; name a provider");
    for (const DeclaredProvider& provider : providers) {
      if (provider.name.empty()) problems_.add(provider.position, "a name in 'runtime.providers' is empty");
    }
    if (const TreeNode* backend = at(root_, {"runtime", "gpu", "backend"})) {
      problems_.add(backend->position, "'runtime.gpu.backend' and 'runtime.providers' both set the provider; keep one");
    }
  }

  DeclaredProvider declared_provider(const TreeNode& node) const {
    if (node.kind == TreeNode::Kind::scalar) return {node.text, {}, {}, node.position};
    if (node.find("name") == nullptr) {
      const yaml::Entry& only = node.entries.front();
      return {only.key, text_map(only.value.get()), {}, only.key_position};
    }
    DeclaredProvider provider{text_at(node, {"name"}), text_map(at(node, {"options"})), {}, node.position};
    if (const TreeNode* library = at(node, {"library"})) provider.library = absolute(library->text);
    return provider;
  }

  void bind_libraries() {
    const TreeNode* node = at(root_, {"runtime", "provider_libraries"});
    if (node == nullptr) return;
    const auto add = [&](const TreeNode& map) {
      for (const yaml::Entry& entry : map.entries) {
        project_.runtime.provider_libraries.push_back({entry.key, absolute(entry.value->text), entry.key_position});
      }
    };
    add(*node);
    for (const auto& item : node->items) add(*item);
  }

  void bind_custom_operators() {
    const TreeNode* node = at(root_, {"runtime", "custom_ops"});
    if (node == nullptr) return;
    for (const auto& item : node->items) {
      if (item->text.empty()) problems_.add(item->position, "'runtime.custom_ops' has an empty path");
      project_.runtime.custom_operators.push_back({{}, absolute(item->text), item->position});
    }
  }

  void bind_profile() {
    const TreeNode* profile = at(root_, {"runtime", "profile"});
    const TreeNode* enabled = at(root_, {"runtime", "enable_profiling"});
    const bool wanted = enabled != nullptr && boolean_from(enabled->text).value_or(false);
    if (profile != nullptr) {
      project_.runtime.profile = absolute(profile->text);
      if (profile->text.empty()) problems_.add(profile->position, "'runtime.profile' is ''; a path is accepted");
      if (enabled != nullptr && !wanted) {
        problems_.add(enabled->position,
                      "'runtime.enable_profiling' is false, but 'runtime.profile' names a file; keep one");
      }
    } else if (wanted) {
      project_.runtime.profile = home_folder() / "profiles" / ("gpux-profile-" + file_name_of(project_.name));
    }
  }

  // A name may hold slashes; the profile must stay in its folder.
  static std::string file_name_of(std::string name) {
    const auto plain = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
    };
    std::replace_if(
        name.begin(), name.end(), [&](char c) { return !plain(c); }, '_');
    return name.substr(0, 100);
  }

  const TreeNode& root_;
  ProjectFile& project_;
  ProblemList& problems_;
  std::filesystem::path folder_;
};

}  // namespace

namespace {

template <typename Expand>
std::shared_ptr<const TreeNode> parse_with(std::string_view text, const std::string& name, ProblemList& problems,
                                           const Expand& expand) {
  std::size_t expanded_bytes = 0;
  return yaml::parse(text, name, [&](const std::string& scalar, yaml::Position position) {
    std::vector<std::string> wrong;
    std::string expanded = expand(scalar, wrong);
    for (const std::string& message : wrong) problems.add(position, message);
    expanded_bytes += expanded.size();
    if (expanded_bytes > limit_expanded_bytes) {
      problems.add(position, fmt::format("variables make more than {} bytes of the file", limit_expanded_bytes));
      problems.throw_if_any();
    }
    return expanded;
  });
}

// A file that describes, and decides nothing.
std::shared_ptr<const TreeNode> parse_of_stranger(std::string_view text, const std::string& name, ProblemList& problems,
                                                  std::vector<std::string>& ignored) {
  std::vector<std::string> unread;
  const auto root = parse_with(text, name, problems, [&](const std::string& scalar, std::vector<std::string>& wrong) {
    return expand_without_environment(scalar, wrong, unread);
  });
  auto kept = without_decisions(root, project_schema(), ignored);
  for (const std::string& variable : unread) ignored.push_back(fmt::format("${{{}}}", variable));
  return kept;
}

}  // namespace

std::shared_ptr<const TreeNode> parse_expanded(std::string_view text, const std::string& name, ProblemList& problems) {
  return parse_with(text, name, problems, expand_variables);
}

ServingSettings read_serving(const TreeNode& node) {
  ServingSettings serving;
  if (const TreeNode* host = at(node, {"host"})) serving.host = host->text;
  if (const auto port = count_at(node, {"port"})) serving.port = static_cast<std::uint16_t>(*port);
  serving.batch_size = integer_at(node, {"batch_size"});
  serving.max_batch_cost = integer_at(node, {"max_batch_cost"});
  if (const TreeNode* axis = at(node, {"batch_axis"})) {
    serving.batch_axis = axis->text == "0" ? BatchAxis::zero : BatchAxis::none;
  }
  if (const TreeNode* batching = at(node, {"batching"})) serving.batching = batching->text;
  if (const TreeNode* padding = at(node, {"padding"})) serving.padding = text_map(padding);
  if (const TreeNode* delay = at(node, {"max_queue_delay"})) serving.max_queue_delay = duration_from(delay->text);
  if (const TreeNode* timeout = at(node, {"timeout"})) serving.timeout = duration_from(timeout->text);
  serving.max_queue = count_at(node, {"max_queue"});
  if (const TreeNode* workers = at(node, {"workers"})) serving.workers = workers->text;
  serving.max_workers = count_at(node, {"max_workers"});
  serving.max_sequences = count_at(node, {"max_sequences"});
  serving.context_length = count_at(node, {"context_length"});
  if (const TreeNode* memory = at(node, {"cache_memory"})) serving.cache_bytes = parse_memory_size(memory->text);
  if (const TreeNode* warm_up = at(node, {"warm_up"})) {
    for (const auto& item : warm_up->items) {
      auto& sizes = serving.warm_up.emplace_back();
      for (const yaml::Entry& entry : item->entries) {
        sizes.emplace_back(entry.key, integer_from(entry.value->text).value_or(1));
      }
    }
  }
  return serving;
}

std::filesystem::path ProjectFile::folder() const {
  return std::filesystem::absolute(file).lexically_normal().parent_path();
}

std::optional<ProjectFile::Request> ProjectFile::provider_request() const {
  if (runtime.backend) return Request{*runtime.backend, "runtime.gpu.backend"};
  if (runtime.providers.empty()) return std::nullopt;
  std::vector<std::string> names;
  for (const DeclaredProvider& provider : runtime.providers) names.push_back(provider.name);
  if (names.size() == 1) names.emplace_back();
  return Request{join(names, ","), "runtime.providers"};
}

std::string ProjectFile::where(std::string_view key) const {
  const auto found = positions.find(key);
  return found == positions.end() ? file.string() : where(found->second);
}

std::string ProjectFile::where(yaml::Position position) const {
  return fmt::format("{}:{}:{}", file.string(), position.line, position.column);
}

namespace {

DeclaredStep declared_step(const TreeNode& node, std::string name, yaml::Position position,
                           const std::filesystem::path& folder) {
  DeclaredStep step;
  step.name = std::move(name);
  step.position = position;
  step.model = node.kind == TreeNode::Kind::scalar ? node.text : text_at(node, {"model"});
  std::error_code error;
  const std::filesystem::path path = (folder / step.model).lexically_normal();
  if (!step.model.empty() && std::filesystem::exists(path, error)) step.model = path.string();
  step.inputs = text_map(at(node, {"inputs"}));
  return step;
}

void bind_ensemble(const TreeNode& root, const TreeNode& steps, ProjectFile& project, ProblemList& problems) {
  constexpr std::size_t max_steps = 32;
  project.name = text_at(root, {"name"});
  if (project.name.empty()) problems.add(project.positions["name"], "'name' is empty; a name is accepted");
  project.version = text_at(root, {"version"}, project.version);
  project.description = text_at(root, {"description"});
  project.metadata = text_map(at(root, {"metadata"}));
  if (const TreeNode* serving = at(root, {"serving"})) project.serving = read_serving(*serving);
  DeclaredEnsemble& ensemble = project.ensemble.emplace();
  const std::filesystem::path folder = project.folder();
  for (const auto& item : steps.items) {
    ensemble.steps.push_back(declared_step(*item, text_at(*item, {"name"}), item->position, folder));
  }
  for (const yaml::Entry& entry : steps.entries) {
    ensemble.steps.push_back(declared_step(*entry.value, entry.key, entry.key_position, folder));
  }
  const std::size_t count = ensemble.steps.size();
  if (count == 0 || count > max_steps) {
    problems.add(steps.position, fmt::format("'steps' has {} steps; 1 to {} are accepted", count, max_steps));
  }
  for (const DeclaredStep& step : ensemble.steps) {
    if (step.model.empty()) problems.add(step.position, "'model' is empty; a name, file or folder is accepted");
  }
  ensemble.outputs = text_map(at(root, {"outputs"}));
}

}  // namespace

ProjectFile read_project_file(const std::filesystem::path& file, Author author) {
  return parse_project_file(read_file(file, limit_file_bytes), file, author);
}

ProjectFile parse_project_file(std::string_view text, const std::filesystem::path& file, Author author) {
  ProjectFile project;
  project.file = file;
  ProblemList problems(file.string());
  const std::shared_ptr<const TreeNode> root = author == Author::user
                                                   ? parse_expanded(text, file.string(), problems)
                                                   : parse_of_stranger(text, file.string(), problems, project.ignored);
  const TreeNode* steps = at(*root, {"steps"});
  if (steps != nullptr && author == Author::stranger) {
    // It would name models of this machine.
    problems.add(steps->position, "'steps' is not supported in packages: an ensemble is a file of its user");
    problems.throw_if_any();
  }
  check_against_schema(*root, steps == nullptr ? project_schema() : ensemble_schema(), problems, project.positions);
  problems.throw_if_any();
  if (steps == nullptr) {
    Binder(*root, project, problems).bind();
  } else {
    bind_ensemble(*root, *steps, project, problems);
  }
  problems.throw_if_any();
  return project;
}

Message ignored_line(const ProjectFile& project, std::string_view model) {
  if (project.ignored.empty()) return {};
  constexpr std::size_t limit_shown = 10;
  std::vector<std::string> shown = project.ignored;
  shown.resize(std::min(shown.size(), limit_shown));
  const std::size_t more = project.ignored.size() - shown.size();
  return format_message(
      "{}: its gpux.yml was written elsewhere, and is not to decide: {}{} {} ignored; flags or a gpux.yml "
      "of your own ({}) set them",
      in_quotes(model), join(shown), more == 0 ? "" : fmt::format(" and {} more", more),
      project.ignored.size() == 1 ? "is" : "are", setting_named("config"));
}

void require_portable(const ProjectFile& project) {
  ProblemList problems(project.file.string());
  const auto refuse_library = [&](yaml::Position position) {
    problems.add(position,
                 format_message("a package cannot bring a plugin library along; put it into $GPUX_HOME/providers or "
                                "name it with {} NAME=PATH",
                                setting_named("provider_libraries")));
  };
  for (const DeclaredLibrary& library : project.runtime.provider_libraries) refuse_library(library.position);
  for (const DeclaredProvider& provider : project.runtime.providers) {
    if (!provider.library.empty()) refuse_library(provider.position);
  }
  for (const DeclaredLibrary& library : project.runtime.custom_operators) {
    problems.add(library.position,
                 format_message("a package cannot name a library of custom operators, which is code; name it with {} "
                                "PATH",
                                setting_named("custom_operator_libraries")));
  }
  const auto profile = project.positions.find("runtime.profile");
  if (profile != project.positions.end() && project.runtime.profile) {
    problems.add(profile->second,
                 format_message("a package cannot say where to write; use 'enable_profiling: true', which writes into "
                                "$GPUX_HOME/profiles, or {} FILE",
                                setting_named("profile")));
  }
  problems.throw_if_any();
}

}  // namespace gpux

#include "project/models_file.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/files.h"
#include "base/in_quotes.h"
#include "base/memory_size.h"
#include "project/project_check.h"
#include "project/project_schema.h"

namespace gpux {
namespace {

using yaml::TreeNode;

// A path of the file's folder where there is such a one, else a name of the store.
std::string model_in(const std::filesystem::path& folder, const std::string& text) {
  std::error_code error;
  const std::filesystem::path path = (folder / text).lexically_normal();
  return !text.empty() && std::filesystem::exists(path, error) ? path.string() : text;
}

ModelLimits read_limits(const TreeNode& node) {
  ModelLimits limits;
  if (const TreeNode* memory = node.given("memory")) limits.memory_bytes = parse_memory_size(memory->text).value_or(0);
  if (const TreeNode* processors = node.given("processors")) {
    limits.processors = static_cast<std::uint32_t>(integer_from(processors->text).value_or(0));
  }
  for (const auto& [name, limit] :
       {std::pair("requests_per_minute", &limits.requests_per_minute),
        std::pair("tokens_per_minute", &limits.tokens_per_minute), std::pair("tokens_per_day", &limits.tokens_per_day),
        std::pair("requests_in_flight", &limits.requests_in_flight)}) {
    if (const TreeNode* value = node.given(name)) {
      *limit = static_cast<std::uint64_t>(integer_from(value->text).value_or(0));
    }
  }
  return limits;
}

ListedModel listed_model(const TreeNode& node, std::string name, yaml::Position position,
                         const std::filesystem::path& folder) {
  ListedModel model;
  model.name = std::move(name);
  model.position = position;
  if (node.kind == TreeNode::Kind::scalar) {
    model.model = model_in(folder, node.text);
    return model;
  }
  model.model = model_in(folder, node.text_of("model"));
  model.version = node.text_of("version");
  model.provider = node.text_of("provider");
  if (const TreeNode* config = node.given("config")) model.config = (folder / config->text).lexically_normal();
  if (const TreeNode* strict = node.given("strict")) {
    const bool on = boolean_from(strict->text).value_or(false);
    model.strict = strict->text == "nodes" ? Strictness::nodes : on ? Strictness::provider : Strictness::off;
  }
  if (const std::string isolation = node.text_of("isolation"); !isolation.empty()) {
    model.isolation = isolation == "process" ? Isolation::process : Isolation::thread;
  }
  if (const TreeNode* pinned = node.given("pinned")) model.pinned = boolean_from(pinned->text).value_or(false);
  if (const TreeNode* weight = node.given("weight")) {
    model.weight = static_cast<std::uint32_t>(integer_from(weight->text).value_or(0));
  }
  if (const TreeNode* limits = node.given("limits")) model.limits = read_limits(*limits);
  model.serving = read_serving(node);
  return model;
}

}  // namespace

ModelsFile read_models_file(const std::filesystem::path& file) {
  return parse_models_file(read_file(file, std::uint64_t{1} << 20), file);
}

ModelsFile parse_models_file(std::string_view text, const std::filesystem::path& file) {
  ModelsFile list;
  list.file = file;
  ProblemList problems(file.string());
  Positions positions;
  const auto root = parse_expanded(text, file.string(), problems);
  check_against_schema(*root, models_schema(), problems, positions);
  problems.throw_if_any();
  const std::filesystem::path folder = std::filesystem::absolute(file).lexically_normal().parent_path();
  const TreeNode& models = *root->find("models");
  for (const auto& item : models.items) {
    list.models.push_back(listed_model(*item, item->text_of("name"), item->position, folder));
  }
  for (const yaml::Entry& entry : models.entries) {
    list.models.push_back(listed_model(*entry.value, entry.key, entry.key_position, folder));
  }
  list.default_model = root->text_of("default");
  const auto is_default = [&](const ListedModel& model) { return model.name == list.default_model; };
  if (!list.default_model.empty() && std::none_of(list.models.begin(), list.models.end(), is_default)) {
    problems.add(positions["default"],
                 fmt::format("'default' is {}, which is none of the models", in_quotes(list.default_model)));
  }
  for (const ListedModel& model : list.models) {
    if (model.name.empty()) problems.add(model.position, "the name of a model is empty");
    if (model.model.empty()) problems.add(model.position, "'model' is empty; a name, file or folder is accepted");
  }
  problems.throw_if_any();
  return list;
}

}  // namespace gpux

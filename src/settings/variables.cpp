#include <array>
#include <filesystem>
#include <span>

#include "base/home.h"
#include "base/machine.h"
#include "base/spelling.h"
#include "embedding/level.h"
#include "gpux/error.h"
#include "provider/probe.h"
#include "provider/request.h"
#include "settings/load_request.h"
#include "settings/read_setting.h"

namespace gpux {
namespace {

/// A variable of the environment.
struct Variable {
  const char* name;
  /// Takes it into a request; null: it is of no load, or main() looks at it.
  void (*take)(const Setting<std::string>& said, LoadRequest& request) = nullptr;
  /// Throws where its value will not do, and `take` cannot know; null: any will.
  void (*check)(const Setting<std::string>& said) = nullptr;
};

template <auto member, auto read>
void take(const Setting<std::string>& said, LoadRequest& request) {
  request.*member = {read(said.value, said.source), said.source};
}

std::filesystem::path read_path(const std::string& text, const Source& /*source*/) {
  return text;
}

void check_level(const Setting<std::string>& said) {
  if (lower(said.value) == "none" || embedding::level_from(said.value) != nullptr) return;
  refuse(said.value, said.source, "none, low, medium (med), high");
}

void check_features(const Setting<std::string>& said) {
  if (said.value != "none" && said.value != "heuristic") refuse(said.value, said.source, "none, heuristic");
}

void check_provider(const Setting<std::string>& said) {
  const auto plugins = provider::find_plugins({}, Machine::this_one());
  (void)provider::parse_request(said.value, provider::own_names(plugins));
}

void check_memory_size(const Setting<std::string>& said) {
  (void)read_memory_size(said.value, said.source);
}

std::span<const Variable> variables() {
  using Request = LoadRequest;
  static constexpr std::array<Variable, 24> all{{
      {.name = "GPUX_HOME"},
      {.name = "GPUX_OFFLINE"},
      {.name = "GPUX_ONNXRUNTIME"},
      {.name = "GPUX_PROGRAM"},
      {.name = "GPUX_PYTHON_PACKAGES"},
      {.name = "GPUX_PROVIDER", .take = take<&Request::provider, read_text>, .check = check_provider},
      {.name = "GPUX_STRICT", .take = take<&Request::strict, read_strictness>},
      {.name = "GPUX_DEVICE", .take = take<&Request::device, read_number>},
      {.name = "GPUX_MEMORY", .take = take<&Request::memory_bytes, read_memory_size>},
      {.name = "GPUX_PRECISION", .take = take<&Request::precision, read_precision>},
      {.name = "GPUX_CACHE_DIR", .take = take<&Request::cache_directory, read_path>},
      {.name = "GPUX_ENGINE_CACHE_SIZE", .check = check_memory_size},
      {.name = "GPUX_THREADS", .take = take<&Request::intra_threads, read_thread_count>},
      {.name = "GPUX_INTER_THREADS", .take = take<&Request::inter_threads, read_thread_count>},
      {.name = "GPUX_OPTIMIZATION", .take = take<&Request::optimization, read_optimization>},
      {.name = "GPUX_PROFILE", .take = take<&Request::profile, read_path>},
      {.name = "GPUX_TIMEOUT", .take = take<&Request::timeout, read_duration>},
      {.name = "GPUX_API_KEY"},
      {.name = "GPUX_ADMIN_KEY"},
      {.name = "GPUX_VECTOR_LEVEL", .check = check_level},
      {.name = "GPUX_FEATURES", .check = check_features},
      {.name = "GPUX_MODEL_DIR"},
      {.name = "GPUX_LOG_LEVEL"},
      {.name = "GPUX_LOG_FORMAT"},
  }};
  return all;
}

}  // namespace

MaybeSetting<std::string> variable_setting(const char* name) {
  std::string text = environment_variable(name);
  if (text.empty()) return std::nullopt;
  return Setting<std::string>{std::move(text), {.kind = Source::Kind::variable, .name = name, .place = {}}};
}

LoadRequest request_of_variables() {
  LoadRequest request;
  for (const Variable& variable : variables()) {
    if (variable.take == nullptr) continue;
    if (const auto said = variable_setting(variable.name)) variable.take(*said, request);
  }
  return request;
}

std::vector<std::string> variable_names() {
  std::vector<std::string> names;
  for (const Variable& variable : variables()) names.emplace_back(variable.name);
  return names;
}

std::string variable_problem(const std::string& name) {
  const auto said = variable_setting(name.c_str());
  if (!said) return {};
  for (const Variable& variable : variables()) {
    if (variable.name != name) continue;
    try {
      LoadRequest request;
      if (variable.take != nullptr) variable.take(*said, request);
      if (variable.check != nullptr) variable.check(*said);
    } catch (const Error& error) {
      return error.message();
    }
  }
  return {};
}

}  // namespace gpux

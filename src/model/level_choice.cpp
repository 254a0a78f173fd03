#include "model/level_choice.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "base/spelling.h"
#include "settings/read_setting.h"

namespace gpux {
namespace {

using Text = MaybeSetting<std::string>;

// The first that is set: a flag, then the variables.
Text first_of(const std::string& value, const char* flag, std::initializer_list<const char*> variables) {
  if (!value.empty()) return Setting<std::string>{value, {.kind = Source::Kind::flag, .name = flag, .place = {}}};
  for (const char* variable : variables) {
    if (Text said = variable_setting(variable)) return said;
  }
  return std::nullopt;
}

// op-dbus's names, and what they are called here. Its "gpu" means CUDA.
constexpr std::array<std::pair<std::string_view, const char*>, 8> op_dbus_providers{{
    {"cpu", "cpu"},
    {"cuda", "cuda"},
    {"gpu", "cuda"},
    {"tensorrt", "tensorrt"},
    {"trt", "tensorrt"},
    {"directml", "directml"},
    {"dml", "directml"},
    {"coreml", "coreml"},
}};

}  // namespace

LevelChoice choose_level(const std::string& flag) {
  const Text said = first_of(flag, "--level", {"GPUX_VECTOR_LEVEL", "OP_DBUS_VECTOR_LEVEL"});
  if (!said) return {};
  if (lower(said->value) == "none") return {.is_none = true, .level = nullptr};
  const embedding::Level* level = embedding::level_from(said->value);
  if (level == nullptr) refuse(said->value, said->source, "none, low, medium (med), high");
  return {.is_none = false, .level = level};
}

bool wants_features(const std::string& flag, bool otherwise) {
  const Text said = first_of(flag, "--features", {"GPUX_FEATURES"});
  if (!said) return otherwise;
  if (said->value != "heuristic" && said->value != "none") refuse(said->value, said->source, "none, heuristic");
  return said->value == "heuristic";
}

std::filesystem::path model_folder(const std::string& flag) {
  const Text said = first_of(flag, "--model-dir", {"GPUX_MODEL_DIR", "OP_DBUS_MODEL_DIR"});
  return said ? said->value : std::string();
}

void apply_op_dbus(LoadRequest& request) {
  if (const Text said = variable_setting("OP_DBUS_EXECUTION_PROVIDER");
      said && !request.provider && !variable_setting("GPUX_PROVIDER")) {
    const std::string word = lower(said->value);
    const auto* const found =
        std::ranges::find(op_dbus_providers, word, &std::pair<std::string_view, const char*>::first);
    if (found == op_dbus_providers.end()) {
      refuse(said->value, said->source, "cpu, cuda (gpu), tensorrt (trt), directml (dml), coreml");
    }
    request.provider = {found->second, said->source};
  }
  const Text device = variable_setting("OP_DBUS_GPU_DEVICE");
  if (!device) return;
  const unsigned number = read_number(device->value, device->source);
  // op-dbus's CPU and CoreML have no devices to choose among, and CPU is its default.
  const bool has_devices = request.provider && request.provider->value != "cpu" && request.provider->value != "coreml";
  if (has_devices && !request.device && !variable_setting("GPUX_DEVICE")) request.device = {number, device->source};
}

}  // namespace gpux

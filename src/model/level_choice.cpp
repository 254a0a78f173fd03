#include "model/level_choice.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "base/home.h"
#include "base/spelling.h"
#include "gpux/error.h"

namespace gpux {
namespace {

struct Said {
  std::string text;
  std::string_view by;
};

// The first that speaks: a flag, then the variables.
Said first_of(const std::string& value, std::string_view flag, std::initializer_list<const char*> variables) {
  if (!value.empty()) return {value, flag};
  for (const char* variable : variables) {
    if (std::string text = environment_variable(variable); !text.empty()) return {std::move(text), variable};
  }
  return {};
}

[[noreturn]] void refuse(const Said& said, std::string_view accepted) {
  throw Error(ErrorCode::usage, fmt::format("{} is '{}'; accepted: {}", said.by, said.text, accepted));
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
  const Said said = first_of(flag, "--level", {"GPUX_VECTOR_LEVEL", "OP_DBUS_VECTOR_LEVEL"});
  if (said.by.empty()) return {};
  if (lower(said.text) == "none") return {.is_none = true, .level = nullptr, .said_by = std::string(said.by)};
  const embedding::Level* level = embedding::level_from(said.text);
  if (level == nullptr) refuse(said, "none, low, medium (med), high");
  return {.is_none = false, .level = level, .said_by = std::string(said.by)};
}

std::filesystem::path model_folder(const std::string& flag) {
  return first_of(flag, "--model-dir", {"GPUX_MODEL_DIR", "OP_DBUS_MODEL_DIR"}).text;
}

void apply_op_dbus(LoadFlags& flags) {
  if (flags.provider.empty() && environment_variable("GPUX_PROVIDER").empty()) {
    const Said said = first_of({}, {}, {"OP_DBUS_EXECUTION_PROVIDER"});
    if (!said.by.empty()) {
      const std::string word = lower(said.text);
      const auto* const found = std::find_if(op_dbus_providers.begin(), op_dbus_providers.end(),
                                             [&](const auto& p) { return p.first == word; });
      if (found == op_dbus_providers.end()) {
        refuse(said, "cpu, cuda (gpu), tensorrt (trt), directml (dml), coreml");
      }
      flags.provider = found->second;
      flags.provider_from = said.by;
    }
  }
  // op-dbus's CPU and CoreML have no devices to choose among, and CPU is its default.
  const bool has_devices = !flags.provider.empty() && flags.provider != "cpu" && flags.provider != "coreml";
  const Said device = first_of({}, {}, {"OP_DBUS_GPU_DEVICE"});
  if (device.by.empty()) return;
  std::uint32_t number = 0;
  const auto [end, failure] = std::from_chars(device.text.data(), device.text.data() + device.text.size(), number);
  if (failure != std::errc() || end != device.text.data() + device.text.size()) refuse(device, "a number from 0");
  if (has_devices && flags.device.empty() && environment_variable("GPUX_DEVICE").empty()) flags.device = device.text;
}

}  // namespace gpux

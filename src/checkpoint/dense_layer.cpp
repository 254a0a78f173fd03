#include "checkpoint/dense_layer.h"

#include <array>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/format_message.h"
#include "checkpoint/json_settings.h"
#include "checkpoint/safetensors.h"
#include "gpux/error.h"

namespace gpux::checkpoint {
namespace {

constexpr std::int64_t max_features = 1 << 20;

std::int64_t features(const JsonSettings& settings, const char* key) {
  const std::uint64_t count = settings.count(key).value_or(0);
  if (count == 0 || count > max_features) {
    settings.refuse(fmt::format("{} is {}; accepted: 1 to {}", key, count, max_features));
  }
  return static_cast<std::int64_t>(count);
}

// By the last part of PyTorch's name: torch.nn.modules.activation.Tanh.
Activation activation_of(const JsonSettings& settings) {
  static constexpr std::array<std::pair<std::string_view, Activation>, 6> known{{{"Identity", Activation::identity},
                                                                                 {"Tanh", Activation::tanh},
                                                                                 {"ReLU", Activation::relu},
                                                                                 {"GELU", Activation::gelu},
                                                                                 {"SiLU", Activation::silu},
                                                                                 {"Sigmoid", Activation::sigmoid}}};
  const std::string name = settings.text("activation_function");
  if (name.empty()) return Activation::tanh;  // sentence-transformers' default
  const std::string_view last = std::string_view(name).substr(name.rfind('.') + 1);
  for (const auto& [other, activation] : known) {
    if (last == other) return activation;
  }
  settings.refuse_value("activation_function", name, "Identity, Tanh, ReLU, GELU, SiLU, Sigmoid of torch.nn");
}

}  // namespace

DenseLayer read_dense(const std::filesystem::path& folder, std::string_view feature) {
  const JsonSettings settings(folder / "config.json");
  if (!settings.exists()) settings.refuse("is not there, and modules.json names its Dense");
  require_feature(settings, feature);
  if (settings.flag("use_residual", false)) settings.refuse_value("use_residual", true, "false");
  DenseLayer layer{.in = features(settings, "in_features"),
                   .out = features(settings, "out_features"),
                   .weights = {},
                   .bias = {},
                   .activation = activation_of(settings)};
  const std::filesystem::path file = folder / "model.safetensors";
  std::error_code unreadable;
  if (!std::filesystem::exists(file, unreadable)) {
    throw Error(ErrorCode::not_found, format_message("'{}' has no model.safetensors{}", file_at(folder),
                                                     std::filesystem::exists(folder / "pytorch_model.bin", unreadable)
                                                         ? "; pytorch_model.bin holds code and is not read"
                                                         : ""));
  }
  const Safetensors weights(file);
  layer.weights = weights.floats("linear.weight", {layer.out, layer.in});
  layer.bias = settings.flag("bias", true) ? weights.floats("linear.bias", {layer.out})
                                           : std::vector<float>(static_cast<std::size_t>(layer.out), 0.0F);
  return layer;
}

}  // namespace gpux::checkpoint

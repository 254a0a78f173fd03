#include "runtime/loading/fusion_trial.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gpux/error.h"
#include "gpux/tensor.h"

namespace gpux::runtime {
namespace {

constexpr std::int64_t texts = 2;
constexpr std::array<std::int64_t, 2> lengths{7, 75};

/// An input or output of the example.
struct ExampleInput {
  Shape shape;
  bool is_bias = false;
};

std::vector<ExampleInput> inputs_of(const onnx::FusedModel& model, std::int64_t length) {
  std::vector<ExampleInput> inputs;
  for (const onnx::AttentionForm& form : model.attentions) {
    for (int i = 0; i < 3; ++i) inputs.push_back({{texts, length, form.heads * form.head_size}});
    if (form.bias_heads == 1) inputs.push_back({{texts, 1, 1, length}, true});
    if (form.bias_heads > 1) inputs.push_back({{texts, form.bias_heads, length, length}, true});
  }
  for (const onnx::NormForm& form : model.norms) {
    for (int i = 0; i < (form.has_sum ? 2 : 1); ++i) inputs.push_back({{texts, length, form.size}});
  }
  return inputs;
}

// The last tokens of the second text are padding.
void fill(const ExampleInput& input, std::size_t number, std::span<float> elements) {
  constexpr float excluded = -30000;
  const auto length = static_cast<std::size_t>(input.shape.back());
  for (std::size_t i = 0; i < elements.size(); ++i) {
    elements[i] = std::sin(static_cast<float>(i * (number + 3)) * 0.61F + static_cast<float>(number)) * 1.5F;
    const bool is_padding = i >= elements.size() / 2 && i % length >= length - length / 3;
    if (input.is_bias && is_padding) elements[i] = excluded;
  }
}

NamedValues made_inputs(const onnx::FusedModel& model, std::int64_t length) {
  NamedValues values;
  for (const ExampleInput& input : inputs_of(model, length)) {
    Tensor tensor = Tensor::allocate(ElementType::float32, input.shape);
    fill(input, values.size(), tensor.mutable_as<float>());
    values.emplace_back(fmt::format("input.{}", values.size()), std::move(tensor));
  }
  return values;
}

ort::Session session_of(const std::string& content, const ort::SessionSettings& settings) {
  return ort::Session::from_memory(std::as_bytes(std::span(content)), ".", settings);
}

void compare(const NamedValues& met, const NamedValues& expected, std::size_t attentions, FusionDefects& defects) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    std::string& defect = i < attentions ? defects.attention : defects.norms;
    if (!defect.empty()) continue;
    defect = difference_of(met[i].second.tensor()->as<float>(), expected[i].second.tensor()->as<float>());
  }
}

}  // namespace

std::string difference_of(std::span<const float> met, std::span<const float> expected) {
  constexpr float tolerance = 0.02F;
  if (met.size() != expected.size()) return "an example of it has a result of another size";
  float largest = 0;
  for (std::size_t i = 0; i < met.size(); ++i) {
    if (!std::isfinite(met[i])) return "an example of it gives no numbers";
    largest = std::max(largest, std::abs(met[i] - expected[i]));
  }
  return largest > tolerance ? fmt::format("an example of it is wrong by {:.2g}", largest) : std::string();
}

FusionDefects try_fusion(const onnx::FusedModel& model, bool is_float16, ort::SessionSettings settings) {
  settings.profile_prefix.clear();
  settings.optimized_model.clear();
  settings.changing_files.clear();
  const std::string plain = onnx::fusion_example(model.attentions, model.norms, is_float16);
  const std::optional<onnx::FusedModel> fused = onnx::with_fused_attention(plain);
  FusionDefects defects;
  try {
    const ort::Session session = session_of(fused ? fused->content : plain, settings);
    settings.providers.clear();
    const ort::Session reference = session_of(plain, settings);
    std::vector<std::size_t> outputs(reference.output_names().size());
    for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i] = i;
    for (const std::int64_t length : lengths) {
      const NamedValues inputs = made_inputs(model, length);
      compare(session.run(inputs, outputs), reference.run(inputs, outputs), model.attentions.size(), defects);
    }
  } catch (const Error& error) {
    defects.attention = defects.norms = error.message();
  }
  return defects;
}

}  // namespace gpux::runtime

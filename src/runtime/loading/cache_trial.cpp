#include "runtime/loading/cache_trial.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"
#include "gpux/error.h"
#include "gpux/tensor.h"
#include "runtime/loading/fusion_trial.h"

namespace gpux::runtime {
namespace {

using Forms = std::set<onnx::CachedAttentionForm>;

constexpr std::array<std::int64_t, 2> lengths{7, 75};

/// A session of the example, and the keys and values that its last run gave.
class Example {
 public:
  Example(const Forms& forms, const std::string& content, ElementType cache, const ort::SessionSettings& settings)
      : forms_(forms), session_(ort::Session::from_memory(std::as_bytes(std::span(content)), ".", settings)) {
    std::size_t number = 0;
    for (const onnx::CachedAttentionForm& form : forms_) {
      for (const char* part : {"key", "value"}) {
        past_.emplace_back(fmt::format("past_key_values.{}.{}", number, part),
                           Tensor::allocate(cache, {1, form.kv_heads, 0, form.head_size}));
      }
      ++number;
    }
    for (std::size_t i = 0; i < session_.output_names().size(); ++i) outputs_.push_back(i);
  }

  [[nodiscard]] bool is_on_a_device() const {
    const std::vector<ort::AssignedNode> nodes = session_.assignment();
    const auto is_on_cpu = [](const ort::AssignedNode& node) {
      return node.operator_type == "GroupQueryAttention" && node.provider == "CPUExecutionProvider";
    };
    return std::ranges::none_of(nodes, is_on_cpu);
  }

  /// Continues with so many tokens. What each attention gives.
  std::vector<Tensor> run(std::int64_t length) {
    tokens_ += length;
    NamedValues inputs = past_;
    const auto add = [&](std::string name, std::int64_t heads, std::int64_t head_size) {
      Tensor tensor = Tensor::allocate(ElementType::float32, {1, length, heads * head_size});
      const std::span<float> elements = tensor.mutable_as<float>();
      for (std::size_t i = 0; i < elements.size(); ++i) {
        elements[i] = std::sin(static_cast<float>(i * (inputs.size() + 3)) * 0.61F + static_cast<float>(tokens_));
      }
      inputs.emplace_back(std::move(name), std::move(tensor));
    };
    std::size_t number = 0;
    for (const onnx::CachedAttentionForm& form : forms_) {
      add(fmt::format("query.{}", number), form.heads + (form.is_packed ? 2 * form.kv_heads : 0), form.head_size);
      for (const char* part : {"key", "value"}) {
        if (!form.is_packed) add(fmt::format("{}.{}", part, number), form.kv_heads, form.head_size);
      }
      ++number;
    }
    inputs.emplace_back("last_positions", count({1}, tokens_ - 1));
    inputs.emplace_back("total_length", count({}, tokens_));
    NamedValues results = session_.run(inputs, outputs_);
    std::vector<Tensor> attended;
    for (std::size_t i = 0; i < forms_.size(); ++i) attended.push_back(*results[i].second.tensor());
    for (std::size_t i = 0; i < past_.size(); ++i) past_[i].second = std::move(results[forms_.size() + i].second);
    return attended;
  }

 private:
  static Tensor count(const Shape& shape, std::int64_t number) {
    Tensor tensor = Tensor::allocate(ElementType::int32, shape);
    tensor.mutable_as<std::int32_t>()[0] = static_cast<std::int32_t>(number);
    return tensor;
  }

  const Forms& forms_;
  ort::Session session_;
  NamedValues past_;
  std::vector<std::size_t> outputs_;
  std::int64_t tokens_ = 0;
};

// Empty: nothing is on the providers' devices.
std::optional<Example> on_a_device(const Forms& forms, const std::string& content, ElementType cache,
                                   const ort::SessionSettings& settings) {
  try {
    Example example(forms, content, cache, settings);
    if (example.is_on_a_device()) return example;
  } catch (const Error& error) {
    log::debug("no example of attention with {} keys and values: {}", to_string(cache), error.message());
  }
  return std::nullopt;
}

std::string compared(const Forms& forms, const std::string& plain, const std::string& changed,
                     const ort::SessionSettings& settings, const ort::SessionSettings& cpu) {
  for (const std::int64_t length : lengths) {
    Example there(forms, changed, ElementType::float16, settings), here(forms, plain, ElementType::float32, cpu);
    for (const std::int64_t tokens : {length, std::int64_t{1}}) {
      const std::vector<Tensor> met = there.run(tokens), expected = here.run(tokens);
      for (std::size_t i = 0; i < met.size(); ++i) {
        if (std::string defect = difference_of(met[i].as<float>(), expected[i].as<float>()); !defect.empty()) {
          return defect;
        }
      }
    }
  }
  return {};
}

}  // namespace

CacheTrial try_cached_attention(const Forms& forms, ort::SessionSettings settings) {
  settings.profile_prefix.clear();
  settings.optimized_model.clear();
  settings.changing_files.clear();
  settings.cpu_fallback = true;
  const std::string plain = onnx::cached_attention_example(forms);
  const std::optional<onnx::ChangedCaches> changed = onnx::with_stored_caches(plain, onnx::CacheUse::float16_computed);
  if (!changed || on_a_device(forms, plain, ElementType::float32, settings)) return {};
  if (!on_a_device(forms, changed->content, ElementType::float16, settings)) return {};
  ort::SessionSettings cpu = settings;
  cpu.providers.clear();
  try {
    return {true, compared(forms, plain, changed->content, settings, cpu)};
  } catch (const Error& error) {
    return {true, error.message()};
  }
}

}  // namespace gpux::runtime

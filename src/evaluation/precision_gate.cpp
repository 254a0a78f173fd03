#include "evaluation/precision_gate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "base/format_message.h"
#include "gpux/error.h"
#include "onnx/half.h"
#include "runtime/compare.h"

namespace gpux::evaluation {
namespace {

bool is_floating(const Value& value) {
  const Tensor* tensor = value.tensor();
  if (tensor == nullptr) return false;
  switch (tensor->type()) {
    case ElementType::float32:
    case ElementType::float64:
    case ElementType::float16:
    case ElementType::bfloat16:
      return true;
    default:
      return false;
  }
}

double nearness(const Value& expected, const Value* got, bool by_cosine) {
  if (got == nullptr) return 0;
  const runtime::Difference difference =
      runtime::compare(expected, *got, [](ElementType) { return runtime::Tolerance{}; });
  if (!by_cosine) {
    if (difference.within) return 1;
    if (difference.elements == 0) return 0;
    return 1 - static_cast<double>(difference.mismatches) / static_cast<double>(difference.elements);
  }
  // Another shape is a difference without elements.
  const bool is_comparable = difference.within || difference.elements != 0;
  return is_comparable && std::isfinite(difference.max_absolute) ? difference.cosine : 0;
}

double nearness(const NamedValues& expected, const NamedValues& got) {
  const bool by_cosine =
      std::any_of(expected.begin(), expected.end(), [](const auto& output) { return is_floating(output.second); });
  double least = 1;
  for (const auto& [name, value] : expected) {
    if (by_cosine && !is_floating(value)) continue;
    least = std::min(least, nearness(value, find(got, name), by_cosine));
  }
  return least;
}

LoadOptions on_the_cpu(LoadOptions load) {
  load.provider = "cpu";
  load.provider_from = "--quantize";
  load.precision.clear();
  load.precision_variants.clear();
  load.optimized_graphs.clear();
  load.optimized_model.clear();
  return load;
}

/// One model being made.
class Gate {
 public:
  Gate(const std::filesystem::path& model, const std::filesystem::path& file, const Ask& ask,
       const GateOptions& options)
      : model_(model), file_(file), ask_(ask), options_(options), load_(on_the_cpu(options.load)) {
    quantize_options_.reduce_range = options.reduce_range;
  }

  GatedVariant run() {
    tell("the model's own answers");
    expected_ = answers_on_cpu(model_, ask_, load_);
    tell("converting");
    const onnx::QuantizedModel all = converted(quantize_options_);
    require_some(all);
    GatedVariant made;
    made.left_alone = all.left_alone;
    made.at_first = made.agreement = measured(all);
    onnx::QuantizedModel now = all;
    if (!passes(made.agreement)) {
      std::vector<Exclusion> by_harm = harm_of(all);
      while (!passes(made.agreement)) {
        if (made.excluded.size() + 1 >= by_harm.size()) refuse(made.at_first, by_harm.back());
        made.excluded.push_back(by_harm[made.excluded.size()]);
        const Exclusion& out = made.excluded.back();
        tell(fmt::format("without {} {}", out.node.operator_type, out.node.name));
        quantize_options_.left_alone.insert(out.node.name);
        now = converted(quantize_options_);
        made.agreement = measured(now);
      }
    }
    made.quantized = now.quantized;
    made.weight_bytes_before = now.weight_bytes_before;
    made.weight_bytes_after = now.weight_bytes_after;
    return made;
  }

 private:
  void tell(const std::string& what) const {
    if (options_.progress) options_.progress(what);
  }

  [[nodiscard]] onnx::QuantizedModel converted(const onnx::QuantizeOptions& options) const {
    return options_.precision == "fp16" ? onnx::to_float16(model_, options.left_alone)
                                        : onnx::quantize(model_, options);
  }

  [[nodiscard]] bool passes(const Agreement& agreement) const { return agreement.mean >= options_.min_cosine; }

  void require_some(const onnx::QuantizedModel& all) const {
    if (!all.quantized.empty()) return;
    std::string reasons;
    if (!all.left_alone.empty()) {
      const onnx::QuantizedNode& first = all.left_alone.front();
      reasons = fmt::format("; {} {}: {}", first.operator_type, first.name, first.reason);
      if (all.left_alone.size() > 1) reasons += fmt::format(" (and {} more)", all.left_alone.size() - 1);
    }
    throw Error(
        ErrorCode::invalid_model,
        format_message("'{}' has no weights that {} could take: {}{}", file_at(model_), options_.precision,
                       options_.precision == "fp16" ? "constants of float32 that operators compute with are"
                                                    : "MatMul, Gemm and Gather with constant float32 weights of "
                                                      "two dimensions are quantized",
                       reasons));
  }

  Agreement measured(const onnx::QuantizedModel& quantized) {
    quantized.write(file_);
    return agreement(expected_, ask_(Runtime(file_, load_)));
  }

  // Each node quantized alone, the worst first.
  std::vector<Exclusion> harm_of(const onnx::QuantizedModel& all) {
    std::vector<Exclusion> harm;
    for (const onnx::QuantizedNode& node : all.quantized) {
      tell(fmt::format("how much {} {} loses ({} of {})", node.operator_type, node.name, harm.size() + 1,
                       all.quantized.size()));
      onnx::QuantizeOptions alone = quantize_options_;
      for (const onnx::QuantizedNode& other : all.quantized) {
        if (other.name != node.name) alone.left_alone.insert(other.name);
      }
      harm.push_back({node, measured(converted(alone)).mean});
    }
    std::stable_sort(harm.begin(), harm.end(),
                     [](const Exclusion& a, const Exclusion& b) { return a.alone < b.alone; });
    return harm;
  }

  [[noreturn]] void refuse(const Agreement& at_first, const Exclusion& last) const {
    throw Error(ErrorCode::invalid_model,
                format_message("{} is refused: '{}' keeps a mean cosine of {:.6f}, and with only {} {} converted "
                               "{:.6f}; {} is asked for ({})",
                               options_.precision, file_at(model_), at_first.mean, last.node.operator_type,
                               last.node.name, last.alone, options_.min_cosine, setting_named("min_cosine")));
  }

  const std::filesystem::path& model_;
  const std::filesystem::path& file_;
  const Ask& ask_;
  const GateOptions& options_;
  LoadOptions load_;
  onnx::QuantizeOptions quantize_options_;
  Answers expected_;
};

}  // namespace

Agreement agreement(const Answers& expected, const Answers& got) {
  Agreement result;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    result.cosines.push_back(i < got.size() ? nearness(expected[i], got[i]) : 0);
  }
  if (result.cosines.empty()) return result;
  result.least = *std::min_element(result.cosines.begin(), result.cosines.end());
  result.mean =
      std::accumulate(result.cosines.begin(), result.cosines.end(), 0.0) / static_cast<double>(result.cosines.size());
  return result;
}

Answers answers_on_cpu(const std::filesystem::path& model, const Ask& ask, const LoadOptions& load) {
  Answers answers = ask(Runtime(model, on_the_cpu(load)));
  if (answers.empty()) throw Error(ErrorCode::invalid_input, "there are no samples to compare answers on");
  return answers;
}

GatedVariant make_gated_variant(const std::filesystem::path& model, const std::filesystem::path& file, const Ask& ask,
                                const GateOptions& options) {
  return Gate(model, file, ask, options).run();
}

}  // namespace gpux::evaluation

#include "evaluation/made_variant.h"

#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/format_message.h"
#include "base/machine.h"
#include "base/memory_size.h"
#include "base/spelling.h"
#include "evaluation/variant_samples.h"
#include "gpux/error.h"

namespace gpux::evaluation {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string counts_of(const std::vector<onnx::QuantizedNode>& nodes) {
  std::map<std::string, std::size_t> counts;
  for (const onnx::QuantizedNode& node : nodes) ++counts[node.operator_type];
  std::vector<std::string> texts;
  for (const auto& [type, count] : counts) texts.push_back(fmt::format("{} {}", count, type));
  return join(texts);
}

Json json_of_node(const onnx::QuantizedNode& node) {
  return {{"node", node.name}, {"operator", node.operator_type}, {"weights", node.weights}};
}

Json json_of_agreement(const Agreement& agreement) {
  return {{"mean_cosine", agreement.mean}, {"least_cosine", agreement.least}};
}

}  // namespace

LoadRequest request_beside(const LoadRequest& load) {
  LoadRequest others = load;
  others.min_cosine.reset();
  return others;
}

MadeVariant make_variant(const QuantizeFlags& flags, const LoadRequest& load, const LoadOptions& options,
                         const fs::path& onnx_file, const std::optional<checkpoint::SentenceModel>& sentences,
                         const fs::path& folder, const VariantListener& listener) {
  const VariantSamples samples = variant_samples(flags.texts, flags.samples, onnx_file, sentences);
  const bool is_half = flags.precision == "fp16";
  if (is_half && flags.reduce_range) {
    throw Error(ErrorCode::usage,
                format_message("{} is about weights of 8 bits, and fp16 has 16", setting_named("reduce_range")));
  }
  std::function<void(const std::string&)> teller;
  if (listener) teller = [&](const std::string& what) { listener(flags.precision, what); };
  const GateOptions gate{.precision = flags.precision,
                         .min_cosine = gate_of(load),
                         .reduce_range = flags.reduce_range || !adds_byte_products_exactly(Machine::this_one()),
                         .load = options,
                         .progress = teller};
  const fs::path file = folder / (flags.precision + ".onnx");
  GatedVariant made = make_gated_variant(onnx_file, file, samples.ask, gate);
  const unsigned byte_bits = gate.reduce_range ? 7 : 8;
  VariantPrecision precision = precision_of(flags.precision, is_half ? 16 : byte_bits, made.agreement);
  return {.kept = {file, std::move(precision)},
          .made = std::move(made),
          .min_cosine = gate.min_cosine,
          .what = samples.what};
}

std::string report_of(const MadeVariant& variant) {
  const GatedVariant& made = variant.made;
  const VariantPrecision& precision = variant.kept.precision;
  return fmt::format(
      "{} variant: weights {} instead of {}, cosine to the model on {}: mean {:.4f}, least {:.4f} (accepted: {} or "
      "more)",
      precision.name, format_bytes(made.weight_bytes_after), format_bytes(made.weight_bytes_before), variant.what,
      made.agreement.mean, made.agreement.least, variant.min_cosine);
}

std::string details_of(const MadeVariant& variant) {
  const GatedVariant& made = variant.made;
  std::vector<std::string> parts{fmt::format("{} with weights of {} bits: {}", variant.kept.precision.name,
                                             variant.kept.precision.weight_bits, counts_of(made.quantized))};
  if (!made.excluded.empty()) {
    parts.push_back(fmt::format("with all nodes quantized: mean {:.4f}, least {:.4f}; excluded because of it",
                                made.at_first.mean, made.at_first.least));
  }
  for (const Exclusion& one : made.excluded) {
    parts.push_back(fmt::format("{} {}: {:.4f} alone", one.node.operator_type, one.node.name, one.alone));
  }
  for (const onnx::QuantizedNode& node : made.left_alone) {
    parts.push_back(fmt::format("not quantized: {} {}: {}", node.operator_type, node.name, node.reason));
  }
  return join(parts, "; ");
}

Json json_of(const MadeVariant& variant) {
  const GatedVariant& made = variant.made;
  const VariantPrecision& precision = variant.kept.precision;
  Json json{{"precision", precision.name},
            {"weight_bits", precision.weight_bits},
            {"model_file", packaged_name(precision)},
            {"weight_bytes", made.weight_bytes_after},
            {"model_weight_bytes", made.weight_bytes_before},
            {"samples", precision.samples},
            {"compared_on", variant.what},
            {"min_cosine", variant.min_cosine},
            {"mean_cosine", made.agreement.mean},
            {"least_cosine", made.agreement.least},
            {"all_quantized", json_of_agreement(made.at_first)},
            {"quantized", Json::array()},
            {"excluded", Json::array()},
            {"left_alone", Json::array()}};
  for (const onnx::QuantizedNode& node : made.quantized) json["quantized"].push_back(json_of_node(node));
  for (const Exclusion& one : made.excluded) {
    json["excluded"].push_back(json_of_node(one.node));
    json["excluded"].back()["mean_cosine_alone"] = one.alone;
  }
  for (const onnx::QuantizedNode& node : made.left_alone) {
    json["left_alone"].push_back(json_of_node(node));
    json["left_alone"].back()["reason"] = node.reason;
  }
  return json;
}

}  // namespace gpux::evaluation

#include "cli/quantize_flags.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <CLI/Validators.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "base/machine.h"
#include "base/memory_size.h"
#include "base/spelling.h"
#include "cli/data_sets.h"
#include "cli/inputs.h"
#include "cli/texts.h"
#include "embedding/recorded_texts.h"
#include "embedding/sentence_encoder.h"
#include "gpux/error.h"
#include "gpux/model_inspector.h"

namespace gpux::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr double default_min_cosine = 0.98;

// Whose variant it is: float16 is for accelerators, and the CPU has no use for it.
std::string provider_for(const std::string& precision) {
  return precision == "fp16" ? "gpu" : "cpu";
}

std::string file_for(const std::string& precision) {
  return precision + "/model.onnx";
}

/// What answers are compared on.
struct Samples {
  runtime::Ask ask;
  std::string what;  // "64 recorded texts"
};

std::vector<std::string> given_texts(const std::string& file) {
  const Texts source = texts_of({"@" + file}, {});
  std::vector<std::string> texts;
  for (std::string text; source.next(text);) texts.push_back(text);
  return texts;
}

// A tokenizer may lie beside a model that makes something else of its tokens.
std::unique_ptr<embedding::SentenceEncoder> encoder_of(const embedding::SentenceModel& model, const Runtime& runtime) {
  try {
    return std::make_unique<embedding::SentenceEncoder>(model, runtime);
  } catch (const Error& error) {
    throw error.within("--quantize: --samples PLACE gives other inputs than texts");
  }
}

Samples text_samples(const std::string& file, const embedding::SentenceModel& model) {
  std::vector<std::string> texts;
  if (file.empty()) {
    for (const std::string_view text : embedding::recorded_texts()) texts.emplace_back(text);
  } else {
    texts = given_texts(file);
  }
  std::string what = fmt::format("{} {}", texts.size(), file.empty() ? "recorded texts" : "texts");

  // Made of the first model that is asked, and true of all of them.
  struct Prepared {
    std::unique_ptr<embedding::SentenceEncoder> encoder;
    std::vector<embedding::PreparedText> texts;
  };

  auto prepared = std::make_shared<Prepared>();
  return {[prepared, texts = std::move(texts), model](const Runtime& runtime) {
            if (!prepared->encoder) {
              prepared->encoder = encoder_of(model, runtime);
              for (const std::string& text : texts) prepared->texts.push_back(prepared->encoder->prepare(text, {}));
            }
            const InferOptions options{.timeout = {}, .outputs = {prepared->encoder->output()}};
            runtime::Answers answers;
            for (const embedding::PreparedText& text : prepared->texts) {
              const NamedValues got = runtime.infer(text.inputs, options);
              const std::vector<float> vector = prepared->encoder->finish(text, got.front().second, {});
              Tensor tensor = Tensor::allocate(ElementType::float32, {static_cast<std::int64_t>(vector.size())});
              const auto bytes = std::as_bytes(std::span(vector));
              std::copy(bytes.begin(), bytes.end(), tensor.mutable_bytes().begin());
              answers.push_back({{"vector", std::move(tensor)}});
            }
            return answers;
          },
          std::move(what)};
}

Samples input_samples(const std::string& place, const Signature& signature) {
  std::vector<NamedValues> items;
  std::error_code error;
  if (fs::is_directory(place, error)) {
    for (DataSet& set : recorded_data_sets(place, signature)) items.push_back(std::move(set.inputs));
    if (items.empty()) {
      throw Error(ErrorCode::not_found, fmt::format("--samples '{}' has no folders test_data_set_*", place));
    }
  } else {
    items = read_inputs({.inputs = {"@" + place}, .file = {}}, signature).items;
  }
  std::string what = fmt::format("{} {}", items.size(), items.size() == 1 ? "sample" : "samples");
  return {[items = std::move(items)](const Runtime& runtime) {
            runtime::Answers answers;
            for (const NamedValues& item : items) answers.push_back(runtime.infer(item));
            return answers;
          },
          std::move(what)};
}

Samples samples_of(const QuantizeFlags& flags, const fs::path& onnx_file,
                   const std::optional<embedding::SentenceModel>& sentences) {
  if (!flags.samples.empty() && !flags.texts.empty()) {
    throw Error(ErrorCode::usage, "--texts and --samples are two ways: use one of them");
  }
  if (!flags.samples.empty()) return input_samples(flags.samples, ModelInspector::inspect(onnx_file).signature);
  if (sentences) return text_samples(flags.texts, *sentences);
  throw Error(
      ErrorCode::usage,
      fmt::format("--quantize: '{}' reads no texts, so that its answers have to be compared on inputs of yours: "
                  "--samples PLACE, a folder with test_data_set_*, an .npz file or JSON lines",
                  onnx_file.string()));
}

double min_cosine_of(const LoadFlags& load) {
  return load.min_cosine.empty() ? default_min_cosine : min_cosine_from(load.min_cosine);
}

// A line on a terminal, drawn over itself.
std::function<void(const std::string&)> progress_on(const Context& context, const std::string& precision) {
  if (context.quiet || ::isatty(STDERR_FILENO) == 0) return {};
  return [precision](const std::string& what) {
    fmt::print(stderr, "\r\033[K{}: {}", precision, what);
    std::fflush(stderr);
  };
}

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

Json json_of_agreement(const runtime::Agreement& agreement) {
  return {{"mean_cosine", agreement.mean}, {"least_cosine", agreement.least}};
}

}  // namespace

void add_quantize_flags(CLI::App& verb, QuantizeFlags& flags) {
  const char* group = "A variant in another precision";
  verb.add_option("--quantize", flags.precision,
                  "keep a variant with weights of this precision too: int8 for the CPU, fp16 for GPUs")
      ->check(CLI::IsMember({"int8", "fp16"}))
      ->group(group);
  verb.add_option("--texts", flags.texts,
                  "compare it with the model on these texts, a line each (default: recorded ones)")
      ->type_name("FILE")
      ->group(group);
  verb.add_option("--samples", flags.samples,
                  "compare it on these inputs: a folder with test_data_set_*, an .npz file, JSON lines")
      ->type_name("PLACE")
      ->group(group);
  verb.add_flag("--reduce-range", flags.reduce_range,
                "weights of 7 bits, for processors without VNNI too (default: where this one lacks it)")
      ->group(group);
  verb.get_option("--min-cosine")
      ->description("the mean cosine to the model that a variant needs to be kept (default: 0.98)")
      ->group(group);
}

void check_quantize_flags(const QuantizeFlags& flags, const LoadFlags& load) {
  if (flags.given()) {
    (void)min_cosine_of(load);
    return;
  }
  const std::array<std::pair<const char*, bool>, 4> without{{{"--texts", !flags.texts.empty()},
                                                             {"--samples", !flags.samples.empty()},
                                                             {"--reduce-range", flags.reduce_range},
                                                             {"--min-cosine", !load.min_cosine.empty()}}};
  for (const auto& [flag, is_given] : without) {
    if (is_given)
      throw Error(ErrorCode::usage, fmt::format("{} says how a variant is made: give --quantize too", flag));
  }
}

LoadFlags load_flags_beside(const QuantizeFlags& flags, const LoadFlags& load) {
  LoadFlags others = load;
  if (flags.given()) others.min_cosine.clear();
  return others;
}

MadeVariant make_variant(const QuantizeFlags& flags, const LoadFlags& load, const LoadOptions& options,
                         const fs::path& onnx_file, const std::optional<embedding::SentenceModel>& sentences,
                         const fs::path& folder, const Context& context) {
  const Samples samples = samples_of(flags, onnx_file, sentences);
  const bool is_half = flags.precision == "fp16";
  if (is_half && flags.reduce_range) {
    throw Error(ErrorCode::usage, "--reduce-range is about weights of 8 bits, and fp16 has 16");
  }
  const runtime::GateOptions gate{.precision = flags.precision,
                                  .min_cosine = min_cosine_of(load),
                                  .reduce_range = flags.reduce_range || !adds_byte_products_exactly(),
                                  .load = options,
                                  .progress = progress_on(context, flags.precision)};
  MadeVariant variant{.made = {},
                      .file = folder / (flags.precision + ".onnx"),
                      .precision = {},
                      .min_cosine = gate.min_cosine,
                      .what = samples.what};
  const auto clear_line = [&] {
    if (gate.progress) fmt::print(stderr, "\r\033[K");
  };
  try {
    variant.made = runtime::make_gated_variant(onnx_file, variant.file, samples.ask, gate);
  } catch (const Error&) {
    clear_line();
    throw;
  }
  clear_line();
  const runtime::Agreement& agreement = variant.made.agreement;
  variant.precision = {.name = flags.precision,
                       .weight_bits = is_half             ? 16U
                                      : gate.reduce_range ? 7U
                                                          : 8U,
                       .mean_cosine = agreement.mean,
                       .least_cosine = agreement.least,
                       .samples = static_cast<unsigned>(agreement.cosines.size())};
  return variant;
}

void add_to(PackageContent& content, const MadeVariant& made) {
  const std::string file = file_for(made.precision.name);
  content.files.push_back({made.file, file});
  content.variants.push_back(
      {.model_file = file, .target = {.provider = provider_for(made.precision.name)}, .precision = made.precision});
}

void add_to(LoadOptions& options, const MadeVariant& made) {
  options.precision_variants.push_back({.file = made.file,
                                        .precision = made.precision.name,
                                        .provider = provider_for(made.precision.name),
                                        .weight_bits = made.precision.weight_bits,
                                        .mean_cosine = made.precision.mean_cosine});
}

std::string report_of(const MadeVariant& variant) {
  const runtime::GatedVariant& made = variant.made;
  const VariantPrecision& precision = variant.precision;
  std::string report = fmt::format(
      "{} ({} bits): {}; weights {} instead of {}\ncosine to the model on {}: mean {:.4f}, least {:.4f}; {} is asked "
      "for",
      precision.name, precision.weight_bits, counts_of(made.quantized), format_bytes(made.weight_bytes_after),
      format_bytes(made.weight_bytes_before), variant.what, made.agreement.mean, made.agreement.least,
      variant.min_cosine);
  if (!made.excluded.empty()) {
    report +=
        fmt::format("\nwith all of them quantized: mean {:.4f}, least {:.4f}; so these are not:", made.at_first.mean,
                    made.at_first.least);
  }
  for (const runtime::Exclusion& one : made.excluded) {
    report += fmt::format("\n  {} {}: alone {:.4f}", one.node.operator_type, one.node.name, one.alone);
  }
  for (const onnx::QuantizedNode& node : made.left_alone) {
    report += fmt::format("\nleft alone: {} {}: {}", node.operator_type, node.name, node.reason);
  }
  return report;
}

Json json_of(const MadeVariant& variant) {
  const runtime::GatedVariant& made = variant.made;
  const VariantPrecision& precision = variant.precision;
  Json json{{"precision", precision.name},
            {"weight_bits", precision.weight_bits},
            {"model_file", file_for(precision.name)},
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
  for (const runtime::Exclusion& one : made.excluded) {
    json["excluded"].push_back(json_of_node(one.node));
    json["excluded"].back()["mean_cosine_alone"] = one.alone;
  }
  for (const onnx::QuantizedNode& node : made.left_alone) {
    json["left_alone"].push_back(json_of_node(node));
    json["left_alone"].back()["reason"] = node.reason;
  }
  return json;
}

}  // namespace gpux::cli

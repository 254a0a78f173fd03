#include "evaluation/folder_variants.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/format_message.h"
#include "base/machine.h"
#include "evaluation/variant_samples.h"
#include "gpux/error.h"
#include "gpux/model_inspector.h"
#include "project/signature_match.h"

namespace gpux::evaluation {
namespace {

namespace fs = std::filesystem;

class Judge {
 public:
  Judge(const fs::path& model, VariantSamples samples, double min_cosine, const LoadOptions& load)
      : model_(model), samples_(std::move(samples)), min_cosine_(min_cosine), load_(load) {}

  [[nodiscard]] const std::string& what() const noexcept { return samples_.what; }

  void ask_model() {
    signature_ = ModelInspector::inspect(model_).signature;
    expected_ = answers_on_cpu(model_, samples_.ask, load_);
  }

  /// Why the file is left out; else empty, and `agreement` is its.
  Message reason_against(const fs::path& file, Agreement& agreement) const {
    try {
      std::string other = difference(signature_, ModelInspector::inspect(file).signature);
      if (!other.empty()) return Message(std::move(other));
      agreement = evaluation::agreement(expected_, answers_on_cpu(file, samples_.ask, load_));
    } catch (const Error& error) {
      if (error.code() == ErrorCode::interrupted) throw;
      return error.parts();
    }
    if (agreement.mean >= min_cosine_) return {};
    return format_message("its mean cosine to the model on {} is {:.6f}, and {} is asked for ({})", samples_.what,
                          std::floor(agreement.mean * 1e6) / 1e6, min_cosine_, setting_named("min_cosine"));
  }

 private:
  const fs::path& model_;
  VariantSamples samples_;
  double min_cosine_;
  const LoadOptions& load_;
  Signature signature_;
  Answers expected_;
};

}  // namespace

ExportedFiles files_beside(const fs::path& folder, const fs::path& onnx_file) {
  if (onnx_file.stem() != "model") return {};
  std::vector<std::string> others;
  for (const std::string& file : exported_files_in(folder)) {
    std::error_code unreadable;
    if (!fs::equivalent(folder / file, onnx_file, unreadable)) others.push_back(file);
  }
  return sort_exported_files(others, is_x86(), adds_byte_products_exactly(Machine::this_one()));
}

FolderVariants folder_variants(const fs::path& folder, const fs::path& onnx_file,
                               const std::optional<checkpoint::SentenceModel>& sentences, const QuantizeFlags& flags,
                               const LoadRequest& load, const LoadOptions& options, const VariantListener& listener) {
  FolderVariants variants;
  ExportedFiles files = files_beside(folder, onnx_file);
  variants.left_out = std::move(files.left_out);
  if (files.variants.empty()) return variants;
  const auto leave_out = [&](const ExportedVariant& variant, Message reason) {
    variants.left_out.push_back({variant.file, std::move(reason)});
  };
  if (!sentences && !flags.texts.empty()) {
    throw Error(ErrorCode::usage, format_message("{}: '{}' makes no vectors of texts; give {} PLACE",
                                                 setting_named("texts"), file_at(onnx_file), setting_named("samples")));
  }
  if (!sentences && flags.samples.empty()) {
    for (const ExportedVariant& variant : files.variants) {
      leave_out(variant, format_message("its answers have to be compared on inputs of yours: {} PLACE",
                                        setting_named("samples")));
    }
    return variants;
  }
  Judge judge(onnx_file, variant_samples(flags.texts, flags.samples, onnx_file, sentences), gate_of(load), options);
  variants.what = judge.what();
  judge.ask_model();
  for (const ExportedVariant& variant : files.variants) {
    const auto same = std::find_if(variants.found.begin(), variants.found.end(), [&](const FoundVariant& one) {
      return one.kept.precision.name == variant.precision;
    });
    if (variant.precision == flags.precision) {
      leave_out(variant, format_message("{} {} makes one", setting_named("quantize"), flags.precision));
    } else if (same != variants.found.end()) {
      leave_out(variant, format_message("{} is kept for {}", same->file, variant.precision));
    } else {
      if (listener) listener(variant.precision, fmt::format("comparing {} with the model", variant.file));
      const fs::path file = folder / variant.file;
      Agreement agreement;
      if (Message reason = judge.reason_against(file, agreement); !reason.empty()) {
        leave_out(variant, std::move(reason));
      } else {
        variants.found.push_back(
            {{file, precision_of(variant.precision, variant.weight_bits, agreement)}, variant.file});
      }
    }
  }
  return variants;
}

std::string report_of(const FolderVariants& variants, const NameOfSubject& name_of) {
  std::string report;
  for (const FoundVariant& one : variants.found) {
    const VariantPrecision& precision = one.kept.precision;
    report += fmt::format("{}{}: {}; cosine to the model on {}: mean {:.4f}, least {:.4f}", report.empty() ? "" : "\n",
                          precision.name, one.file, variants.what, precision.mean_cosine, precision.least_cosine);
  }
  for (const LeftOutFile& one : variants.left_out) {
    report += fmt::format("{}left out: {}: {}", report.empty() ? "" : "\n", one.file, to_string(one.reason, name_of));
  }
  return report;
}

nlohmann::ordered_json json_of(const FolderVariants& variants, const NameOfSubject& name_of) {
  using Json = nlohmann::ordered_json;
  Json json{{"kept", Json::array()}, {"left_out", Json::array()}};
  for (const FoundVariant& one : variants.found) {
    const VariantPrecision& precision = one.kept.precision;
    json["kept"].push_back({{"file", one.file},
                            {"precision", precision.name},
                            {"model_file", packaged_name(precision)},
                            {"compared_on", variants.what},
                            {"samples", precision.samples},
                            {"mean_cosine", precision.mean_cosine},
                            {"least_cosine", precision.least_cosine}});
  }
  for (const LeftOutFile& one : variants.left_out) {
    json["left_out"].push_back({{"file", one.file}, {"reason", to_string(one.reason, name_of)}});
  }
  return json;
}

}  // namespace gpux::evaluation

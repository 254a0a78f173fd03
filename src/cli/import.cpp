#include <filesystem>
#include <memory>
#include <optional>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/log.h"
#include "base/spelling.h"
#include "checkpoint/decoder_folder.h"
#include "cli/command.h"
#include "cli/flag_names.h"
#include "cli/load_flags.h"
#include "cli/model_report.h"
#include "cli/quantize_flags.h"
#include "cli/variant_progress.h"
#include "gpux/error.h"
#include "importer/import_model.h"
#include "library/folder_import.h"
#include "model/open_model.h"

namespace gpux::cli {
namespace {

using Json = nlohmann::ordered_json;

Json conclusions_of(const importer::ImportedModel& imported) {
  return {{"model_type", imported.family},
          {"layers", imported.layers},
          {"heads", imported.heads},
          {"width", imported.width},
          {"max_tokens", imported.max_tokens},
          {"pooling", imported.pooling.empty() ? Json() : Json(imported.pooling)},
          {"normalize", imported.normalize},
          {"task", imported.task.empty() ? Json() : Json(imported.task)},
          {"labels", imported.labels},
          {"adapters", imported.tasks},
          {"files", imported.copied},
          {"image_size", imported.image_width == 0 ? Json() : Json{imported.image_height, imported.image_width}}};
}

// "bert, 6 layers, hidden size 384, at most 256 tokens, mean pooling, normalized"
std::string summary_of(const importer::ImportedModel& imported) {
  std::vector<std::string> parts{imported.family, counted(static_cast<std::uint64_t>(imported.layers), "layer"),
                                 fmt::format("hidden size {}", imported.width)};
  if (imported.image_width != 0) {
    parts.push_back(fmt::format("images of {}x{}", imported.image_width, imported.image_height));
  }
  if (imported.max_tokens != 0) parts.push_back(fmt::format("at most {}", counted(imported.max_tokens, "token")));
  if (!imported.task.empty()) parts.push_back(imported.task);
  if (imported.labels != 0) parts.push_back(counted(static_cast<std::uint64_t>(imported.labels), "label"));
  if (!imported.tasks.empty()) parts.push_back(fmt::format("adapters for {}", join(imported.tasks)));
  if (!imported.pooling.empty()) parts.push_back(imported.pooling + " pooling");
  if (imported.normalize) parts.emplace_back("normalized");
  return join(parts);
}

Json json_of(const std::vector<importer::StoredWeights>& weights) {
  Json lines = Json::array();
  for (const importer::StoredWeights& line : weights) {
    lines.push_back(
        {{"type", line.type}, {"matrices", line.matrices}, {"bits", line.bits}, {"block_size", line.block_size}});
  }
  return lines;
}

// "Q4_K: 24 matrices in blocks of 32 with 4 bits, exactly"
std::string text_of(const importer::StoredWeights& weights) {
  return fmt::format("{}: {} in blocks of {} with {} bits, exactly", weights.type,
                     weights.matrices == 1 ? "1 matrix" : fmt::format("{} matrices", weights.matrices),
                     weights.block_size, weights.bits);
}

// How the user sees that it works.
std::string suggestion_for(const ImportRequest& flags, const ImportedFolder& made) {
  const std::optional<importer::ImportedModel>& imported = made.converted;
  const std::optional<ImportedPackage>& package = made.package;
  const std::vector<Reference>& names = made.names;
  const std::string model = names.empty() ? flags.output : names.front().text();
  const bool is_decoder =
      package ? package->task == "text-generation" : imported && imported->task == "text generation";
  if (is_decoder) return fmt::format("try: gpux generate {} 'Once upon a time' --max-tokens 50", model);
  const std::string precision =
      flags.quantize.given() ? fmt::format("--precision {} ", flags.quantize.precision) : std::string();
  const bool is_judge = package ? !package->task.empty() : imported && !imported->task.empty();
  const bool takes_images = package ? package->takes_images : imported && imported->image_width != 0;
  const bool takes_texts = package ? package->has_two_towers : imported && imported->max_tokens != 0;
  if (takes_images && is_judge) return fmt::format("try: gpux run {} {}@image.jpg", model, precision);
  if (takes_images && takes_texts) {
    return fmt::format(
        "try: gpux embed {0} {1}'a sentence', gpux embed {0} {1}@image.jpg, or gpux run {0} {1}@image.jpg "
        "--labels cat,dog",
        model, precision);
  }
  if (takes_images) return fmt::format("try: gpux embed {} {}@image.jpg", model, precision);
  return is_judge ? fmt::format("try: gpux run {} {}--input …, as gpux inspect {} says", model, precision, model)
                  : fmt::format("try: gpux embed --model {} {}'a sentence'", model, precision);
}

// import follows the settings of Hugging Face's files; a gpux.yml next to them may contradict these.
void report_unread_project(const std::string& folder, const Context& context) {
  std::error_code unreadable;
  const std::filesystem::path file = std::filesystem::path(folder) / "gpux.yml";
  if (!std::filesystem::exists(file, unreadable)) return;
  say(context, fmt::format("import does not read '{}'; gpux build {} makes a package by it", file.string(), folder));
}

Json json_of(const generation::QuantizationAgreement& agreement) {
  return {{"precision", agreement.precision},
          {"texts", agreement.what},
          {"positions", agreement.positions},
          {"perplexity", agreement.quantized_perplexity},
          {"original_perplexity", agreement.perplexity},
          {"same_token", agreement.same_token}};
}

void report(const generation::QuantizationAgreement& agreement, const Context& context) {
  print_data(generation::report_of(agreement));
  if (agreement.ratio() <= generation::warned_perplexity_ratio) return;
  say(context, fmt::format("the perplexity increases by more than {:.0f} %: --quantize int8 and --quantize-block 32 "
                           "are more accurate",
                           (generation::warned_perplexity_ratio - 1) * 100));
}

Json to_json(const ImportedFolder& made, const std::string& output) {
  const auto& [imported, quantization, package, names] = made;
  Json json = imported ? conclusions_of(*imported) : Json::object();
  if (imported && !imported->weights.empty()) json["weights"] = json_of(imported->weights);
  if (!output.empty()) json["folder"] = output;
  if (package) {
    json["id"] = "sha256:" + package->stored.digest;
    json["names"] = Json::array();
    for (const Reference& name : names) json["names"].push_back(name.text());
    json["size_bytes"] = package->stored.package.total_bytes();
    if (package->dimension != 0) json["dimension"] = package->dimension;
    if (!package->task.empty()) json["task"] = package->task;
    if (package->variant) json["quantization"] = json_of(*package->variant);
    json["variants"] = json_of(package->beside, flag_name);
    json["verdict"] = Json::parse(json_text_of(package->verdict));
  }
  if (quantization) json["quantization"] = json_of(*quantization);
  return json;
}

void import_model(const ImportRequest& flags, const Context& context) {
  if (flags.output.empty() && flags.tags.empty()) {
    throw Error(ErrorCode::usage, "import: give an output: -t NAME[:TAG] for the store, -o NEW for a folder");
  }
  if (!flags.file.empty() && !flags.output.empty()) {
    throw Error(ErrorCode::usage, "--file names an existing ONNX file, and -o creates one: use one of them");
  }
  const bool is_onnx = !flags.file.empty() || is_onnx_folder(flags.folder);
  check_quantize_flags(flags.quantize, flags.load, is_onnx && has_variants(flags));
  if (flags.quantize.given() && flags.tags.empty() && !checkpoint::is_decoder_folder(flags.folder)) {
    throw Error(ErrorCode::usage, "--quantize: the variant is stored in a package: give -t NAME[:TAG]");
  }
  report_unread_project(flags.folder, context);
  Store store = open_store();
  const ImportedFolder made = gpux::import_folder(flags, store, VariantProgress(context).listener());
  const auto& [imported, quantization, package, names] = made;

  if (context.wants_json()) {
    print_data(to_json(made, flags.output).dump());
    return;
  }
  if (package) say(context, line_of(package->verdict));
  const std::string line = package ? stored_line(package->stored, names) : "made " + flags.output;
  std::string what;
  if (imported) {
    what = summary_of(*imported);
  } else if (package) {
    what = package->task.empty() ? counted(package->dimension, "dimension") : package->task;
  }
  print_data(fmt::format("{}: {}", line, what));
  if (quantization) report(*quantization, context);
  if (imported) {
    for (const importer::StoredWeights& weights : imported->weights) print_data(text_of(weights));
    for (const std::string& file : imported->left_out) say(context, file);
    for (const Message& note : imported->notes) say(context, to_string(note, flag_name));
  }
  if (package && package->variant) {
    print_data(report_of(*package->variant));
    log::info("{}", evaluation::details_of(*package->variant));
  }
  const std::string beside = package ? report_of(package->beside, flag_name) : std::string();
  if (!beside.empty()) print_data(beside);
  say(context, suggestion_for(flags, made));
}

}  // namespace

void add_import(CLI::App& program, Context& context) {
  auto flags = std::make_shared<ImportRequest>();
  CLI::App* command =
      add_command(program, context, "import", "Convert the model of a Hugging Face folder, and store it");
  command
      ->add_option("FOLDER", flags->folder,
                   "an encoder with tokenizer.json and an ONNX file, or with config.json and model.safetensors (BERT, "
                   "RoBERTa, ModernBERT, Qwen3 and more: docs/models.md)")
      ->required();
  command->add_option("-t,--tag", flags->tags, "store it under NAME[:TAG]; repeatable")->allow_extra_args(false);
  command->add_option("-o,--output", flags->output, "convert a folder with safetensors to this new folder");
  command->add_option("--file", flags->file,
                      "the ONNX file of the model (default: model.onnx, with the int8 and fp16 files next to it "
                      "as its variants)");
  command
      ->add_option("--reranker", flags->reranker,
                   "the folder is a causal language model that scores pairs of texts in this format: qwen3 "
                   "(Qwen3-Reranker; default: as its README.md or modules.json says)")
      ->check(CLI::IsMember({"qwen3"}));
  command
      ->add_option(
          "--context-length", flags->context_length,
          "tokens of a prompt and its text, of a model that generates text (default: the model's; with longrope "
          "positions, those of its short texts)")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 31U));
  add_load_flags(*command, flags->load);
  add_import_quantize_flags(*command, flags->quantize);
  command->footer(
      "Examples:\n"
      "  gpux import all-MiniLM-L6-v2 -t minilm && gpux embed --model minilm 'a sentence'\n"
      "  gpux import all-MiniLM-L6-v2 -t minilm --quantize int8\n"
      "  gpux import Qwen2.5-0.5B -t qwen --quantize int4\n"
      "  gpux import all-MiniLM-L6-v2 -o folder");
  command->callback([flags, &context] { import_model(*flags, context); });
}

}  // namespace gpux::cli

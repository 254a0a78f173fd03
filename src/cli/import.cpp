#include <filesystem>
#include <memory>
#include <optional>

#include <CLI/App.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/log.h"
#include "base/scratch_folder.h"
#include "base/spelling.h"
#include "cli/command.h"
#include "cli/folder_variants.h"
#include "cli/load_flags.h"
#include "cli/model_report.h"
#include "cli/open_model.h"
#include "cli/quantize_flags.h"
#include "embedding/embedder.h"
#include "embedding/import_encoder.h"
#include "gpux/error.h"
#include "gpux/model_inspector.h"
#include "model/exported_files.h"
#include "model/package_content.h"
#include "onnx/safetensors.h"
#include "pipeline/pipeline.h"

namespace gpux::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct ImportFlags {
  std::string folder, output, file;
  std::vector<std::string> tags;
  LoadFlags load;
  QuantizeFlags quantize;
};

// Where it has weights besides, they come before ONNX files of other names: those are in other precisions.
bool is_onnx_folder(const fs::path& folder) {
  std::error_code unreadable;
  if (fs::exists(folder / "model.onnx", unreadable) || fs::exists(folder / "onnx/model.onnx", unreadable)) return true;
  return !onnx::safetensors_in(folder) && !exported_files_in(folder).empty();
}

// Whether there is something to be compared with the model.
bool has_variants(const ImportFlags& flags) {
  std::error_code unreadable;
  fs::path file = fs::path(flags.folder) / (flags.file.empty() ? "model.onnx" : flags.file);
  if (flags.file.empty() && !fs::exists(file, unreadable)) file = fs::path(flags.folder) / "onnx/model.onnx";
  return !files_beside(flags.folder, file).variants.empty();
}

Json conclusions_of(const embedding::ImportedEncoder& imported) {
  return {{"model_type", imported.family},     {"layers", imported.layers},
          {"heads", imported.heads},           {"width", imported.width},
          {"max_tokens", imported.max_tokens}, {"pooling", imported.pooling.empty() ? Json() : Json(imported.pooling)},
          {"normalize", imported.normalize},   {"task", imported.task.empty() ? Json() : Json(imported.task)},
          {"labels", imported.labels},         {"files", imported.copied}};
}

// "bert, 6 layers, hidden size 384, at most 256 tokens, mean pooling, normalized"
std::string summary_of(const embedding::ImportedEncoder& imported) {
  std::vector<std::string> parts{imported.family, counted(static_cast<std::uint64_t>(imported.layers), "layer"),
                                 fmt::format("hidden size {}", imported.width),
                                 fmt::format("at most {}", counted(imported.max_tokens, "token"))};
  if (!imported.task.empty()) parts.push_back(imported.task);
  if (imported.labels != 0) parts.push_back(counted(static_cast<std::uint64_t>(imported.labels), "label"));
  if (!imported.pooling.empty()) parts.push_back(imported.pooling + " pooling");
  if (imported.normalize) parts.emplace_back("normalized");
  return join(parts);
}

// import follows the settings of Hugging Face's files; a gpux.yml next to them may contradict these.
void report_unread_project(const std::string& folder, const Context& context) {
  std::error_code unreadable;
  const fs::path file = fs::path(folder) / "gpux.yml";
  if (!fs::exists(file, unreadable)) return;
  say(context, fmt::format("import does not read '{}'; gpux build {} makes a package by it", file.string(), folder));
}

struct Package {
  StoredModel stored;
  std::size_t dimension = 0;  // 0: it makes no vectors
  std::string task;
  Verdict verdict;
  std::optional<MadeVariant> variant;
  FolderVariants beside;
};

// That it loads, and has what its task needs, is seen before it is stored.
Package store_folder(const fs::path& folder, const std::vector<Reference>& names, const ImportFlags& flags,
                     const fs::path& scratch, const Context& context) {
  embedding::SentenceModel model = embedding::read_sentence_model(folder, flags.file);
  LocatedModel located;
  located.onnx_file = model.onnx_file;
  located.name = names.front().name;
  located.version = names.front().tag == "latest" ? "1.0.0" : names.front().tag;
  PackageContent content = package_content(located, flags.load.provider);
  for (const std::string& file : embedding::setting_files_in(folder)) content.files.push_back({folder / file, file});
  LoadSettings settings = resolve_load(load_flags_beside(flags.load), {}, located);
  if (!flags.load.precision.empty()) content.precision = settings.options.precision;
  const Signature signature = ModelInspector::inspect(located.onnx_file).signature;
  auto text_settings = pipeline::read_text_settings(located.onnx_file, nullptr, signature);
  const bool is_judge = text_settings && text_settings->task != pipeline::Task::none;
  std::optional<MadeVariant> variant;
  const auto sentences = is_judge ? std::nullopt : std::optional(model);
  if (flags.quantize.given()) {
    variant =
        make_variant(flags.quantize, flags.load, settings.options, located.onnx_file, sentences, scratch, context);
  }
  FolderVariants beside =
      folder_variants(folder, located.onnx_file, sentences, flags.quantize, flags.load, settings.options, context);
  std::vector<KeptVariant> kept;
  if (variant) kept.push_back(variant->kept);
  for (const FoundVariant& found : beside.found) kept.push_back(found.kept);
  for (const KeptVariant& one : kept) {
    add_to(content, one);
    add_to(settings.options, one);
  }
  Runtime runtime(located.onnx_file, settings.options);
  if (is_judge) {
    const pipeline::Pipeline pipeline(*std::move(text_settings), signature);
    const std::string task(name_of(pipeline::task_names, pipeline.settings().task));
    return {open_store().add(content, names), 0, task, runtime.verdict(), std::move(variant), std::move(beside)};
  }
  const embedding::Embedder embedder(std::move(model), std::move(runtime));
  return {open_store().add(content, names),
          embedder.encoder().dimension(),
          "",
          embedder.runtime().verdict(),
          std::move(variant),
          std::move(beside)};
}

void import_folder(const ImportFlags& flags, Context& context) {
  if (flags.output.empty() && flags.tags.empty()) {
    throw Error(ErrorCode::usage, "import: give an output: -t NAME[:TAG] for the store, -o NEW for a folder");
  }
  if (!flags.file.empty() && !flags.output.empty()) {
    throw Error(ErrorCode::usage, "--file names an existing ONNX file, and -o creates one: use one of them");
  }
  const bool is_onnx = !flags.file.empty() || is_onnx_folder(flags.folder);
  check_quantize_flags(flags.quantize, flags.load, is_onnx && has_variants(flags));
  if (flags.quantize.given() && flags.tags.empty()) {
    throw Error(ErrorCode::usage, "--quantize: the variant is stored in a package: give -t NAME[:TAG]");
  }
  report_unread_project(flags.folder, context);
  std::vector<Reference> names;
  for (const std::string& tag : flags.tags) names.push_back(parse_reference(tag));
  std::optional<embedding::ImportedEncoder> imported;
  const ScratchFolder scratch;
  fs::path folder = flags.folder;
  // What is ONNX already goes into the store as it is; import_encoder() refuses to make a folder of it.
  if (!flags.output.empty() || !is_onnx) {
    const fs::path target = flags.output.empty() ? scratch.path() / "model" : fs::path(flags.output);
    imported = embedding::import_encoder(folder, target);
    folder = target;
  }
  std::optional<Package> package;
  if (!names.empty()) package = store_folder(folder, names, flags, scratch.path(), context);

  const std::string where = names.empty() ? flags.output : names.front().text();
  if (context.wants_json()) {
    Json said = imported ? conclusions_of(*imported) : Json::object();
    if (!flags.output.empty()) said["folder"] = flags.output;
    if (package) {
      said["id"] = "sha256:" + package->stored.digest;
      said["names"] = Json::array();
      for (const Reference& name : names) said["names"].push_back(name.text());
      said["size_bytes"] = package->stored.package.total_bytes();
      if (package->dimension != 0) said["dimension"] = package->dimension;
      if (!package->task.empty()) said["task"] = package->task;
      if (package->variant) said["quantization"] = json_of(*package->variant);
      said["variants"] = json_of(package->beside);
      said["verdict"] = Json::parse(to_json(package->verdict));
    }
    print_data(said.dump());
    return;
  }
  if (package) say(context, to_line(package->verdict));
  const std::string line = package ? stored_line(package->stored, names) : "made " + flags.output;
  std::string what;
  if (imported) {
    what = summary_of(*imported);
  } else if (package) {
    what = package->task.empty() ? counted(package->dimension, "dimension") : package->task;
  }
  print_data(fmt::format("{}: {}", line, what));
  if (package && package->variant) {
    print_data(report_of(*package->variant));
    log::info("{}", details_of(*package->variant));
  }
  const std::string beside = package ? report_of(package->beside) : std::string();
  if (!beside.empty()) print_data(beside);
  const bool is_judge = package ? !package->task.empty() : imported && !imported->task.empty();
  const std::string model = names.empty() ? flags.output : where;
  const std::string precision = flags.quantize.given() ? "--precision int8 " : "";
  say(context, is_judge ? fmt::format("try: gpux run {} {}--input …, as gpux inspect {} says", model, precision, model)
                        : fmt::format("try: gpux embed --model {} {}'a sentence'", model, precision));
}

}  // namespace

void add_import(CLI::App& program, Context& context) {
  auto flags = std::make_shared<ImportFlags>();
  CLI::App* command = add_command(program, context, "import", "Import a model from a Hugging Face folder");
  command
      ->add_option("FOLDER", flags->folder,
                   "an encoder with tokenizer.json and an ONNX file, or with config.json and model.safetensors (BERT, "
                   "RoBERTa, XLM-R, DistilBERT, MPNet)")
      ->required();
  command->add_option("-t,--tag", flags->tags, "store it under NAME[:TAG]; repeatable")->allow_extra_args(false);
  command->add_option("-o,--output", flags->output, "convert a folder with safetensors to this new folder");
  command->add_option("--file", flags->file,
                      "the ONNX file of the model (default: model.onnx, with the int8 and fp16 files next to it "
                      "as its variants)");
  add_load_flags(*command, flags->load);
  add_quantize_flags(*command, flags->quantize);
  command->footer(
      "Examples:\n"
      "  gpux import all-MiniLM-L6-v2 -t minilm && gpux embed --model minilm 'a sentence'\n"
      "  gpux import all-MiniLM-L6-v2 -t minilm --quantize int8\n"
      "  gpux import all-MiniLM-L6-v2 -o folder");
  command->callback([flags, &context] { import_folder(*flags, context); });
}

}  // namespace gpux::cli

#include <filesystem>
#include <memory>
#include <optional>

#include <CLI/App.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/spelling.h"
#include "cli/command.h"
#include "cli/load_flags.h"
#include "cli/open_model.h"
#include "cli/quantize_flags.h"
#include "cli/scratch_folder.h"
#include "embedding/embedder.h"
#include "embedding/import_encoder.h"
#include "gpux/error.h"
#include "model/package_content.h"

namespace gpux::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct ImportFlags {
  std::string folder, output;
  std::vector<std::string> tags;
  LoadFlags load;
  QuantizeFlags quantize;
};

bool has_onnx_file(const fs::path& folder) {
  std::error_code unreadable;
  return fs::exists(folder / "model.onnx", unreadable) || fs::exists(folder / "onnx/model.onnx", unreadable);
}

Json conclusions_of(const embedding::ImportedEncoder& imported) {
  return {{"model_type", imported.family},     {"layers", imported.layers},
          {"heads", imported.heads},           {"width", imported.width},
          {"max_tokens", imported.max_tokens}, {"pooling", imported.pooling.empty() ? Json() : Json(imported.pooling)},
          {"normalize", imported.normalize},   {"files", imported.copied}};
}

void print_conclusions(const embedding::ImportedEncoder& imported, const std::string& where) {
  print_data(fmt::format("{}: {} of {} layers, {} heads, width {}, at most {} tokens", where, imported.family,
                         imported.layers, imported.heads, imported.width, imported.max_tokens));
  print_data(imported.pooling.empty() ? "pooling is not part of the graph: gpux embed does it"
                                      : fmt::format("part of the graph: {} pooling{}", imported.pooling,
                                                    imported.normalize ? ", and normalisation" : ""));
  print_data(fmt::format("copied: {}", join(imported.copied)));
}

struct Package {
  StoredModel stored;
  std::size_t dimension = 0;
  Verdict verdict;
  std::optional<MadeVariant> variant;
};

// That it loads, and has what an encoder needs, is seen before it is stored.
Package store_folder(const fs::path& folder, const std::vector<Reference>& names, const ImportFlags& flags,
                     const fs::path& scratch, const Context& context) {
  embedding::SentenceModel model = embedding::read_sentence_model(folder);
  LocatedModel located;
  located.onnx_file = model.onnx_file;
  located.name = names.front().name;
  located.version = names.front().tag == "latest" ? "1.0.0" : names.front().tag;
  PackageContent content = package_content(located, flags.load.provider);
  for (const std::string& file : embedding::setting_files_in(folder)) content.files.push_back({folder / file, file});
  LoadSettings settings = resolve_load(load_flags_beside(flags.quantize, flags.load), {}, located);
  if (!flags.load.precision.empty()) content.precision = settings.options.precision;
  std::optional<MadeVariant> variant;
  if (flags.quantize.given()) {
    variant = make_variant(flags.quantize, flags.load, settings.options, located.onnx_file, model, scratch, context);
    add_to(content, *variant);
    add_to(settings.options, *variant);
  }
  const embedding::Embedder embedder(std::move(model), Runtime(located.onnx_file, settings.options));
  return {open_store().add(content, names), embedder.encoder().dimension(), embedder.runtime().verdict(),
          std::move(variant)};
}

void import_folder(const ImportFlags& flags, Context& context) {
  if (flags.output.empty() && flags.tags.empty()) {
    throw Error(ErrorCode::usage, "import: say where to: -t NAME[:TAG] for the store, -o NEW for a folder");
  }
  check_quantize_flags(flags.quantize, flags.load);
  if (flags.quantize.given() && flags.tags.empty()) {
    throw Error(ErrorCode::usage, "--quantize: the variant is kept in the store: give -t NAME[:TAG]");
  }
  std::vector<Reference> names;
  for (const std::string& tag : flags.tags) names.push_back(parse_reference(tag));
  std::optional<embedding::ImportedEncoder> imported;
  const ScratchFolder scratch;
  fs::path folder = flags.folder;
  // What is ONNX already goes into the store as it is; import_encoder() refuses to make a folder of it.
  if (!flags.output.empty() || !has_onnx_file(folder)) {
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
      said["dimension"] = package->dimension;
      if (package->variant) said["quantization"] = json_of(*package->variant);
      said["verdict"] = Json::parse(to_json(package->verdict));
    }
    print_data(said.dump());
    return;
  }
  if (package) say(context, to_line(package->verdict));
  if (imported) print_conclusions(*imported, where);
  if (package && package->variant) print_data(report_of(*package->variant));
  if (package) {
    print_data(fmt::format("stored: {}, {} files, {} dimensions", where, package->stored.package.files.size(),
                           package->dimension));
  }
  say(context, fmt::format("try: gpux embed --model {} {}'a sentence'", names.empty() ? flags.output : where,
                           flags.quantize.given() ? "--precision int8 " : ""));
}

}  // namespace

void add_import(CLI::App& program, Context& context) {
  auto flags = std::make_shared<ImportFlags>();
  CLI::App* verb = add_verb(program, context, "import", "Make a model of a Hugging Face folder");
  verb->add_option("FOLDER", flags->folder,
                   "an encoder with tokenizer.json and an ONNX file, or with config.json and model.safetensors (BERT, "
                   "RoBERTa, XLM-R, DistilBERT, MPNet)")
      ->required();
  verb->add_option("-t,--tag", flags->tags, "keep it in the store under NAME[:TAG]; repeatable")
      ->allow_extra_args(false);
  verb->add_option("-o,--output", flags->output, "make a new folder of one with safetensors");
  add_load_flags(*verb, flags->load);
  add_quantize_flags(*verb, flags->quantize);
  verb->footer(
      "Examples:\n"
      "  gpux import all-MiniLM-L6-v2 -t minilm && gpux embed --model minilm 'a sentence'\n"
      "  gpux import all-MiniLM-L6-v2 -t minilm --quantize int8\n"
      "  gpux import all-MiniLM-L6-v2 -o folder");
  verb->callback([flags, &context] { import_folder(*flags, context); });
}

}  // namespace gpux::cli

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include <CLI/App.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/scratch_folder.h"
#include "cli/command.h"
#include "cli/load_flags.h"
#include "cli/model_report.h"
#include "cli/open_model.h"
#include "cli/quantize_flags.h"
#include "embedding/import_encoder.h"
#include "gpux/error.h"
#include "gpux/runtime.h"
#include "model/package_content.h"
#include "model/package_manifest.h"
#include "model/store.h"
#include "model/variant.h"

namespace gpux::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* optimized_folder = "optimized";

struct BuildFlags {
  std::string path = ".", config;
  std::vector<std::string> tags;
  LoadFlags load;
  QuantizeFlags quantize;
  bool optimize = false;
};

std::vector<Reference> names_for(const BuildFlags& flags, const LocatedModel& located) {
  std::vector<Reference> names;
  for (const std::string& tag : flags.tags) names.push_back(parse_reference(tag));
  if (!names.empty()) return names;
  try {
    return {parse_reference(located.name + ":" + located.version), parse_reference(located.name)};
  } catch (const Error& error) {
    throw error.within("give the package a name with -t NAME[:TAG]");
  }
}

// The tokenizer, and the settings beside it, where the model is given texts.
void add_text_files(const OpenModel& model, PackageContent& content) {
  if (!model.pipeline) return;
  const fs::path folder = model.pipeline->settings().tokenizer_file.parent_path();
  const fs::path below = model.located.project ? folder.lexically_relative(model.located.project->folder()) : "";
  for (const std::string& file : embedding::setting_files_in(folder)) {
    const std::string name = (below / file).lexically_normal().generic_string();
    const bool is_known = std::any_of(content.files.begin(), content.files.end(),
                                      [&](const PackageFile& known) { return known.name == name; });
    if (!is_known && is_inside_package(name)) content.files.push_back({folder / file, name});
  }
}

// An optimized graph, with the files next to it, is a variant of the package for the provider chosen here.
void add_optimized(PackageContent& content, const Runtime& runtime) {
  const OptimizedGraph& graph = runtime.written_graph();
  // In one order, whatever the file system's: a package's id follows from it.
  const fs::directory_iterator beside(graph.file.parent_path());
  for (const fs::path& file : std::set<fs::path>(begin(beside), end(beside))) {
    content.files.push_back({file, (fs::path(optimized_folder) / file.filename()).string()});
  }
  content.variants.push_back({(fs::path(optimized_folder) / graph.file.filename()).string(),
                              {.provider = graph.provider,
                               .runtime_version = graph.runtime_version,
                               .device = graph.device,
                               .optimization_level = graph.optimization,
                               .machine = graph.machine,
                               .provider_options = graph.provider_options},
                              {}});
}

void print_stored(const Context& context, const StoredModel& stored, const std::vector<Reference>& names,
                  const Verdict& verdict, const std::optional<MadeVariant>& variant) {
  std::vector<std::string> texts;
  for (const Reference& name : names) texts.push_back(name.text());
  if (context.wants_json()) {
    nlohmann::ordered_json json;
    json["id"] = "sha256:" + stored.digest;
    json["names"] = texts;
    json["name"] = stored.package.name;
    json["version"] = stored.package.version;
    json["size_bytes"] = stored.package.total_bytes();
    json["provider"] = stored.package.provider.empty() ? "auto" : stored.package.provider;
    auto& files = json["files"] = nlohmann::ordered_json::array();
    for (const StoredFile& file : stored.package.files) {
      files.push_back({{"name", file.name}, {"size_bytes", file.blob.bytes}, {"digest", "sha256:" + file.blob.digest}});
    }
    if (!stored.package.precision.empty()) json["precision"] = stored.package.precision;
    if (variant) json["quantization"] = json_of(*variant);
    json["verdict"] = nlohmann::ordered_json::parse(to_json(verdict));
    print_data(json.dump());
    return;
  }
  print_data(stored_line(stored, names));
  if (variant) print_data(report_of(*variant));
  if (variant) log::info("{}", details_of(*variant));
}

void build(const BuildFlags& flags, const Context& context) {
  check_quantize_flags(flags.quantize, flags.load);
  const LoadFlags load = load_flags_beside(flags.load);
  OpenModel model = open_model(flags.path, flags.config, load, {});
  model.open_inputs();
  if (model.located.stored) {
    throw Error(ErrorCode::usage, fmt::format("'{}' is already a stored package; gpux tag adds a name", flags.path));
  }
  const std::vector<Reference> names = names_for(flags, model.located);
  if (model.located.project) require_portable_options(*model.located.project);
  PackageContent content = package_content(model.located, flags.load.provider);
  add_text_files(model, content);
  if (!flags.load.precision.empty()) content.precision = model.settings.options.precision;

  // Loading proves that it is a model. It also writes the optimized graph if that is requested.
  const ScratchFolder scratch;
  LoadOptions options = model.settings.options;
  std::optional<MadeVariant> variant;
  if (flags.quantize.given()) {
    const fs::path& onnx_file = model.located.onnx_file;
    const auto sentences = flags.quantize.samples.empty() ? embedding::sentence_model_of(onnx_file) : std::nullopt;
    variant = make_variant(flags.quantize, flags.load, options, onnx_file, sentences, scratch.path(), context);
    add_to(content, variant->kept);
    add_to(options, variant->kept);
  }
  if (flags.optimize) {
    // Nothing else lies there.
    fs::create_directory(scratch.path() / optimized_folder);
    options.optimized_model = scratch.path() / optimized_folder / "model.onnx";
  }
  const Runtime runtime(model.located.onnx_file, options);
  const Verdict& verdict = runtime.verdict();
  if (flags.optimize) add_optimized(content, runtime);
  Store store = open_store();
  const StoredModel stored = store.add(content, names);
  say(context, to_line(verdict));
  print_stored(context, stored, names, verdict, variant);
}

}  // namespace

void add_build(CLI::App& program, Context& context) {
  auto flags = std::make_shared<BuildFlags>();
  CLI::App* command = add_command(program, context, "build", "Check a model and store it under a name");
  command->add_option("PATH", flags->path, "a folder with gpux.yml, or an .onnx file (default: .)");
  command
      ->add_option("-t,--tag", flags->tags, "NAME[:TAG], repeatable (default: gpux.yml's name and version, and latest)")
      ->allow_extra_args(false);
  command->add_option("-c,--config", flags->config, "another gpux.yml");
  command->add_flag("--optimize,!--no-optimize", flags->optimize,
                    "also store the optimized graph, or what the provider compiled, for this machine");
  add_load_flags(*command, flags->load);
  add_quantize_flags(*command, flags->quantize);
  command->footer(
      "Examples:\n"
      "  gpux build . --provider cuda\n"
      "  gpux build model.onnx --tag digits:1.0.0\n"
      "  gpux build model.onnx -t digits --quantize int8 --samples inputs.npz");
  command->callback([flags, &context] { build(*flags, context); });
}

}  // namespace gpux::cli

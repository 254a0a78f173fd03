#include <optional>

#include <CLI/App.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/memory_size.h"
#include "cli/command.h"
#include "cli/flag_names.h"
#include "cli/load_flags.h"
#include "cli/model_report.h"
#include "cli/quantize_flags.h"
#include "cli/setting_flags.h"
#include "cli/variant_progress.h"
#include "library/package_build.h"
#include "model/open_model.h"
#include "settings/read_setting.h"
#include "store/store.h"

namespace gpux::cli {
namespace {

void print_stored(const Context& context, const BuiltPackage& built) {
  const auto& [stored, names, verdict, variant, engine] = built;
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
    if (!stored.package.shapes.empty()) json["shapes"] = stored.package.shapes;
    if (engine) {
      json["engine"] = {
          {"provider", engine->provider}, {"folder", engine->folder.string()}, {"size_bytes", engine->bytes}};
    }
    json["verdict"] = nlohmann::ordered_json::parse(json_text_of(verdict));
    print_data(json.dump());
    return;
  }
  print_data(stored_line(stored, names));
  if (variant) print_data(report_of(*variant));
  if (variant) log::info("{}", evaluation::details_of(*variant));
}

void say_engine(const Context& context, const BuildRequest& request, const BuiltPackage& built) {
  if (!request.load.shapes) return;
  if (!built.engine) {
    say(context,
        "nothing was compiled ahead: the provider does not run the model on this machine, and compiles it "
        "where it first does");
  } else if (built.engine->folder.empty()) {
    say(context, fmt::format("nothing is kept of what {} compiled: it has no folder, or compiles sooner than it reads "
                             "one; --cache-dir auto keeps it",
                             built.engine->provider));
  } else {
    say(context, fmt::format("what {} compiled is kept in '{}' ({}), and the next start on this machine reads it",
                             built.engine->provider, built.engine->folder.string(), format_bytes(built.engine->bytes)));
  }
}

void build(const BuildRequest& request, const Context& context) {
  check_quantize_flags(request.quantize, request.load);
  Store store = open_store();
  const BuiltPackage built = build_package(request, store, VariantProgress(context).listener());
  say(context, line_of(built.verdict));
  say_engine(context, request, built);
  print_stored(context, built);
}

}  // namespace

void add_build(CLI::App& program, Context& context) {
  auto flags = std::make_shared<BuildRequest>();
  CLI::App* command = add_command(program, context, "build", "Check a local model and store it under a name");
  command->add_option("PATH", flags->path, "a folder with gpux.yml, or an .onnx file (default: .)");
  command
      ->add_option("-t,--tag", flags->tags, "NAME[:TAG], repeatable (default: gpux.yml's name and version, and latest)")
      ->allow_extra_args(false);
  command->add_option("-c,--config", flags->config, "another gpux.yml");
  command->add_flag("--optimize,!--no-optimize", flags->optimize,
                    "also store the optimized graph, or what the provider compiled, for this machine");
  add_load_flags(*command, flags->load);
  add_setting(*command, "--shapes", flags->load.shapes, read_text,
              "compile ahead for these shapes of the inputs, and keep them in the package: "
              "INPUT:SMALLEST..TUNED..LARGEST, as input_ids:1x1..8x128..32x512, several with commas")
      ->group("Loading the model");
  add_quantize_flags(*command, flags->quantize);
  command->footer(
      "Examples:\n"
      "  gpux build . --provider cuda\n"
      "  gpux build model.onnx --tag digits:1.0.0\n"
      "  gpux build . --provider tensorrt --shapes image:1x3x224x224..8x3x224x224..32x3x224x224\n"
      "  gpux build model.onnx -t digits --quantize int8 --samples inputs.npz");
  command->callback([flags, &context] { build(*flags, context); });
}

}  // namespace gpux::cli

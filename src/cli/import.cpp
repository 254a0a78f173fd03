#include <memory>

#include <CLI/App.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/spelling.h"
#include "cli/command.h"
#include "embedding/import_encoder.h"
#include "gpux/error.h"

namespace gpux::cli {
namespace {

struct ImportFlags {
  std::string folder, output;
};

void import_folder(const ImportFlags& flags, Context& context) {
  const embedding::ImportedEncoder imported = embedding::import_encoder(flags.folder, flags.output);
  if (context.wants_json()) {
    const nlohmann::ordered_json said{
        {"folder", flags.output},
        {"model_type", imported.family},
        {"layers", imported.layers},
        {"heads", imported.heads},
        {"width", imported.width},
        {"max_tokens", imported.max_tokens},
        {"pooling", imported.pooling.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(imported.pooling)},
        {"normalize", imported.normalize},
        {"files", imported.copied}};
    print_data(said.dump());
    return;
  }
  print_data(fmt::format("{}: {} of {} layers, {} heads, width {}, at most {} tokens", flags.output, imported.family,
                         imported.layers, imported.heads, imported.width, imported.max_tokens));
  print_data(imported.pooling.empty() ? "pooling is not part of the graph: gpux embed does it"
                                      : fmt::format("part of the graph: {} pooling{}", imported.pooling,
                                                    imported.normalize ? ", and normalisation" : ""));
  print_data(fmt::format("copied: {}", join(imported.copied)));
  say(context, fmt::format("try: gpux embed --model {} 'a sentence'", flags.output));
}

}  // namespace

void add_import(CLI::App& program, Context& context) {
  auto flags = std::make_shared<ImportFlags>();
  CLI::App* verb = add_verb(program, context, "import", "Make a model of a Hugging Face folder with safetensors");
  verb->add_option("FOLDER", flags->folder,
                   "holds config.json, model.safetensors and tokenizer.json of a BERT, RoBERTa, XLM-R, DistilBERT or "
                   "MPNet encoder")
      ->required();
  verb->add_option("-o,--output", flags->output, "the new folder")->required();
  verb->footer("Example:\n  gpux import all-MiniLM-L6-v2 -o minilm && gpux embed --model minilm 'a sentence'");
  verb->callback([flags, &context] { import_folder(*flags, context); });
}

}  // namespace gpux::cli

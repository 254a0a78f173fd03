#include <algorithm>
#include <chrono>
#include <memory>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>

#include "base/machine.h"
#include "base/sha256.h"
#include "base/spelling.h"
#include "cli/command.h"
#include "cli/load_flags.h"
#include "cli/open_model.h"
#include "cli/texts.h"
#include "cli/vectors.h"
#include "embedding/embed_all.h"
#include "gpux/error.h"

namespace gpux::cli {
namespace {

namespace fs = std::filesystem;

struct EmbedFlags {
  std::string model, output, field, prompt, timeout;
  std::optional<std::string> prompt_text;
  std::vector<std::string> texts;
  std::optional<bool> normalize;
  std::size_t dimensions = 0, max_tokens = 0;
  unsigned workers = 0;
  LoadFlags load;
};

struct Chosen {
  embedding::SentenceModel model;
  LocatedModel located;
};

// A folder of Hugging Face's layout, or whatever a MODEL argument means elsewhere.
Chosen choose_model(const std::string& model) {
  if (model.empty()) {
    throw Error(ErrorCode::usage, "embed: give --model, a folder with tokenizer.json and model.onnx, or a stored name");
  }
  std::error_code unreadable;
  if (fs::is_directory(model, unreadable) && !fs::exists(fs::path(model) / project_file_name, unreadable)) {
    Chosen chosen{embedding::read_sentence_model(model), {}};
    chosen.located.onnx_file = chosen.model.onnx_file;
    chosen.located.name = chosen.model.name;
    return chosen;
  }
  if (fs::is_regular_file(model, unreadable) && fs::path(model).extension() != ".onnx") {
    throw Error(ErrorCode::usage,
                fmt::format("--model '{}' is no model: embed takes a folder with tokenizer.json and model.onnx, or a "
                            "name in the store",
                            model));
  }
  LocatedModel located = locate(model, open_store());
  std::optional<embedding::SentenceModel> found = embedding::sentence_model_of(located.onnx_file);
  if (!found) {
    throw Error(ErrorCode::invalid_model,
                fmt::format("'{}' has no tokenizer.json beside its ONNX file, so that it cannot read texts", model));
  }
  found->name = located.name;
  return {*std::move(found), std::move(located)};
}

std::optional<std::string> prompt_of(const EmbedFlags& flags, const embedding::SentenceModel& model) {
  if (flags.prompt.empty()) return flags.prompt_text;
  std::vector<std::string> names;
  for (const auto& [name, text] : model.prompts) {
    if (name == flags.prompt) return text;
    names.push_back(name);
  }
  throw Error(ErrorCode::usage,
              fmt::format("--prompt '{}': {}; --prompt-text takes any text", flags.prompt,
                          names.empty() ? "the model's folder names no prompts" : "accepted: " + join(names)));
}

LoadSettings settings_of(const EmbedFlags& flags, const LocatedModel& located) {
  LoadSettings settings = resolve_load(flags.load, flags.timeout, located);
  // Texts run side by side, not the parts of one.
  if (!settings.options.intra_threads) settings.options.intra_threads = 1;
  return settings;
}

unsigned default_workers(const LoadOptions& options) {
  return std::max(1U, usable_processors() / options.intra_threads.value_or(1));
}

void embed_texts(const EmbedFlags& flags, Context& context) {
  if (context.table) throw Error(ErrorCode::usage, "--table: embed prints its vectors as JSON lines");
  if (!flags.output.empty()) VectorWriter::check_name(flags.output);
  auto [model, located] = choose_model(flags.model);
  const embedding::TextSource texts = texts_of(flags.texts, flags.field);
  const LoadSettings settings = settings_of(flags, located);
  const embedding::EmbedOptions options{.prompt = prompt_of(flags, model),
                                        .max_tokens = flags.max_tokens,
                                        .dimensions = flags.dimensions,
                                        .normalize = flags.normalize,
                                        .timeout = settings.timeout};
  const fs::path onnx_file = model.onnx_file;
  const OpenModel opened{.located = std::move(located), .info = {}, .settings = settings};
  const embedding::Embedder embedder(std::move(model), opened.load());
  embedder.encoder().check(options);
  say(context, to_line(embedder.runtime().verdict()));

  VectorWriter writer(flags.output,
                      {.model = embedder.encoder().model().name,
                       .digest = sha256_of_file(onnx_file),
                       .dimension = flags.dimensions != 0 ? flags.dimensions : embedder.encoder().dimension()});
  const auto start = std::chrono::steady_clock::now();
  const unsigned workers = flags.workers != 0 ? flags.workers : default_workers(settings.options);
  const std::uint64_t count = embedding::embed_all(embedder, options, texts, workers,
                                                   [&](std::span<const float> vector) { writer.add(vector); });
  writer.finish();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  say(context, fmt::format("embedded {} {} in {:.2f} s: {:.1f} a second", count, count == 1 ? "text" : "texts", seconds,
                           static_cast<double>(count) / std::max(seconds, 1e-9)));
  if (!flags.output.empty()) say(context, fmt::format("wrote {}", flags.output));
}

}  // namespace

void add_embed(CLI::App& program, Context& context) {
  auto flags = std::make_shared<EmbedFlags>();
  CLI::App* verb = add_verb(program, context, "embed", "Make vectors of texts, as JSON lines");
  verb->add_option("TEXT", flags->texts, "texts; @FILE: each line of a file; -: of standard input (default)");
  verb->add_option("-m,--model", flags->model,
                   "a folder with tokenizer.json and model.onnx or onnx/model.onnx, or a name in the store");
  verb->add_option("-o,--output", flags->output, "write to FILE.{jsonl,npy,f32} instead of printing JSON lines");
  verb->add_option("--field", flags->field, "lines are JSON objects, and the text is in this field");
  CLI::Option* prompt = verb->add_option("--prompt", flags->prompt, "put this prompt of the model before each text");
  verb->add_option_function<std::string>(
          "--prompt-text", [flags](const std::string& text) { flags->prompt_text = text; },
          "put this text before each; '' for none, where the model has a default")
      ->excludes(prompt);
  verb->add_option("--dimensions", flags->dimensions, "the first so many of each vector")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 31));
  verb->add_flag_function(
      "--normalize,!--no-normalize", [flags](std::int64_t count) { flags->normalize = count > 0; },
      "to length 1 (default: as the model's folder says)");
  verb->add_option("--max-tokens", flags->max_tokens, "cut a longer text (default: what the model takes)")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 31));
  verb->add_option("--workers", flags->workers, "texts at a time (default: processors of this process)")
      ->check(CLI::Range(1U, 1024U));
  add_timeout_flag(*verb, flags->timeout);
  add_load_flags(*verb, flags->load);
  verb->get_option("--threads")->description("threads inside an operator (default: 1)");
  verb->footer(
      "Examples:\n"
      "  gpux embed --model all-MiniLM-L6-v2 'a sentence' 'and another'\n"
      "  gpux embed --model all-MiniLM-L6-v2 --field text @items.jsonl -o vectors.npy");
  verb->callback([flags, &context] { embed_texts(*flags, context); });
}

}  // namespace gpux::cli

#include "cli/encoder_flags.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include <CLI/Validators.hpp>
#include <fmt/format.h>

#include "base/machine.h"
#include "base/sha256.h"
#include "base/spelling.h"
#include "cli/open_model.h"
#include "gpux/error.h"

namespace gpux::cli {
namespace {

namespace fs = std::filesystem;

struct Chosen {
  embedding::SentenceModel model;
  LocatedModel located;
};

// A folder of Hugging Face's layout, or whatever a MODEL argument means elsewhere.
Chosen choose_model(const std::string& model) {
  if (model.empty()) {
    throw Error(ErrorCode::usage, "give --model, a folder with tokenizer.json and model.onnx, or a name in the store");
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
                fmt::format("--model '{}' is no model: accepted are a folder with tokenizer.json and model.onnx, and a "
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

std::optional<std::string> prompt_of(const EncoderFlags& flags, const embedding::SentenceModel& model) {
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

LoadSettings settings_of(const EncoderFlags& flags, const LocatedModel& located) {
  LoadSettings settings = resolve_load(flags.load, flags.timeout, located);
  // Texts run side by side, not the parts of one.
  if (!settings.options.intra_threads) settings.options.intra_threads = 1;
  return settings;
}

}  // namespace

void add_encoder_flags(CLI::App& verb, EncoderFlags& flags) {
  verb.add_option("-m,--model", flags.model,
                  "a folder with tokenizer.json and model.onnx or onnx/model.onnx, or a name in the store");
  CLI::Option* prompt = verb.add_option("--prompt", flags.prompt, "put this prompt of the model before each text");
  verb.add_option_function<std::string>(
          "--prompt-text", [&flags](const std::string& text) { flags.prompt_text = text; },
          "put this text before each; '' for none, where the model has a default")
      ->excludes(prompt);
  verb.add_option("--dimensions", flags.dimensions, "the first so many of each vector, to length 1 again")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 31));
  verb.add_option("--max-tokens", flags.max_tokens, "cut a longer text (default: what the model takes)")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 31));
  add_timeout_flag(verb, flags.timeout);
  add_load_flags(verb, flags.load);
  verb.get_option("--threads")->description("threads inside an operator (default: 1)");
}

OpenEncoder open_encoder(const EncoderFlags& flags, const Context& context) {
  auto [model, located] = choose_model(flags.model);
  const OpenModel opened{.located = located, .info = {}, .settings = settings_of(flags, located)};
  const LoadOptions& load = opened.settings.options;
  OpenEncoder encoder{.embedder = nullptr,
                      .options = {.prompt = prompt_of(flags, model),
                                  .max_tokens = flags.max_tokens,
                                  .dimensions = flags.dimensions,
                                  .normalize = flags.normalize,
                                  .timeout = opened.settings.timeout},
                      .digest = sha256_of_file(model.onnx_file),
                      .dimension = flags.dimensions,
                      .workers = std::max(1U, usable_processors() / load.intra_threads.value_or(1))};
  encoder.embedder = std::make_unique<embedding::Embedder>(std::move(model), opened.load());
  encoder.embedder->encoder().check(encoder.options);
  if (encoder.dimension == 0) encoder.dimension = encoder.embedder->encoder().dimension();
  say(context, to_line(encoder.embedder->runtime().verdict()));
  return encoder;
}

}  // namespace gpux::cli

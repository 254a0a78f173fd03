#include "cli/encoder_flags.h"

#include <utility>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>

#include "cli/flag_names.h"
#include "cli/load_flags.h"
#include "cli/pull_flag.h"
#include "cli/setting_flags.h"
#include "model/level_choice.h"
#include "settings/serving_request.h"

namespace gpux::cli {

void add_encoder_flags(CLI::App& command, EncoderFlags& flags, WorkerUse use) {
  flags.name_of = flag_name;
  command.add_option("-m,--model", flags.model,
                     "a folder with tokenizer.json and model.onnx or onnx/model.onnx, or a name in the store");
  command
      .add_option("--level", flags.level,
                  "a level of op-dbus instead of a model: none, low, medium, high (also OP_DBUS_VECTOR_LEVEL)")
      ->excludes("--model");
  command.add_flag("--level-fallback", flags.level_fallback,
                   "use the next lower level if the model of a level is missing");
  command.add_option("--model-dir", flags.model_dir,
                     "the folder of the levels' models, each in a folder of its name (also OP_DBUS_MODEL_DIR)");
  CLI::Option* prompt = command.add_option("--prompt", flags.prompt, "put this prompt of the model before each text");
  command
      .add_option_function<std::string>(
          "--prompt-text", [&flags](const std::string& text) { flags.prompt_text = text; },
          "put this text before each text; '' for no prompt")
      ->excludes(prompt);
  command.add_option("--dimensions", flags.dimensions, "keep the first N elements of each vector, normalized again")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 31));
  command.add_option("--max-tokens", flags.max_tokens, "truncate longer texts (default: the model's maximum)")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 31));
  add_value(command, "--batching", flags.batching, read_batching,
            "exact: texts share a run only if each vector is bit-identical to that of the text alone; throughput: "
            "whenever that is faster (default: throughput on a GPU or NPU, else exact)")
      ->check(CLI::IsMember({"exact", "throughput"}));
  add_pull_flag(command, flags.pull);
  add_timeout_flag(command, flags.load);
  add_load_flags(command, flags.load);
  add_isolation_flag(command, flags.load, use);
  command.get_option("--threads")->description("threads inside an operator (default: 1)");
}

void add_representation_flags(CLI::App& command, EncoderFlags& flags) {
  using embedding::Representation;
  flags.representation.reset();
  CLI::Option* sparse = command.add_flag_callback(
      "--sparse", [&flags] { flags.representation = Representation::sparse; },
      "sparse vectors: weights of the vocabulary (SPLADE, BGE-M3)");
  command
      .add_flag_callback(
          "--multi-vector", [&flags] { flags.representation = Representation::multi_vector; },
          "a vector per token, for late interaction (ColBERT, BGE-M3)")
      ->excludes(sparse);
  command.add_option("--sparse-top-k", flags.sparse.top_k, "keep the N largest weights of a sparse vector")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 31));
  command.add_option("--sparse-threshold", flags.sparse.threshold, "keep the weights above X of a sparse vector")
      ->check(CLI::NonNegativeNumber);
}

std::vector<std::string> place_model(const ModelArgument& words, EncoderFlags& flags) {
  const LevelChoice choice = choose_level(flags.level);
  PlacedWords placed = place_words({.first = words.first, .rest = words.rest, .flag = flags.model},
                                   choice.level != nullptr || choice.is_none);
  flags.model_is_word = flags.model.empty() && !placed.model.empty();
  flags.model = std::move(placed.model);
  return std::move(placed.words);
}

OpenEncoder open_encoder(const EncoderFlags& flags, const Context& context) {
  EncoderFlags opened = flags;
  opened.model = pull_argument(flags.model, flags.pull, context);
  return gpux::open_encoder(opened, [&](std::string_view line) { say(context, line); });
}

}  // namespace gpux::cli

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include <CLI/App.hpp>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/standard_input.h"
#include "cli/command.h"
#include "cli/flag_names.h"
#include "cli/generation_flags.h"
#include "cli/load_flags.h"
#include "cli/pull_flag.h"
#include "generation/engine.h"
#include "gpux/error.h"
#include "model/open_generator.h"

namespace gpux::cli {
namespace {

using Json = nlohmann::ordered_json;

struct GenerateFlags {
  std::string model, pull;
  std::optional<std::string> prompt;
  GenerationFlags generation;
  EngineFlags engine;
  LoadRequest load;
};

std::string prompt_of(const GenerateFlags& flags) {
  if (flags.prompt && !is_standard_input(*flags.prompt)) return *flags.prompt;
  if (!flags.prompt && ::isatty(STDIN_FILENO) != 0) {
    throw Error(ErrorCode::usage, "PROMPT is missing: the text to continue, as an argument or from a pipe");
  }
  return read_standard_input();
}

void generate(const GenerateFlags& flags, const Context& context) {
  const GenerationSettings settings = settings_of(flags.generation);
  const OpenGenerator open = open_generator(open_model(flags.model, {}, flags.load), flags.engine.draft, flags.load);
  generation::EngineRequest request;
  request.prompt = generation::prompt_tokens(open.tokenizer, prompt_of(flags));
  request.settings = settings;
  const std::unique_ptr<generation::Engine> engine = open.load(flags.engine.options());
  const Verdict verdict = engine->verdict();
  say(context, line_of(verdict));
  request.arrived = std::chrono::steady_clock::now();  // loading is not part of the time to the first token
  Generator::Sink sink;
  if (!context.wants_json()) {
    sink = [](std::string_view piece) {
      print_piece(piece);
      return true;
    };
  }
  const Completion completion = generation::generate(*engine, std::move(request), sink);
  if (context.wants_json()) {
    Json document{{"model", open.model.located.name}, {"text", completion.text}};
    add_figures(document, completion);
    document["verdict"] = Json::parse(json_text_of(verdict));
    print_data(document.dump());
    return;
  }
  print_data("");
  say(context, figures_line(completion));
}

}  // namespace

void add_generate(CLI::App& program, Context& context) {
  auto flags = std::make_shared<GenerateFlags>();
  CLI::App* command = add_command(program, context, "generate", "Continue a text with a language model");
  command
      ->add_option("MODEL", flags->model,
                   "a name in the store, a folder with tokenizer.json and model.onnx, or hf.co/ORG/NAME")
      ->required();
  add_pull_flag(*command, flags->pull);
  command->add_option("PROMPT", flags->prompt, "the text to continue; '-', or none and a pipe: standard input");
  add_generation_flags(*command, flags->generation);
  add_engine_flags(*command, flags->engine);
  add_load_flags(*command, flags->load);
  add_isolation_flag(*command, flags->load, WorkerUse::once);
  add_timeout_flag(*command, flags->load);
  command->footer(
      "Examples:\n"
      "  gpux generate tiny-llm 'Once upon a time' --max-tokens 50\n"
      "  gpux generate hf.co/bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M 'Once upon a time'\n"
      "  gpux generate tiny-llm 'Once upon a time' --temperature 0.8 --top-p 0.95 --seed 7\n"
      "  gpux generate tiny-llm 'As JSON: ' --json-schema person.schema.json");
  command->callback([flags, &context] {
    flags->model = pull_argument(flags->model, flags->pull, context);
    flags->engine.draft = pull_argument(flags->engine.draft, flags->pull, context);
    generate(*flags, context);
  });
}

}  // namespace gpux::cli

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/files.h"
#include "base/standard_input.h"
#include "cli/command.h"
#include "cli/load_flags.h"
#include "generation/decoder.h"
#include "generation/engine.h"
#include "gpux/error.h"
#include "model/open_model.h"

namespace gpux::cli {
namespace {

using Json = nlohmann::ordered_json;

struct GenerateFlags {
  std::string model, prompt, timeout;
  bool json_object = false;
  std::optional<std::string> json_schema, regex, grammar_file;
  GenerationSettings settings;
  LoadFlags load;
};

std::string prompt_of(const GenerateFlags& flags) {
  return is_standard_input(flags.prompt) ? read_standard_input() : flags.prompt;
}

constexpr std::uint64_t max_constraint_bytes = 1 << 20;

// A schema as JSON has it, or the name of a file.
std::string schema_of(const std::string& text_or_file) {
  const std::size_t first = text_or_file.find_first_not_of(" \t\r\n");
  const bool is_schema = (first != std::string::npos && text_or_file[first] == '{') || text_or_file == "true";
  return is_schema ? text_or_file : read_file(text_or_file, max_constraint_bytes);
}

OutputConstraint constraint_of(const GenerateFlags& flags) {
  using Kind = OutputConstraint::Kind;
  if (flags.json_object) return {Kind::json_object, ""};
  if (flags.json_schema) return {Kind::json_schema, schema_of(*flags.json_schema)};
  if (flags.regex) return {Kind::regex, *flags.regex};
  if (flags.grammar_file) return {Kind::grammar, read_file(*flags.grammar_file, max_constraint_bytes)};
  return {};
}

void generate(const GenerateFlags& flags, const Context& context) {
  GenerationSettings settings = flags.settings;
  settings.constraint = constraint_of(flags);
  generation::check(settings);
  const OpenModel model = open_model(flags.model, {}, flags.load, flags.timeout);
  (void)generation::require_decoder(model.info);
  const generation::ModelFiles files = generation::read_model_files(model.located.onnx_file.parent_path());
  const text::Tokenizer tokenizer = text::Tokenizer::from_file(files.tokenizer);
  generation::EngineRequest request;
  request.prompt = generation::prompt_tokens(tokenizer, prompt_of(flags));
  request.settings = settings;
  generation::Engine engine(model.load(), tokenizer, files);
  const Verdict verdict = engine.verdict();
  say(context, to_line(verdict));
  request.arrived = std::chrono::steady_clock::now();  // loading is not part of the time to the first token
  Generator::Sink sink;
  if (!context.wants_json()) {
    sink = [](std::string_view piece) {
      print_piece(piece);
      return true;
    };
  }
  const Completion completion = generation::generate(engine, std::move(request), sink);
  const double seconds = completion.time.count();
  const double after_first = (completion.time - completion.time_to_first_token).count();
  const std::size_t count = completion.tokens.size();
  if (context.wants_json()) {
    print_data(Json{{"model", model.located.name},
                    {"text", completion.text},
                    {"finish_reason", to_string(completion.reason)},
                    {"prompt_tokens", completion.prompt_tokens},
                    {"completion_tokens", count},
                    {"tokens", completion.tokens},
                    {"time_to_first_token_ms", completion.time_to_first_token.count() * 1e3},
                    {"time_ms", seconds * 1e3},
                    {"verdict", Json::parse(to_json(verdict))}}
                   .dump());
    return;
  }
  print_data("");
  say(context,
      fmt::format("{} after a prompt of {} ({}): first after {:.0f} ms, then {:.1f} tokens/s", counted(count, "token"),
                  completion.prompt_tokens, to_string(completion.reason), completion.time_to_first_token.count() * 1e3,
                  count < 2 ? 0.0 : static_cast<double>(count - 1) / std::max(after_first, 1e-9)));
}

}  // namespace

void add_generate(CLI::App& program, Context& context) {
  auto flags = std::make_shared<GenerateFlags>();
  CLI::App* command = add_command(program, context, "generate", "Continue a text with a model that generates text");
  command->add_option("MODEL", flags->model, "a name in the store, or a folder with tokenizer.json and model.onnx")
      ->required();
  command->add_option("PROMPT", flags->prompt, "the text to continue; '-' reads standard input")->required();
  GenerationSettings& settings = flags->settings;
  command
      ->add_option("-n,--max-tokens", settings.max_tokens,
                   "at most so many tokens (default: until the context is full)")
      ->check(CLI::PositiveNumber);
  command->add_option("--min-tokens", settings.min_tokens, "no end before so many tokens");
  command->add_option("--temperature", settings.temperature,
                      "0 to 100; 0 takes the most probable token (default: as generation_config.json says, else 0)");
  command->add_option("--top-k", settings.top_k, "choose among the K most probable tokens; 0: all");
  command->add_option("--top-p", settings.top_p, "choose among the most probable tokens with this share together");
  command->add_option("--min-p", settings.min_p, "leave out tokens below this share of the highest probability");
  command->add_option("--typical-p", settings.typical_p,
                      "choose among locally typical tokens with this share together");
  command->add_option("--repetition-penalty", settings.repetition_penalty,
                      "above 1 makes tokens that occurred less probable");
  command->add_option("--presence-penalty", settings.presence_penalty, "-2 to 2, subtracted for generated tokens");
  command->add_option("--frequency-penalty", settings.frequency_penalty,
                      "-2 to 2, subtracted for each time that a token was generated");
  command->add_option("--seed", settings.seed, "the same seed gives the same text (default: another one each time)");
  command->add_option("--stop", settings.stop, "a text that ends the answer; repeatable")->allow_extra_args(false);
  command->add_option("--stop-token", settings.stop_tokens, "a token's number that ends the answer; repeatable")
      ->allow_extra_args(false);
  command->add_flag("--ignore-eos", settings.ignores_end, "go on behind the model's end tokens");
  const std::string form = "Form of the text";
  const std::vector<CLI::Option*> forms{
      command->add_flag("--json-object", flags->json_object, "the text is a JSON object"),
      command->add_option("--json-schema", flags->json_schema,
                          "the text is JSON that is valid against this schema: {...}, or a file"),
      command->add_option("--regex", flags->regex, "the whole text matches this regular expression"),
      command->add_option("--grammar", flags->grammar_file, "the text is of the grammar in this file, in Lark"),
  };
  for (CLI::Option* one : forms) {
    for (CLI::Option* other : forms) {
      if (one != other) one->excludes(other);
    }
    one->group(form);
  }
  add_load_flags(*command, flags->load);
  add_timeout_flag(*command, flags->timeout);
  command->footer(
      "Examples:\n"
      "  gpux generate tiny-llm 'Once upon a time' --max-tokens 50\n"
      "  gpux generate tiny-llm 'Once upon a time' --temperature 0.8 --top-p 0.95 --seed 7\n"
      "  gpux generate tiny-llm 'As JSON: ' --json-schema person.schema.json");
  command->callback([flags, &context] { generate(*flags, context); });
}

}  // namespace gpux::cli

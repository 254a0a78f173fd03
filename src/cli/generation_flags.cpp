#include "cli/generation_flags.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <utility>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>

#include "base/counted.h"
#include "base/files.h"
#include "base/spelling.h"
#include "cli/size_flag.h"
#include "generation/settings.h"
#include "gpux/error.h"

namespace gpux::cli {
namespace {

constexpr std::uint64_t max_constraint_bytes = 1 << 20;
constexpr std::array<std::string_view, 4> form_names{"json-object", "json-schema", "regex", "grammar"};

bool is_form(std::string_view name) {
  return std::ranges::find(form_names, name) != form_names.end();
}

// A schema as JSON has it, or the name of a file.
std::string schema_of(const std::string& text_or_file) {
  const std::size_t first = text_or_file.find_first_not_of(" \t\r\n");
  const bool is_schema = (first != std::string::npos && text_or_file[first] == '{') || text_or_file == "true";
  return is_schema ? text_or_file : read_file(text_or_file, max_constraint_bytes);
}

OutputConstraint constraint_of(const GenerationFlags& flags) {
  using Kind = OutputConstraint::Kind;
  if (flags.json_object) return {Kind::json_object, ""};
  if (flags.json_schema) return {Kind::json_schema, schema_of(*flags.json_schema)};
  if (flags.regex) return {Kind::regex, *flags.regex};
  if (flags.grammar_file) return {Kind::grammar, read_file(*flags.grammar_file, max_constraint_bytes)};
  return {};
}

void add_form_flags(CLI::App& command, GenerationFlags& flags) {
  const std::string form = "Form of the text";
  const std::vector<CLI::Option*> forms{
      command.add_flag("--json-object", flags.json_object, "the text is a JSON object"),
      command.add_option("--json-schema", flags.json_schema,
                         "the text is JSON that is valid against this schema: {...}, or a file"),
      command.add_option("--regex", flags.regex, "the whole text matches this regular expression"),
      command.add_option("--grammar", flags.grammar_file, "the text is of the grammar in this file, in Lark"),
  };
  for (CLI::Option* one : forms) {
    for (CLI::Option* other : forms) {
      if (one != other) one->excludes(other);
    }
    one->group(form);
  }
}

}  // namespace

void add_generation_flags(CLI::App& command, GenerationFlags& flags) {
  GenerationSettings& settings = flags.settings;
  command
      .add_option("-n,--max-tokens", settings.max_tokens,
                  "generate up to N tokens (default: until the context is full)")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 31U));
  command.add_option("--min-tokens", settings.min_tokens, "generate at least N tokens");
  command.add_option("--temperature", settings.temperature,
                     "0 to 100; 0 takes the most probable token (default: as generation_config.json says, else 0)");
  command.add_option("--top-k", settings.top_k, "choose among the N most probable tokens; 0: all");
  command.add_option("--top-p", settings.top_p,
                     "choose among the most probable tokens, whose probabilities add up to X");
  command.add_option("--min-p", settings.min_p, "leave out tokens below X times the highest probability");
  command.add_option("--typical-p", settings.typical_p,
                     "choose among locally typical tokens, whose probabilities add up to X");
  command.add_option("--repetition-penalty", settings.repetition_penalty,
                     "above 1 makes tokens that occurred less probable");
  command.add_option("--presence-penalty", settings.presence_penalty, "-2 to 2, subtracted for generated tokens");
  command.add_option("--frequency-penalty", settings.frequency_penalty,
                     "-2 to 2, subtracted for each time that a token was generated");
  command.add_option("--seed", settings.seed, "the same seed gives the same text (default: another one each time)");
  command.add_option("--stop", settings.stop, "a text that ends the answer; repeatable")->allow_extra_args(false);
  command.add_option("--stop-token", settings.stop_tokens, "a token's number that ends the answer; repeatable")
      ->allow_extra_args(false);
  command.add_flag("--ignore-eos", settings.ignores_end, "continue after the model's end tokens");
  add_form_flags(command, flags);
}

GenerationSettings settings_of(const GenerationFlags& flags) {
  GenerationSettings settings = flags.settings;
  settings.constraint = constraint_of(flags);
  generation::check(settings);
  return settings;
}

std::vector<std::string> ChosenSettings::names() {
  CLI::App app;
  app.set_help_flag();
  GenerationFlags flags;
  add_generation_flags(app, flags);
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) names.push_back(option->get_lnames().front());
  return names;
}

GenerationFlags ChosenSettings::flags_with(const Values& values) const {
  GenerationFlags flags = started_;
  CLI::App app;
  app.set_help_flag();
  add_generation_flags(app, flags);
  std::vector<std::string> words;
  for (const auto& [name, value] : values) {
    words.push_back(fmt::format("--{}={}", name, value));
    if (!is_form(name)) continue;
    flags.json_object = false;
    flags.json_schema = flags.regex = flags.grammar_file = std::nullopt;
  }
  std::ranges::reverse(words);  // as parse() takes them
  app.parse(std::move(words));
  return flags;
}

void ChosenSettings::set(std::string_view name, std::string_view value) {
  std::string flag(name);
  std::ranges::replace(flag, '_', '-');
  const std::vector<std::string> known = names();
  if (std::ranges::find(known, flag) == known.end()) {
    const std::string_view near = nearest(flag, known);
    throw Error(ErrorCode::usage,
                fmt::format("'{}' is no setting{}; accepted: {}", name,
                            near.empty() ? "" : fmt::format(", did you mean '{}'?", near), join(known)));
  }
  Values values = chosen_;
  std::erase_if(values, [&](const auto& one) { return one.first == flag || (is_form(flag) && is_form(one.first)); });
  if (value != "default") values.emplace_back(flag, value);
  std::ranges::sort(values);
  try {
    (void)settings_of(flags_with(values));
  } catch (const CLI::ParseError&) {
    throw Error(ErrorCode::usage, fmt::format("'{}' is no value of {}", value, flag));
  }
  chosen_ = std::move(values);
}

GenerationSettings ChosenSettings::settings() const {
  return settings_of(flags_with(chosen_));
}

GeneratorOptions EngineFlags::options() const {
  GeneratorOptions options;
  options.prompt_lookup = !no_prompt_lookup;
  options.draft = draft;
  options.cache_precision = cache_precision;
  options.prompt_cache = prompt_cache;
  options.prompt_cache_bytes = prompt_cache_bytes;
  return options;
}

void add_engine_flags(CLI::App& command, EngineFlags& flags) {
  command.add_flag("--no-prompt-lookup", flags.no_prompt_lookup,
                   "compute each token in a step of its own, also if the text repeats itself");
  add_draft_flag(command, flags.draft);
  add_cache_precision_flag(command, flags.cache_precision);
  add_prompt_cache_flags(command, flags.prompt_cache, flags.prompt_cache_bytes);
}

void add_prompt_cache_flags(CLI::App& command, std::string& folder, std::uint64_t& max_bytes) {
  constexpr std::uint64_t least = std::uint64_t{1} << 20, most = std::uint64_t{1} << 50;
  CLI::Option* const named =
      command.add_option("--prompt-cache", folder, "keep keys and values of prompts in this folder, for later starts");
  command
      .add_option(
          "--prompt-cache-size", max_bytes,
          "most that the files of --prompt-cache may take: 10GiB (default: 4GiB); those used longest ago are removed")
      ->transform(size_in_bytes())
      ->check(CLI::Range(least, most))
      ->needs(named);
}

void add_draft_flag(CLI::App& command, std::string& draft) {
  command.add_option("--draft", draft,
                     "a smaller model with the same tokens that guesses how texts go on, which changes no token: as "
                     "MODEL");
}

void add_cache_precision_flag(CLI::App& command, CachePrecision& precision) {
  static const std::map<std::string, CachePrecision> names{{"auto", CachePrecision::automatic},
                                                           {"model", CachePrecision::as_written},
                                                           {"float16", CachePrecision::float16},
                                                           {"int8", CachePrecision::int8}};
  command
      .add_option_function<std::string>(
          "--cache-precision", [&precision](const std::string& name) { precision = names.at(name); },
          "keys and values: auto (default), model (as in the model's file), float16 or int8")
      ->check(CLI::IsMember({"auto", "model", "float16", "int8"}));
}

std::string figures_line(const Completion& completion) {
  const double after_first = (completion.time - completion.time_to_first_token).count();
  const std::size_t count = completion.tokens.size();
  std::string prompt = std::to_string(completion.prompt_tokens);
  if (completion.cached_tokens != 0) prompt += fmt::format(", {} of them cached", completion.cached_tokens);
  std::string line =
      fmt::format("{} after a prompt of {} ({}): first after {:.0f} ms, then {:.1f} tokens/s", counted(count, "token"),
                  prompt, to_string(completion.reason), completion.time_to_first_token.count() * 1e3,
                  count < 2 ? 0.0 : static_cast<double>(count - 1) / std::max(after_first, 1e-9));
  if (completion.draft_tokens != 0) {
    line +=
        fmt::format("; {} of {} guessed tokens were right", completion.accepted_draft_tokens, completion.draft_tokens);
  }
  return line;
}

void add_figures(nlohmann::ordered_json& document, const Completion& completion) {
  document["finish_reason"] = to_string(completion.reason);
  document["prompt_tokens"] = completion.prompt_tokens;
  document["cached_tokens"] = completion.cached_tokens;
  document["completion_tokens"] = completion.tokens.size();
  document["draft_tokens"] = completion.draft_tokens;
  document["accepted_draft_tokens"] = completion.accepted_draft_tokens;
  document["tokens"] = completion.tokens;
  document["time_to_first_token_ms"] = completion.time_to_first_token.count() * 1e3;
  document["time_ms"] = completion.time.count() * 1e3;
}

}  // namespace gpux::cli

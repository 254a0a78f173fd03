#include <algorithm>
#include <cstdio>

#include <CLI/App.hpp>
#include <fmt/format.h>

#include "base/files.h"
#include "base/machine.h"
#include "base/own_program.h"
#include "base/processors.h"
#include "base/scratch_folder.h"
#include "base/spelling.h"
#include "base/standard_input.h"
#include "checkpoint/sentence_model.h"
#include "cli/bench_output.h"
#include "cli/child.h"
#include "cli/command.h"
#include "cli/generation_flags.h"
#include "cli/inputs.h"
#include "cli/load_flags.h"
#include "cli/pull_flag.h"
#include "cli/setting_flags.h"
#include "cli/synthetic_flags.h"
#include "embedding/graph_pooling.h"
#include "evaluation/precision_gate.h"
#include "evaluation/variant_samples.h"
#include "generation/decoder_signature.h"
#include "generation/measure.h"
#include "gpux/error.h"
#include "model/open_generator.h"
#include "model/open_model.h"
#include "provider/absence.h"

namespace gpux::cli {
namespace {

using Json = nlohmann::ordered_json;

struct BenchFlags {
  std::string model, config, output, pull;
  InputFlags inputs;
  SyntheticFlags synthetic;
  LoadRequest load;
  std::vector<std::string> providers;
  std::optional<std::uint64_t> runs, warmup;
  std::optional<std::size_t> prompt_tokens, generate_tokens;
  std::vector<std::size_t> users;
  CachePrecision cache_precision = CachePrecision::automatic;
  std::string draft;
  std::optional<double> seconds;
  std::string samples_of;  // the model that `model` is, or is a variant of: what `fastest` measures
  bool compare = false;    // with that model's answers on the CPU
  bool pool = false;       // in the graph, as it will be
};

// As `fastest` asks for it in processes of its own.
void measure_candidate(const BenchFlags& flags, OpenModel& model, const BenchmarkOptions& options,
                       const Context& context) {
  if (const auto sentences = flags.pool ? checkpoint::sentence_model_of(flags.samples_of) : std::nullopt) {
    model.settings.options.pooled_output = embedding::graph_pooling(*sentences, model.info.signature);
  }
  const Runtime runtime = model.load();
  const evaluation::VariantSamples samples = evaluation::samples_at_hand(flags.samples_of, runtime);
  Json more{{"measured_on", samples.what}};
  if (flags.compare) {
    const evaluation::Answers expected =
        evaluation::answers_on_cpu(flags.samples_of, samples.ask, model.settings.options);
    const evaluation::Agreement agreement = evaluation::agreement(expected, samples.ask(runtime));
    more["agreement"] = {{"mean_cosine", agreement.mean}, {"least_cosine", agreement.least}};
  }
  print_benchmark(context, runtime, samples.typical(runtime), options, flags.output, more);
}

bool asks_for_text(const BenchFlags& flags) {
  return flags.prompt_tokens || flags.generate_tokens || !flags.users.empty() || !flags.draft.empty();
}

// What is rounded by keys and values in int8, which nothing else shows.
Json cache_agreement(const generation::QuantizationAgreement& agreement, const Context& context) {
  constexpr double percent = 100;
  say(context, fmt::format("keys and values in int8: perplexity {:.2f}, {:.2f} as in the model's file ({:.3f} times); "
                           "the same most probable token at {:.1f} % of {} positions of {}",
                           agreement.quantized_perplexity, agreement.perplexity, agreement.ratio(),
                           percent * agreement.same_token, agreement.positions, agreement.what));
  return {{"perplexity", agreement.quantized_perplexity},
          {"original_perplexity", agreement.perplexity},
          {"same_token", agreement.same_token},
          {"positions", agreement.positions},
          {"texts", agreement.what}};
}

// What does not go with models that generate text, or with others, is refused by name.
void measure_generation(const BenchFlags& flags, const OpenModel& model, const Context& context) {
  if (given(flags.inputs) || !flags.synthetic.dimensions.empty() || flags.seconds) {
    throw Error(ErrorCode::usage,
                "--input, --file, --dim and --seconds are not for models that generate text; accepted: "
                "--prompt-tokens, --generate-tokens, --users, --runs, --warmup");
  }
  GeneratorOptions options;
  const std::vector<std::size_t> users = flags.users.empty() ? std::vector<std::size_t>{1, 4} : flags.users;
  options.max_sequences = std::max(options.max_sequences, std::ranges::max(users));
  options.reuses_prefixes = false;
  // What a model makes of random tokens repeats itself as no text of its users does.
  options.prompt_lookup = false;
  options.draft = flags.draft;
  options.cache_precision = flags.cache_precision;
  const OpenGenerator open = open_generator(model, flags.draft, flags.load);
  const std::unique_ptr<generation::Engine> engine = open.load(options);
  if (const auto absence = provider::absence_of(engine->runtime().verdict())) {
    throw Error(ErrorCode::provider_unavailable, to_line(*absence));
  }
  generation::MeasuredLoad load =
      generation::load_for(engine->context_length(), flags.prompt_tokens, flags.generate_tokens);
  load.rounds = flags.runs.value_or(load.rounds);
  load.warmup_rounds = flags.warmup.value_or(load.warmup_rounds);
  const unsigned threads = model.settings.options.intra_threads.value_or(usable_cores(Machine::this_one()));
  Json more = Json::object();
  if (flags.cache_precision == CachePrecision::int8) {
    const auto agreement = kept_cache_agreement(open, engine->runtime());
    if (agreement) more["cache_agreement"] = cache_agreement(*agreement, context);
  }
  print_generation_benchmark(context, *engine, load, users, threads, flags.output, more);
}

void measure_here(const BenchFlags& flags, Context& context) {
  if (given(flags.inputs) && !flags.synthetic.dimensions.empty()) {
    throw Error(ErrorCode::usage, "--dim is for synthetic inputs, and --input gives other inputs: use one of them");
  }
  OpenModel model = open_model(flags.model, flags.config, flags.load);
  if (model.steps.empty() && generation::decoder_signature(model.info))
    return measure_generation(flags, model, context);
  if (asks_for_text(flags)) {
    throw Error(ErrorCode::usage, fmt::format("'{}' generates no text: --prompt-tokens, --generate-tokens, --users and "
                                              "--draft are for models that do",
                                              flags.model));
  }
  BenchmarkOptions options;
  options.runs = flags.runs.value_or(options.runs);
  options.warmup_runs = flags.warmup.value_or(options.warmup_runs);
  options.seconds = flags.seconds;
  if (!flags.samples_of.empty()) return measure_candidate(flags, model, options, context);
  MadeInputs inputs;
  if (given(flags.inputs)) {
    model.open_inputs();
    const pipeline::Items items = model.read(flags.inputs);
    if (items.is_list) throw Error(ErrorCode::usage, "bench measures one input, not a list");
    inputs.values = model.own_inputs(items.items.front());
  } else {
    inputs = make_inputs(flags.synthetic, model);
  }
  const Runtime runtime = model.load();
  if (const auto absence = provider::absence_of(runtime.verdict())) {
    context.exit_code = static_cast<int>(ErrorCode::provider_unavailable);
    return print_not_run(context, runtime.verdict(), *absence, flags.output);
  }
  print_benchmark(context, runtime, inputs, options, flags.output);
}

bool names_provider(const std::string& request) {
  const std::string word = lower(request);
  return word != "auto" && word != "fastest";
}

// Each in a process of its own: they may need different libraries of ONNX Runtime, and each has its own peak memory.
void measure_side_by_side(const BenchFlags& flags, const CLI::App& command, Context& context) {
  const ScratchFolder folder;
  std::vector<std::string> typed;
  std::vector<std::string> except{"provider", "output", "json", "table"};
  if (reads_standard_input(flags.inputs)) {
    const std::filesystem::path copy = folder.path() / "standard_input";
    write_file_atomically(copy, read_standard_input());
    typed.push_back(fmt::format("--file={}", copy.string()));
    except.insert(except.end(), {"input", "file"});
    for (const std::string& input : flags.inputs.inputs) {
      if (!is_standard_input(input)) typed.push_back(fmt::format("--input={}", input));
    }
  }
  const std::vector<std::string> rest = typed_arguments(command, except);
  typed.insert(typed.end(), rest.begin(), rest.end());

  std::vector<Json> results;
  int failure = 0;
  bool any_ran = false, any_named_ran = false, names_any = false;
  for (std::size_t i = 0; i < flags.providers.size(); ++i) {
    const std::string& provider = flags.providers[i];
    draw_progress(context, static_cast<double>(i) / static_cast<double>(flags.providers.size()),
                  fmt::format("measuring {}", provider));
    std::vector<std::string> arguments{"bench", "--json", fmt::format("--provider={}", provider)};
    arguments.insert(arguments.end(), typed.begin(), typed.end());
    const ProcessResult child = run_child(std::move(arguments));
    // Where the provider did not run there is a result as well: the reason, without figures.
    Json result = Json::parse(child.standard_output, nullptr, false);
    const bool says_why = result.is_object() && result.contains("error");
    if (!result.is_object() || (child.exit_code != 0 && !says_why)) {
      result = failed_result(provider, child_error(child));
    }
    const bool ran = !result.contains("error"), is_named = names_provider(provider);
    if (!ran && failure == 0) failure = result["error"]["exit_code"];
    any_ran = any_ran || ran;
    names_any = names_any || is_named;
    any_named_ran = any_named_ran || (ran && is_named);
    results.push_back(std::move(result));
  }
  draw_progress(context, 1, "");
  const bool is_enough = names_any ? any_named_ran : any_ran;
  if (!is_enough || flags.load.strict) context.exit_code = failure;
  print_benchmarks(context, results, flags.output);
  for (const Json& result : results) {
    if (!result.contains("error") || !context.wants_json()) continue;
    say(context, failure_line(result));
  }
}

void measure(BenchFlags& flags, const CLI::App& command, Context& context) {
  if (flags.runs == std::uint64_t{0}) throw Error(ErrorCode::usage, "--runs is 0; a benchmark needs at least 1");
  if (flags.seconds && !(*flags.seconds > 0)) {
    throw Error(ErrorCode::usage, fmt::format("--seconds is {}; accepted: a time above 0", *flags.seconds));
  }
  flags.model = pull_argument(flags.model, flags.pull, context);
  flags.draft = pull_argument(flags.draft, flags.pull, context);
  if (flags.providers.size() > 1) return measure_side_by_side(flags, command, context);
  if (!flags.providers.empty()) flags.load.provider = {flags.providers.front(), flag_source("--provider")};
  measure_here(flags, context);
}

}  // namespace

void add_bench(CLI::App& program, Context& context) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* command =
      add_command(program, context, "bench", "Measure the speed of a model, on one or several providers");
  command->add_option("MODEL", flags->model, "an .onnx file, a folder with gpux.yml, or a name: NAME[:TAG]")
      ->required();
  command
      ->add_option("-p,--provider", flags->providers, "the provider (see gpux run); repeatable, to compare providers")
      ->allow_extra_args(false);
  command->add_option("--runs", flags->runs, "measured runs (default 100; 3 of a model that generates text)")
      ->check(run_counts());
  command->add_option("--seconds", flags->seconds, "measure for this time instead of --runs");
  command->add_option("--warmup", flags->warmup, "unmeasured runs before (default 10; 1)")->check(run_counts());
  command->add_option("--prompt-tokens", flags->prompt_tokens,
                      "models that generate text: tokens of a prompt (default 512)");
  command->add_option("--generate-tokens", flags->generate_tokens, "the same: tokens after it (default 128)");
  command
      ->add_option("--users", flags->users,
                   "the same: prompts at once, 1 to 256; several numbers are columns side by side (default 1,4)")
      ->delimiter(',')
      ->allow_extra_args(false);
  add_draft_flag(*command, flags->draft);
  add_cache_precision_flag(*command, flags->cache_precision);
  add_input_flags(*command, flags->inputs);
  add_synthetic_flags(*command, flags->synthetic);
  command->add_option("-o,--output", flags->output, "write the figures as JSON to this file instead of printing them");
  command->add_option("-c,--config", flags->config, "another gpux.yml");
  command->add_option("--samples-of", flags->samples_of)->group("");
  command->add_flag("--compare", flags->compare)->group("");
  command->add_flag("--pool", flags->pool)->group("");
  add_pull_flag(*command, flags->pull);
  add_load_flags(*command, flags->load, false);
  command->callback([flags, command, &context] { measure(*flags, *command, context); });
}

}  // namespace gpux::cli

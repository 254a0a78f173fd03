#include <algorithm>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "base/files.h"
#include "base/home.h"
#include "base/spelling.h"
#include "cli/bench_output.h"
#include "cli/command.h"
#include "cli/flag_names.h"
#include "cli/inputs.h"
#include "cli/label_flags.h"
#include "cli/load_flags.h"
#include "cli/model_argument.h"
#include "cli/print_json.h"
#include "cli/pull_flag.h"
#include "cli/zero_shot_images.h"
#include "embedding/image_paths.h"
#include "generation/decoder.h"
#include "gpux/error.h"
#include "gpux/runtime.h"
#include "model/made_inputs.h"
#include "model/open_model.h"
#include "model/output_files.h"
#include "model/run_items.h"
#include "pipeline/zero_shot.h"
#include "runtime/sharing/run_sharing.h"

namespace gpux::cli {
namespace {

struct RunFlags {
  ModelArgument words;
  std::string model, config, output, report, nonfinite = "null", pull;
  InputFlags inputs;
  LoadRequest load;
  LabelFlags labels;
  std::vector<std::string> outputs;
  bool benchmark = false;
  std::uint64_t runs = 100, warmup = 10;
};

void write_report(const std::string& file, const Runtime& runtime, double run_ms, std::size_t items,
                  const RunSharing& sharing) {
  if (file.empty()) return;
  write_file_atomically(
      file, fmt::format("{{\"verdict\": {}, \"run_sharing\": {}, \"timings\": {{\"load_ms\": {:.3f}, "
                        "\"run_ms\": {:.3f}, \"items\": {}}}}}\n",
                        json_text_of(runtime.verdict()), to_json(sharing), runtime.load_time().count(), run_ms, items));
}

// What can be known before the model is loaded is not left until its answers are there.
void check_output(const RunFlags& flags, const Signature& signature, bool is_list) {
  if (flags.output.empty() || flags.benchmark) return;
  std::vector<SignatureEntry> outputs;
  for (const SignatureEntry& entry : signature.outputs) {
    const bool selected = std::find(flags.outputs.begin(), flags.outputs.end(), entry.name) != flags.outputs.end();
    if (selected || flags.outputs.empty()) outputs.push_back(entry);
  }
  if (!outputs.empty()) check_output_fits(flags.output, outputs, is_list);
}

pipeline::Items inputs_of(const RunFlags& flags, const OpenModel& model) {
  if (given(flags.inputs)) return model.read(flags.inputs);
  auto piped = read_piped_inputs(model.signature(), model.image_input ? &*model.image_input : nullptr);
  return piped ? *std::move(piped) : model.read(flags.inputs);
}

// `run` makes a step of a decoder, with its keys and values: more than a text gives.
[[noreturn]] void refuse_generator(const RunFlags& flags, const OpenModel& model) {
  std::vector<std::string> names;
  for (const SignatureEntry& entry : model.info.signature.inputs) names.push_back(entry.name);
  constexpr std::size_t shown = 4;
  const std::size_t all = names.size();
  names.resize(std::min(all, shown));
  throw Error(ErrorCode::usage,
              fmt::format("run: '{0}' generates text: 'gpux generate {0} PROMPT' continues one, and 'gpux chat {0}' "
                          "answers messages where the model has a chat template; run makes one step, and needs its {1} "
                          "inputs: {2}{3}",
                          flags.model, all, join(names), all > shown ? ", …" : ""));
}

bool has_all_inputs(const pipeline::Items& inputs, const Signature& signature) {
  return std::ranges::all_of(inputs.items, [&](const NamedValues& item) {
    return std::ranges::all_of(signature.inputs, [&](const SignatureEntry& entry) {
      return !entry.required || find(item, entry.name) != nullptr;
    });
  });
}

// Whether what is given can only be meant as a text.
bool gives_words(const InputFlags& flags) {
  const auto is_word = [](const std::string& word) { return word.find_first_of("{[@") != 0; };
  return !given(flags) || std::ranges::any_of(flags.words, is_word);
}

pipeline::Items checked_inputs(const RunFlags& flags, const OpenModel& model) {
  const bool is_generator = !model.pipeline && generation::decoder_signature(model.info).has_value();
  if (!is_generator || flags.benchmark) return inputs_of(flags, model);
  try {
    pipeline::Items inputs = inputs_of(flags, model);
    if (has_all_inputs(inputs, model.info.signature)) return inputs;
  } catch (const Error&) {
    if (!gives_words(flags.inputs)) throw;
  }
  refuse_generator(flags, model);
}

ZeroShotOptions zero_shot_of(const RunFlags& flags) {
  if (flags.benchmark || !flags.output.empty() || !flags.outputs.empty()) {
    throw Error(ErrorCode::usage,
                "--labels prints the labels with their scores: accepted without --benchmark, --output "
                "and --output-name");
  }
  ZeroShotOptions options;
  options.labels = flags.labels.labels;
  options.multi_label = flags.labels.multi_label;
  if (!flags.labels.label_template.empty()) options.hypothesis_template = flags.labels.label_template;
  pipeline::check_zero_shot(options);
  return options;
}

std::vector<std::string> texts_in(const NamedValues& item) {
  const Value* text = find(item, "text");
  if (item.size() != 1 || text == nullptr || text->tensor() == nullptr) {
    throw Error(ErrorCode::invalid_input, "--labels judges texts: give texts alone");
  }
  const auto strings = text->tensor()->strings();
  return {strings.begin(), strings.end()};
}

// {"sequence", "labels", "scores"} of each text, as transformers' pipeline has it.
void run_zero_shot(const RunFlags& flags, const OpenModel& model, const pipeline::Items& inputs,
                   const ZeroShotOptions& options, Context& context) {
  std::vector<std::string> texts;
  for (const NamedValues& item : inputs.items) {
    for (std::string& text : texts_in(item)) texts.push_back(std::move(text));
  }
  const std::size_t entailment = pipeline::entailment_index(model.pipeline->settings().labels, flags.model);
  const Runtime runtime = model.load();
  const InferOptions infer{.timeout = model.settings.timeout(), .outputs = {model.pipeline->logits()}};
  Json all = Json::array();
  const auto start = std::chrono::steady_clock::now();
  for (const std::string& text : texts) {
    const NamedValues outputs =
        pipeline::infer(*model.pipeline, runtime, pipeline::zero_shot_pairs({&text, 1}, options), infer);
    const auto scores = pipeline::zero_shot_scores(*outputs.front().second.tensor(), entailment, options).front();
    Json labels = Json::array();
    Json numbers = Json::array();
    for (const LabelScore& one : scores) {
      labels.push_back(one.label);
      numbers.push_back(Json::parse(fmt::format("{}", static_cast<float>(one.score))));
    }
    all.push_back({{"sequence", text}, {"labels", std::move(labels)}, {"scores", std::move(numbers)}});
  }
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
  say(context, line_of(runtime.verdict()));
  print_json(inputs.is_list || all.size() != 1 ? all : all.front());
  write_report(flags.report, runtime, taken.count(), texts.size(), sharing_of(model, runtime, inputs.items));
}

// `run` prints the outputs of one ONNX file, and images are those of the other.
void refuse_images_without_labels(const RunFlags& flags, const LocatedModel& located) {
  std::vector<std::string> words = flags.inputs.words;
  words.insert(words.end(), flags.inputs.inputs.begin(), flags.inputs.inputs.end());
  const auto image = std::ranges::find_if(words, embedding::is_image_argument);
  if (image == words.end() || !has_image_tower(located)) return;
  throw Error(ErrorCode::usage,
              fmt::format("run: '{0}' has one tower for texts and one for images, whose vectors 'gpux embed {0} {1}' "
                          "prints; --labels cat,dog gives the image scores of labels",
                          flags.model, *image));
}

void check_labels_of_images(const RunFlags& flags) {
  if (!flags.benchmark && flags.output.empty() && flags.outputs.empty() && flags.config.empty() &&
      flags.report.empty() && flags.inputs.inputs.empty() && flags.inputs.file.empty()) {
    return;
  }
  throw Error(ErrorCode::usage,
              "--labels prints the labels of images with their scores: accepted without --benchmark, --output, "
              "--output-name, --config, --report, --input and --file");
}

void run_and_print(const RunFlags& flags, const OpenModel& model, const Runtime& runtime, const pipeline::Items& inputs,
                   const Context& context) {
  const NonFinite nonfinite = flags.nonfinite == "string" ? NonFinite::string : NonFinite::null;
  const auto start = std::chrono::steady_clock::now();
  const InferOptions options{.timeout = model.settings.timeout(), .outputs = flags.outputs};
  const std::vector<NamedValues> results =
      inputs.is_list ? run_items(model, runtime, inputs.items, options)
                     : std::vector<NamedValues>{run_item(model, runtime, inputs.items.front(), options)};
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
  const std::vector<DeclaredValue> declared = model.declared_outputs();
  say(context, line_of(runtime.verdict()));
  const RunSharing sharing = sharing_of(model, runtime, inputs.items);
  // Of a short list that runs one by one there is nothing to say.
  if (sharing.shared ||
      (sharing.source != RunSharing::Source::single_run && inputs.items.size() >= runtime::min_requests_for_a_trial)) {
    say(context, to_line(sharing));
  }
  if (flags.output.empty()) {
    print_data(pipeline::results_json(results, inputs.is_list, declared, nonfinite));
  } else {
    write_results(flags.output, results, inputs.is_list, model.signature().outputs, declared, nonfinite);
    say(context, fmt::format("wrote {}", flags.output));
  }
  write_report(flags.report, runtime, taken.count(), inputs.items.size(), sharing);
}

void run_model(RunFlags& flags, Context& context) {
  PlacedWords placed = place_words(flags.words);
  flags.model = std::move(placed.model);
  flags.inputs.words = std::move(placed.words);
  if (flags.model.empty() && !flags.words.first) {
    throw Error(ErrorCode::usage, "run: give the model, as the first word or with -m; see 'gpux run --help'");
  }
  if (context.table && !flags.benchmark) {
    throw Error(ErrorCode::usage, "--table: run prints the outputs as JSON; with --benchmark it prints a table");
  }
  if (!flags.output.empty() && !flags.benchmark) check_output_name(flags.output);
  flags.model = pull_argument(flags.model, flags.pull, context);
  LocatedModel located = locate_model(flags.model, flags.config);
  if (flags.labels.given() && has_image_tower(located)) {
    check_labels_of_images(flags);
    run_zero_shot_images(flags.model, located, flags.inputs.words, flags.labels, flags.load, context);
    return;
  }
  refuse_images_without_labels(flags, located);
  OpenModel model = open_model(std::move(located), flags.load);
  if (flags.benchmark) note_isolation_obstacle(model.settings, "it is measured");
  model.open_inputs();
  std::optional<ZeroShotOptions> zero_shot;
  if (flags.labels.given()) {
    zero_shot = zero_shot_of(flags);
    const bool classifies = model.pipeline && model.pipeline->settings().task == pipeline::Task::text_classification;
    (void)pipeline::entailment_index(classifies ? model.pipeline->settings().labels : std::vector<std::string>(),
                                     flags.model);
  }
  MadeInputs made;
  pipeline::Items inputs;
  if (flags.benchmark && !given(flags.inputs)) {
    made = make_inputs(model, {}, 0);
    inputs.items.push_back(made.values);
  } else {
    inputs = checked_inputs(flags, model);
  }
  if (zero_shot) {
    run_zero_shot(flags, model, inputs, *zero_shot, context);
    return;
  }
  check_output(flags, model.signature(), inputs.is_list);
  const Runtime runtime = model.load();
  if (flags.benchmark) {
    if (inputs.is_list) throw Error(ErrorCode::usage, "--benchmark measures one input, not a list");
    made.values = model.own_inputs(inputs.items.front());
    print_benchmark(context, runtime, made, {.runs = flags.runs, .warmup_runs = flags.warmup}, flags.output);
    write_report(flags.report, runtime, 0, 0, {false, RunSharing::Source::single_run, "there is one input"});
    return;
  }
  run_and_print(flags, model, runtime, inputs, context);
}

}  // namespace

void add_run(CLI::App& program, Context& context) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App* command = add_command(program, context, "run", "Run a model on inputs and print its outputs as JSON");
  command->get_option("--table")->description("with --benchmark: a table (the default)");
  command->add_option("MODEL", flags->words.first,
                      "an .onnx file, a folder with gpux.yml, or a name: NAME[:TAG]; with -m the first INPUT");
  add_words(*command, "INPUT", flags->words.rest,
            "a text, JSON, @FILE, or - for standard input (default if it is a pipe); several are a list");
  command->add_option("-m,--model", flags->words.flag, "the model; then all arguments are inputs");
  add_input_flags(*command, flags->inputs);
  command->add_option("-o,--output", flags->output,
                      "write the outputs to FILE.{json,npz,npy,pb} instead of printing them");
  command->add_option("--output-name", flags->outputs, "only these outputs; repeatable")->allow_extra_args(false);
  command->add_option("--non-finite", flags->nonfinite, "NaN and infinities as: null, string")
      ->check(CLI::IsMember({"null", "string"}));
  command->add_option("--report", flags->report, "write the provider verdict and the timings to this JSON file");
  command->add_option("-c,--config", flags->config, "another gpux.yml");
  add_pull_flag(*command, flags->pull);
  add_label_flags(*command, flags->labels);
  add_timeout_flag(*command, flags->load);
  add_batch_axis_flag(*command, flags->load);
  command->add_flag("--benchmark,!--no-benchmark", flags->benchmark, "measure the model (see gpux bench)");
  command->add_option("--runs", flags->runs, "measured runs of --benchmark")->check(run_counts());
  command->add_option("--warmup", flags->warmup, "unmeasured runs of --benchmark")->check(run_counts());
  add_load_flags(*command, flags->load);
  add_isolation_flag(*command, flags->load, WorkerUse::once);
  command->footer(
      "Examples:\n"
      "  gpux run model.onnx --input '{\"x\": [[1, 2, 3]]}'\n"
      "  gpux run sentiment 'what a lovely day'\n"
      "  gpux run digits @digit.png\n"
      "  gpux run nli 'the parcel never came' --labels delivery,payment\n"
      "  gpux run digits:1.0.0 --input image=@digit.npy --provider cuda,cpu --output result.json");
  command->callback([flags, &context] { run_model(*flags, context); });
}

}  // namespace gpux::cli
